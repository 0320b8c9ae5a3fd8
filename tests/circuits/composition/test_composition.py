"""Composition scores against the dense definition, on paper, and against random rotations of the stream."""

import json
import pickle
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from pathexp import Model, Weights, composition, head, load, random_model
from pathexp.circuits.composition import gram, sides
from pathexp.circuits.composition.composition_path import path_composition
from pathexp.circuits.composition.gram import meet
from pathexp.circuits.composition.head_sides import HeadSides
from pathexp.circuits.composition.sides import Side, WideSide
from pathexp.cli import main
from pathexp.errors import GraphError, PathError, PathexpError
from pathexp.graph.ports import Ports
from pathexp.model import Config

SIZES = {"layers": 3, "heads": 4, "kv_heads": 2, "d_model": 14, "d_head": 3, "d_vocab": 40, "biases": True}
MODELS = {
    "plain": random_model(**SIZES, seed=1),
    "layernorm": random_model(**SIZES, norm="layernorm", seed=2),
    "rmsnorm": random_model(**SIZES, norm="rmsnorm", d_mlp=30, gated=True, seed=3),
    "sandwich": random_model(**SIZES, norm="layernorm", norm_placement="sandwich", d_mlp=9, seed=4),
    "parallel": random_model(**SIZES, norm="layernorm", parallel="shared", d_mlp=9, seed=5),
    "rotary": random_model(
        **SIZES | {"d_head": 4}, norm="rmsnorm", qk_norm="head", positions="rotary", seed=6
    ),
}


def frobenius(*maps):
    product = np.linalg.multi_dot(maps) if len(maps) > 1 else maps[0]
    return np.linalg.norm(product)


def gain(model, site, layer):
    """A norm's gain and centering as a dense map, by hand."""
    c = model.config
    values = getattr(model.weights, f"g_{site}", None)
    there = site in c.block_norms or site == "final"
    if not there or values is None:
        return np.eye(c.d_model)
    centered = np.eye(c.d_model) - (1 / c.d_model if c.norm == "layernorm" else 0)
    return np.diag(values if values.ndim == 1 else values[layer]) @ centered


def dense_head(model, layer, head, norms):
    """W_QK and W_OV of a head by the plain definition."""
    w, group = model.weights, head // (model.config.n_heads // model.config.n_kv_heads)
    read = gain(model, "attn", layer) if norms == "folded" else np.eye(model.config.d_model)
    write = gain(model, "attn_post", layer) if norms == "folded" else np.eye(model.config.d_model)
    q, k = w.W_Q[layer, head], w.W_K[layer, group]
    if norms == "folded" and w.g_q is not None:
        q, k = w.g_q[layer][:, None] * q, w.g_k[layer][:, None] * k
    return (q @ read).T @ (k @ read), write @ w.W_O[layer, head] @ w.W_V[layer, group] @ read


@pytest.mark.parametrize("norms", ["raw", "folded"])
@pytest.mark.parametrize("name", MODELS)
def test_scores_are_the_dense_definition(name, norms):
    model = MODELS[name]
    scores = composition(model, norms=norms)
    assert scores.q.shape == scores.k.shape == scores.v.shape == (3, 4, 3, 4)
    for (a, h, b, g), found in np.ndenumerate(scores.q):
        if a <= b:
            assert np.isnan([found, scores.k[a, h, b, g], scores.v[a, h, b, g]]).all()
            continue
        (qk, ov), (_, written) = dense_head(model, a, h, norms), dense_head(model, b, g, norms)
        expected = [frobenius(w, written) / frobenius(w) / frobenius(written) for w in (qk.T, qk, ov)]
        np.testing.assert_allclose([found, scores.k[a, h, b, g], scores.v[a, h, b, g]], expected, rtol=1e-11)
    assert scores.undefined == ()


def test_grouped_queries_share_the_right_key_and_value_heads():
    """Query heads 0, 1 read key/value head 0 and 2, 3 head 1: zeroing that of 2, 3 leaves 0, 1 as they are."""
    model = MODELS["plain"]
    w = model.weights
    values = w.W_V.copy()
    values[0, 1] = 0.0
    changed = Model(model.config, replace(w, W_V=values))
    before, after = composition(model), composition(changed)
    np.testing.assert_array_equal(after.v[1, :, 0, :2], before.v[1, :, 0, :2])
    assert np.isnan(after.v[1, :, 0, 2:]).all()
    assert after.undefined == ("L0H2.V", "L0H3.V", "L0H2", "L0H3")


