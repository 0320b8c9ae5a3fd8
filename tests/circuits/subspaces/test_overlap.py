"""Overlap: principal angles on paper, of random subspaces, of trained heads; the command."""

import json
from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.algebra import Dense, Space
from pathexp.circuits.subspaces.overlap import overlap, subspace_overlap
from pathexp.circuits.subspaces.ranges import fills, written_basis
from pathexp.cli import main


def plane(*axes, size=4):
    """A map that writes (or, transposed, reads) some coordinates."""
    array = np.eye(size)[:, list(axes)]
    return Dense(array, Space("model", size), Space("inner", len(axes)))


def test_principal_angles_on_paper():
    same, apart = subspace_overlap(plane(0, 1), plane(0, 1).T), subspace_overlap(plane(0, 1), plane(2, 3).T)
    np.testing.assert_allclose(same.cosines, [1, 1])
    np.testing.assert_allclose(apart.cosines, [0, 0], atol=1e-15)
    half = subspace_overlap(plane(0, 1), plane(1, 2).T)
    np.testing.assert_allclose(sorted(half.cosines), [0, 1], atol=1e-15)
    assert same.overlap == pytest.approx(1) and half.overlap == pytest.approx(0.5) == same.baseline


def test_random_subspaces_overlap_by_chance():
    found = [
        overlap(
            px.random_model(layers=2, heads=1, d_model=32, d_head=4, seed=s), writer="L0H0", reader="L1H0.V"
        )[0]
        for s in range(40)
    ]
    mean = np.mean([one.overlap for one in found])
    assert abs(mean - found[0].baseline) < 4 * found[0].deviation / np.sqrt(40)


def test_the_induction_head_reads_what_the_previous_token_head_writes():
    model = px.load("attn-2l")
    keys, other = (
        overlap(model, writer="L0H2", reader="L1H0.K")[0],
        overlap(model, writer="L0H2", reader="L1H0.V")[0],
    )
    assert keys.z > 20 and keys.overlap > other.overlap
    with pytest.raises(px.PathexpError, match="before"):
        overlap(model, writer="L1H0", reader="L0H2.K")[0]


def test_overlaps_rank_every_pair_and_agree_with_single_ones():
    model = px.load("attn-2l")
    found = overlap(model)
    assert len(found) == 16 + 1 + 3 * 16 + 8 * 3 * 8, "writers to U, E to readers, L0 to readers of L1"
    assert (found[0].writer, found[0].reader) == ("L0H2", "L1H0.K")
    assert {pair.reader for pair in found.pairs[:4]} == {"L1H0.K", "L1H2.K", "L1H3.K", "L1H5.K"}
    one = overlap(model, writer=found[0].writer, reader=found[0].reader)[0]
    np.testing.assert_allclose(one.cosines, found[0].cosines, atol=1e-12)
    grouped = px.random_model(layers=2, heads=4, kv_heads=2, d_mlp=6, gated=True, norm="rmsnorm", biases=True)
    readers = {pair.reader for pair in overlap(grouped)}
    assert {"L1H2.K", "L1M.gate", "L1M.in", "U"} <= readers and "L1H1.K" not in readers


def test_angles_between_maps_of_different_spaces_are_refused():
    small, large = (Dense(np.eye(n), Space("stream", n), Space("stream", n)) for n in (2, 3))
    with pytest.raises(px.PathexpError, match="no subspaces of one space"):
        subspace_overlap(small, large)


def test_a_writer_or_a_reader_alone_chooses_its_pairs():
    model = px.load("attn-2l")
    every = overlap(model)
    for side, label in (("writer", "L0H2"), ("reader", "L1H0.K")):
        chosen = {(p.writer, p.reader): p.overlap for p in every if getattr(p, side) == label}
        found = {(p.writer, p.reader): p.overlap for p in overlap(model, **{side: label})}
        assert list(found) == list(chosen)
        assert found == pytest.approx(chosen, rel=1e-12)


def test_a_head_against_itself():
    """What a head writes beside what it reads: a head that writes where its values read has an overlap of 1."""
    model = px.random_model(layers=1, heads=2, d_model=12, d_head=3, positions="none", seed=3)
    w = model.weights
    W_O = np.array(w.W_O)
    W_O[0, 0] = w.W_V[0, 0].T
    same = px.Model(model.config, type(w)(**{**w.arrays(), "W_O": W_O}))
    assert overlap(same, writer="L0H0", reader="L0H0.V")[0].overlap == pytest.approx(1)
    assert overlap(same, writer="L0H1", reader="L0H1.V")[0].overlap < 0.9
    with pytest.raises(px.PathexpError, match="before"):
        overlap(same, writer="L0H1", reader="L0H0.V")
    assert ("L0H0", "L0H0.V") not in {(p.writer, p.reader) for p in overlap(same)}