def two_layers(read, written):
    """Two layers of one head of rank one: the first writes along one direction, the second reads another."""
    config = Config(n_layers=2, n_heads=1, d_model=2, d_head=1, d_vocab=2, n_ctx=4)
    row, column = np.array(read, float)[None], np.array(written, float)[:, None]
    ones = np.ones((1, 2))
    return Model(
        config,
        Weights(
            W_E=np.eye(2),
            W_Q=[[ones], [ones]],
            W_K=[[ones], [row]],
            W_V=[[ones], [row]],
            W_O=[[column], [np.ones((2, 1))]],
            W_U=np.eye(2),
        ),
    )


def test_rank_one_is_the_cosine_between_what_is_written_and_what_is_read():
    scores = composition(two_layers(read=[1, 1], written=[1, 0]))
    assert scores.v[1, 0, 0, 0] == pytest.approx(0.70710678, abs=1e-8)
    assert scores.k[1, 0, 0, 0] == pytest.approx(0.70710678, abs=1e-8)
    larger = composition(two_layers(read=[1e6, 1e6], written=[1, 0]))
    assert larger.v[1, 0, 0, 0] == pytest.approx(scores.v[1, 0, 0, 0], rel=1e-14)


def test_what_is_read_at_a_right_angle_scores_zero_and_not_rounding():
    scores = composition(two_layers(read=[3, 1], written=[-1, 3]))
    assert scores.v[1, 0, 0, 0] < 1e-16
    nearly = composition(two_layers(read=[1, 1e-9], written=[0, 1]))
    assert nearly.v[1, 0, 0, 0] == pytest.approx(1e-9, rel=1e-12)


def test_a_zero_map_is_undefined_and_said_so():
    scores = composition(two_layers(read=[1, 1], written=[0, 0]))
    assert np.isnan(scores.v[1, 0, 0, 0]) and "L0H0" in scores.undefined
    along = path_composition(two_layers(read=[1, 1], written=[0, 0]), ("L0H0", "L1H0"))
    assert np.isnan(along.score) and along.undefined == ("L0H0",)


def test_scores_do_not_depend_on_scale():
    model = MODELS["layernorm"]
    w = model.weights
    scaled = Model(model.config, replace(w, W_O=w.W_O * 1e-90, W_Q=w.W_Q * 1e80, W_V=w.W_V * 1e-30))
    for kind in ("q", "k", "v"):
        before, after = composition(model).of(kind), composition(scaled).of(kind)
        np.testing.assert_allclose(after, before, rtol=1e-10)


def test_gaussian_heads_score_at_the_baseline():
    rng = np.random.default_rng(0)
    maps = [
        Side(
            tuple(map(str, range(40))),
            rng.standard_normal((40, 8, 64)),
            rng.standard_normal((40, 64, 8)).__getitem__,
        )
        for _ in "rw"
    ]
    met = meet(maps[:1], maps[1:], np.ones((40, 40), dtype=bool))
    assert met.score.mean() == pytest.approx(0.1265, abs=0.013)
    assert np.sqrt((met.score**2).mean()) == pytest.approx(64**-0.5, rel=0.01)
    assert abs(met.z.mean()) < 0.1 and met.z.std() == pytest.approx(1.0, abs=0.1)


def test_baseline_and_z_are_those_of_random_rotations():
    """Mean and variance over 4,000 seeded rotations of the stream, for maps of no special shape."""
    rng = np.random.default_rng(7)
    a, b = rng.standard_normal((2, 6)) * np.array([5, 1, 1, 1, 1, 0.1]), rng.standard_normal((6, 3))
    shares = []
    for _ in range(4000):
        turn = np.linalg.qr(rng.standard_normal((6, 6)))
        turn = turn[0] * np.sign(np.diag(turn[1]))
        shares.append((frobenius(a, turn, b) / frobenius(a) / frobenius(b)) ** 2)
    met = meet([Side(("a",), a[None])], [Side(("b",), b.T[None])], np.ones((1, 1), dtype=bool))
    spread = (met.score[0, 0] ** 2 - 1 / 6) / met.z[0, 0]
    assert np.mean(shares) == pytest.approx(1 / 6, abs=4 * spread / np.sqrt(4000))
    assert np.std(shares) == pytest.approx(spread, rel=0.05)


def test_blocks_do_not_show(monkeypatch):
    whole = composition(MODELS["sandwich"])
    of_all = whole.partners.met
    for module in (gram, sides):
        monkeypatch.setattr(module, "BLOCK", 5)
    monkeypatch.setattr(gram, "BAND", 3)
    small = composition(MODELS["sandwich"])
    np.testing.assert_allclose(small.partners.met.score, of_all.score, rtol=1e-12)
    np.testing.assert_allclose(small.partners.met.z, of_all.z, rtol=1e-9)
    for kind in ("q", "k", "v"):
        np.testing.assert_allclose(small.of(kind), whole.of(kind), rtol=1e-12)
        np.testing.assert_allclose(small.z[kind], whole.z[kind], rtol=1e-9)


def test_heads_that_share_keys_and_values_hold_them_once_and_score_the_same():
    model = random_model(layers=3, heads=8, kv_heads=2, d_model=70, d_head=6, positions="rotary", seed=4)
    heads = HeadSides(Ports(model), 2)
    assert [len(heads.reader(side).thin) for side in "QKV"] == [24, 6, 6]
    for side in (heads.reader("K").part(slice(8, None)), heads.writer().part(slice(0, -8))):
        apart = Side(side.labels, np.repeat(side.thin, side.shared, axis=0), side.outer)
        assert len(apart.labels) == 16 and apart.shared == 1
        for start in (0, sides.BLOCK):
            assert np.array_equal(side.block(0, side.columns(start)), apart.block(0, apart.columns(start)))
        assert np.array_equal(side.whole(5), apart.whole(5))


def test_the_memory_of_composition_is_that_of_the_heads_it_holds_once():
    model = random_model(
        layers=3, heads=16, kv_heads=2, d_model=640, d_head=32, positions="rotary", d_vocab=5
    )
    whole = 8 * 48 * 32 * 640  # one map of all heads
    blocks = 8 * 32 * 64 * 64  # one block of all heads' Gram matrices
    tracemalloc.start()
    composition(model)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * whole * (1 + 1 / 8) + 20 * blocks


@pytest.mark.parametrize("steps", [(4, 4, 4), (8, 4, 12, 4), (32,) * 5, (12,), (0, 4)])
def test_what_lies_under_stairs_is_met_once_and_nothing_else(steps):
    layers = np.repeat(np.arange(len(steps)), steps)
    for allowed in (layers[:, None] > layers, layers[:, None] >= layers):
        assert np.array_equal(covered(allowed), allowed)


@pytest.mark.parametrize("allowed", [np.tri(9, dtype=bool), np.eye(8, dtype=bool), ~np.tri(8, dtype=bool)])
def test_what_lies_under_no_stairs_of_whole_tiles_is_met_by_bands(allowed, monkeypatch):
    monkeypatch.setattr(gram, "BAND", 3)
    assert (covered(allowed) >= allowed).all() and covered(allowed).max() == 1


def covered(allowed):
    """How often each pair is met."""
    counts = np.zeros(allowed.shape, dtype=int)
    for band in gram._bands(allowed, *(slice(0, size) for size in allowed.shape)):
        counts[band.start : band.stop, band.first : band.last] += 1
    return counts


def test_rotary_positions_turn_the_form_by_the_distance():
    model = MODELS["rotary"]
    scores = composition(model, norms="raw", distance=3)
    (qk, _), (_, written) = dense_head(model, 2, 1, "raw"), dense_head(model, 0, 3, "raw")
    from_head = head(model, "L2H1").QK_at(3).dense()
    assert scores.k[2, 1, 0, 3] == pytest.approx(
        frobenius(from_head, written) / frobenius(from_head) / frobenius(written)
    )
    assert scores.q[2, 1, 0, 3] == pytest.approx(
        frobenius(from_head.T, written) / frobenius(from_head) / frobenius(written)
    )
    assert scores.k[2, 1, 0, 3] != pytest.approx(frobenius(qk, written) / frobenius(qk) / frobenius(written))


def test_a_path_of_two_heads_is_their_score():
    model = MODELS["rmsnorm"]
    scores = composition(model)
    for kind, last in (("v", "L2H1"), ("v", "L2H1.V"), ("q", "L2H1.Q"), ("k", "L2H1.K")):
        found = path_composition(model, ("L0H3", last)).score
        assert found == pytest.approx(scores.of(kind)[2, 1, 0, 3], rel=1e-10)