def test_a_zero_map_has_no_overlap_and_says_why(capsys, tmp_path):
    model = px.random_model(layers=2, heads=2, d_vocab=9, seed=1)
    w = model.weights
    W_V = np.array(w.W_V)
    W_V[0, 1] = 0
    px.Model(model.config, type(w)(**{**w.arrays(), "W_V": W_V})).save(tmp_path / "zero.npz")
    assert main(["overlap", str(tmp_path / "zero.npz"), "--json"]) == 0
    data = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    undefined = [row for row in data["tables"]["pairs"]["rows"] if row["overlap"] is None]
    assert undefined and all("L0H1" in row["writer"] + row["reader"] for row in undefined)
    assert any("that map is zero" in note and "L0H1.V" in note for note in data["notes"])
    assert main(["overlap", str(tmp_path / "zero.npz"), "--top", "99"]) == 0
    printed = capsys.readouterr().out
    assert "nan" not in printed and "that map is zero" in printed


def test_the_command_prints_the_same_answer(capsys):
    model = px.load("attn-2l")
    assert main(["overlap", "attn-2l", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(overlap(model).to_json())
    assert main(["overlap", "attn-2l", "--writer", "L0H2", "--reader", "L1H0.K"]) == 0
    printed = capsys.readouterr().out
    assert "0.604" in printed and "principal angles" in printed and "+49.8" in printed
    assert main(["overlap", "attn-2l", "--writer", "L9H2"]) == 2
    assert main(["overlap", "attn-0l"]) == 0 and "nan" not in capsys.readouterr().out


def test_the_picture_shows_the_induction_heads():
    found = overlap(px.load("attn-2l"))
    data = found.figures()["overlap"].data
    row = data["values"][data["rows"].index("L0H2")]
    large = {
        column
        for column, value in zip(data["columns"], row, strict=True)
        if value is not None and value > 0.3
    }
    assert large == {f"L1H{head}.K" for head in (0, 2, 3, 5, 7)}
    one = overlap(px.load("attn-2l"), writer="L0H2", reader="L1H0.K")
    assert len(one.figures()["angles"].data["rows"]) == 16 == len(one.tables()["angles"].rows)


@pytest.mark.parametrize(
    "ask",
    [
        lambda model: overlap(None, writer="E", reader="U"),
        lambda model: overlap(model, writer="E", reader=3),
        lambda model: overlap(model, writer=b"E"),
        lambda model: overlap(model, writer="L9H0", reader="U"),
        lambda model: overlap(model, writer="E", reader="L0H0.X"),
        lambda model: overlap(model, writer="U", reader="E"),
        lambda model: overlap(model, norms="other"),
        lambda model: overlap(model)[999],
    ],
)
def test_what_cannot_be_asked_is_refused_by_name(ask):
    with pytest.raises(px.PathexpError):
        ask(px.load("attn-1l"))


def test_all_pairs_at_once_are_the_squared_cosines_of_each():
    """Grouped heads, an MLP narrower than the stream and one that fills it, a head of lower rank, a zero map."""
    model = px.random_model(layers=3, heads=4, kv_heads=2, d_model=20, d_head=5, d_mlp=40, seed=4)
    weights = {name: np.array(array) for name, array in model.weights.arrays().items()}
    weights["W_O"][0, 1] = 0.0
    weights["W_V"][1, 0, 3:] = 0.0
    weights["W_out"][1, :, 12:] = 0.0
    found = overlap(replace(model, weights=px.Weights(**weights)))
    ranks = {pair.writer: pair.ranks[0] for pair in found}
    assert (ranks["L0M"], ranks["L1M"], ranks["L1H0"], ranks["L0H1"]) == (20, 12, 3, 0)
    for pair in found:
        assert pair.overlap == pytest.approx(
            np.mean(pair.cosines**2) if min(pair.ranks) else np.nan, abs=1e-13, nan_ok=True
        )


@pytest.mark.parametrize("least", [0.0, 1e-12, 1e-9, 1e-7, 1e-3])
def test_what_nearly_fills_the_stream_has_the_rank_of_its_singular_values(least):
    """A wide map whose smallest singular value is near the cutoff: the shortcut never says more than the values do."""
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.standard_normal((size, 12)))[0] for size in (12, 100))
    values = np.array([*np.linspace(1, 0.5, 11), least])
    map = Dense(left @ np.diag(values) @ right.T, Space("stream", 12), Space("neurons", 100))
    assert written_basis(map).shape[1] == (12 if least > 1e-10 else 11)
    assert not fills(map) or least > 1e-10