@pytest.mark.parametrize("norms", ["raw", "folded"])
def test_a_path_of_three_heads_is_the_dense_product(norms):
    model = MODELS["layernorm"]
    maps = [dense_head(model, *place, norms)[1] for place in ((2, 0), (1, 2), (0, 1))]
    found = path_composition(model, ("L0H1", "L1H2", "L2H0"), norms=norms)
    assert found.score == pytest.approx(frobenius(*maps) / np.prod([frobenius(m) for m in maps]), rel=1e-10)
    assert found.baseline == pytest.approx(1 / 14)
    assert found.path == ("L0H1", "L1H2", "L2H0")


def test_embedding_mlps_and_unembedding_are_partners():
    model = MODELS["rmsnorm"]
    w, table = model.weights, composition(MODELS["rmsnorm"])
    final = np.diag(w.g_final)
    expected = {
        ("U", "E"): (w.W_U @ final, w.W_E),
        ("U", "P"): (w.W_U @ final, w.W_pos),
        ("L0M", "E"): (w.W_in[0] @ gain(model, "mlp", 0), w.W_E),
        ("L2M.gate", "L1M"): (w.W_gate[2] @ gain(model, "mlp", 2), w.W_out[1]),
        ("U", "L2M"): (w.W_U @ final, w.W_out[2]),
        ("L1M", "L1H3"): (w.W_in[1] @ gain(model, "mlp", 1), dense_head(model, 1, 3, "folded")[1]),
        ("L1H2.K", "L0M"): (dense_head(model, 1, 2, "folded")[0], w.W_out[0]),
        ("L0H0.V", "E"): (dense_head(model, 0, 0, "folded")[1], w.W_E),
    }
    for pair, (read, written) in expected.items():
        dense = frobenius(read, written) / frobenius(read) / frobenius(written)
        assert table[pair] == pytest.approx(dense, rel=1e-10), pair
        assert path_composition(model, (pair[1], pair[0])).score == pytest.approx(dense, rel=1e-10), pair


def test_nothing_reads_what_is_not_written_yet():
    for name in ("rmsnorm", "parallel"):
        table = composition(MODELS[name])
        assert (
            np.isnan(table["L0H1.Q", "L0H0"])
            and np.isnan(table["L1M", "L1M"])
            and np.isnan(table["L0M", "L2H1"])
        )
        assert np.isfinite(table["L1H1.Q", "L0M"])
        assert np.isfinite(table["L1M", "L1H0"]) == (name == "rmsnorm")


def test_wide_maps_are_met_by_their_gram_matrices_and_made_again_where_those_cancel():
    rng = np.random.default_rng(1)
    maps = {"tall": rng.standard_normal((500, 130)), "huge": 1e9 * rng.standard_normal((140, 130))}
    side = WideSide.of(list(maps), maps.__getitem__)
    thin = Side(("a", "b"), rng.standard_normal((2, 7, 130)))
    for at, map in enumerate(maps.values()):
        small = side.whole(at) * side.scale[at]
        assert small.shape == (130, 130)
        np.testing.assert_allclose(small.T @ small, map.T @ map, rtol=1e-11, atol=1e-12 * np.vdot(map, map))
    found = meet([thin], [side], np.ones((2, 2), dtype=np.bool_)).score
    expected = [
        [frobenius(a, map.T) / frobenius(a) / frobenius(map) for map in maps.values()] for a in thin.thin
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-12)

    gone = rng.standard_normal((3, 130))  # what reads all but nothing of what is written
    hidden = gone - (gone @ np.linalg.pinv(maps["tall"][:100])) @ maps["tall"][:100]
    met = meet([Side(("r",), 1e-9 * gone[None] + hidden[None])], [WideSide.of(["w"], lambda _: maps["tall"][:100])],
               np.ones((1, 1), dtype=np.bool_))  # fmt: skip
    read = 1e-9 * gone + hidden
    assert met.score[0, 0] < 1e-8
    assert met.score[0, 0] == pytest.approx(
        frobenius(read, maps["tall"][:100].T) / frobenius(read) / frobenius(maps["tall"][:100]), rel=1e-6
    )


def test_no_layers_no_scores():
    model = random_model(layers=0, heads=2)
    assert composition(model).q.shape == (0, 2, 0, 2)
    assert composition(model).partners.readers == ("U",)


def test_what_cannot_be_asked_is_refused():
    model = MODELS["plain"]
    with pytest.raises(PathError, match="L0H1 cannot read L1H0"):
        path_composition(model, ("L1H0", "L0H1"))
    with pytest.raises(PathError, match="a writer and a reader, found L1H0"):
        path_composition(model, ("L1H0",))
    with pytest.raises(GraphError, match="L9H0"):
        path_composition(model, ("L0H0", "L9H0"))
    with pytest.raises(PathError, match="no composition of reader 'X'"):
        composition(model)["X", "E"]
    post = random_model(layers=1, heads=2, norm="layernorm", norm_placement="post")
    with pytest.raises(PathexpError, match="cannot be folded"):
        composition(post)


def test_the_strongest_pairs_are_listed_first():
    found = composition(MODELS["plain"])
    rows = found.records()
    values = [row["score"] for row in rows]
    assert values == sorted(values, reverse=True) and len(rows) == np.isfinite(found.partners.met.score).sum()
    keys = [row for row in rows if row["port"] == "K" and row["writer"] not in ("E", "P")]
    a, h, b, g = np.unravel_index(np.nanargmax(found.k), found.k.shape)
    assert (keys[0]["reader"], keys[0]["writer"]) == (f"L{a}H{h}", f"L{b}H{g}")
    assert keys[0]["score"] == pytest.approx(found.k[a, h, b, g], rel=1e-12)
    assert keys[0]["z"] == pytest.approx(found.z["k"][a, h, b, g], rel=1e-9)
    assert len(found.figures()["composition"].data["values"]) == len(found.partners.readers)


def test_a_copy_keeps_every_score_read_only():
    found = composition(MODELS["plain"])
    copied = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(copied.k, found.k)
    assert copied["U", "E"] == found["U", "E"] and str(copied) == str(found)
    arrays = [copied.q, copied.z["q"], copied.partners.met.score]
    assert not any(array.flags.writeable for array in arrays)
    with pytest.raises(AttributeError, match="ask again"):
        _ = copied.model


def test_other_partners_are_computed_when_rows_are_asked_for():
    found = composition(MODELS["plain"])
    assert "partners" not in vars(found)
    assert {row["writer"] for row in found.records()} >= {"E", "P"} and "partners" in vars(found)


@pytest.fixture
def model_file(tmp_path):
    random_model(layers=2, heads=2, d_vocab=9, norm="layernorm", biases=True, seed=1).save(
        tmp_path / "tiny.npz"
    )
    return str(tmp_path / "tiny.npz")


def test_the_command_prints_the_same_answer(capsys, model_file):
    asked = ["composition", model_file, "--norms", "raw", "--path", "L0H1 L1H0 U"]
    assert main([*asked, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    found = composition(load(model_file), norms="raw", path="L0H1 L1H0 U")
    assert data == json.loads(found.to_json()) and data["path_score"] == found.path.score
    assert main([*asked, "--top", "3"]) == 0
    out = capsys.readouterr().out
    for part in ("L0H1 → L1H0 → U: ", "random baseline 0.2041", "norms raw", "× baseline", "more of"):
        assert part in out, part
    assert main(["composition", model_file, "--path", "L1H0 L0H0"]) == 2
    assert "L0H0 cannot read L1H0" in capsys.readouterr().err


def test_the_command_says_what_is_undefined(capsys, tmp_path):
    model = random_model(layers=2, heads=2, d_vocab=9, seed=1)
    w = model.weights
    zeroed = replace(w, W_O=w.W_O * np.array([0.0, 1.0])[None, :, None, None])
    Model(model.config, zeroed).save(tmp_path / "zero.npz")
    assert main(["composition", str(tmp_path / "zero.npz"), "--path", "L0H0 L1H1"]) == 0
    out = capsys.readouterr().out
    assert "L0H0 → L1H1: undefined, because these maps are zero: L0H0" in out
    assert "undefined, because these maps are zero: L0H0.V, L1H0.V, L0H0, L1H0" in out
    assert main(["composition", str(tmp_path / "zero.npz"), "--path", "L0H0 L1H1", "--json"]) == 0
    data = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert data["path_score"] is None and any("these maps are zero" in note for note in data["notes"])


@pytest.mark.parametrize("distance", [1.5, None, "a", True])
def test_a_distance_is_a_whole_number_of_positions(distance):
    for positions in ("rotary", "learned"):
        model = random_model(layers=2, heads=2, d_head=4, positions=positions)
        with pytest.raises(PathexpError, match="distance: expected an integer"):
            composition(model, distance=distance)


def test_in_one_dimension_there_is_no_z_and_a_note_says_why():
    found = composition(random_model(layers=2, heads=2, d_model=1, d_head=1))
    assert {row["z"] for row in found.records()} == {None}
    assert "none where every rotation gives the same score" in str(found)
    assert json.loads(found.to_json(), parse_constant=pytest.fail)["baseline"] == 1
