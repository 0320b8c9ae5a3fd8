"""Which spaces use a basis of their own: on paper, random models, and trained ones on a real text."""

import json

import numpy as np
import pytest

import pathexp as px
from pathexp import Tally, privileged_basis
from pathexp.circuits.corpus.corpus import Corpus
from pathexp.circuits.corpus.limits import Limits
from pathexp.circuits.subspaces.basis_kurtosis import BasisKurtosis, along, deviation_of, fourths
from pathexp.cli import main
from pathexp.model.rewrite.basis import orthogonal
from tests.shared_models import FOLDER, shared_file
from tests.zoo import FAMILIES, ZOO

PLAY = FOLDER.parent / "data" / "tinyshakespeare.txt"


def play():
    if not PLAY.is_file():
        pytest.skip("the text is not beside the repository")
    return PLAY


def random_texts(length=16, amount=6):
    rng = np.random.default_rng(0)
    return [rng.integers(0, 40, length).tolist() for _ in range(amount)]


def test_one_coordinate_all_coordinates_and_the_mean_over_turns():
    assert fourths(np.eye(8)[:1]).sum() == 8 and fourths(np.ones((1, 8))).sum() == pytest.approx(1)
    x = np.random.default_rng(0).standard_normal(8) ** 3
    turned = [fourths((orthogonal(8, seed) @ x)[None]).sum() for seed in range(4000)]
    assert np.mean(turned) == pytest.approx(3 * 8 / 10, rel=0.02)


@pytest.mark.parametrize("d", [2, 5, 8])
def test_directions_give_the_deviation_that_whole_bases_show(d):
    """Of 3,000 bases a deviation is off by 1 / √6,000, a little more as kurtosis is not normal: 5 % are four times that."""
    rng = np.random.default_rng(d)
    x, directions = rng.standard_normal((7, d)) ** 3, rng.standard_normal((50_000, d))
    rotated = [fourths(x @ orthogonal(d, seed).T).sum() / len(x) for seed in range(3000)]
    strays = np.sqrt(np.mean((np.array(rotated) - 3 * d / (d + 2)) ** 2))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    assert deviation_of(along(x, directions).mean(axis=0), d) == pytest.approx(strays, rel=0.05)


def test_harmonics_over_a_basis_add_up_to_the_excess_kurtosis():
    """Sums of 9 numbers of size 1: a few roundings."""
    x, R = np.random.default_rng(0).standard_normal((4, 9)), orthogonal(9, 1)
    excess = fourths(x @ R.T).sum(axis=-1) - 27 / 11
    assert np.allclose(9 * along(x, R).sum(axis=-1), excess, rtol=0, atol=1e-13)
    assert deviation_of(along(np.ones((3, 1)), np.ones((2, 1))).mean(axis=0), 1) < 1e-14, (
        "one coordinate, one basis"
    )


def test_coordinates_add_up_to_the_excess():
    found = privileged_basis(px.random_model(d_model=32, d_mlp=64, n_ctx=16, d_vocab=40), random_texts())
    for row in found.activations:
        assert row.by_coordinate.sum() == pytest.approx(row.excess)
        assert row.baseline == pytest.approx(3 * row.width / (row.width + 2))


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
@pytest.mark.parametrize("seed", range(3))
def test_random_neurons_have_a_basis_and_the_random_stream_has_none(activation, seed):
    model = px.random_model(
        layers=2, heads=2, d_model=32, d_mlp=64, activation=activation, n_ctx=16, d_vocab=40, seed=seed
    )
    found = {row.space: row.verdict for row in privileged_basis(model, random_texts()).activations}
    assert found.pop("L0 neurons") == found.pop("L1 neurons") == "strong"
    assert set(found.values()) == {"none"}


def test_an_outlier_coordinate_is_mild_however_large():
    parts = np.full(64, -0.01)
    alone, spread = parts.copy(), parts.copy()
    alone[7], spread[10:30] = 9.0, 0.45
    rows = [BasisKurtosis("one", 3 * 64 / 66 + each.sum(), 0.05, each) for each in (alone, spread)]
    assert [row.verdict for row in rows] == ["mild", "strong"] and rows[0].outliers(1) == ((7, 9.0),)


def test_the_stream_of_attn_2l_has_a_mild_basis_behind_each_layer():
    """The figures of the page on subspaces."""
    found = privileged_basis(px.load("attn-2l"), Corpus(play(), 64, 20, sample=0))
    assert [(row.space, row.verdict) for row in found.activations] == [
        ("embed", "none"),
        ("L0.out", "mild"),
        ("L1.out", "mild"),
    ]
    assert [round(row.kurtosis, 2) for row in found.activations] == [2.96, 3.06, 3.43]
    assert found["L1.out"].ratio == pytest.approx(1.16, abs=0.005)


@pytest.mark.slow
def test_stories260k_has_its_basis_in_the_neurons_and_two_outliers_in_the_stream():
    """The figures of the page on subspaces."""
    model = px.load(shared_file("stories260K.bin"))
    found = privileged_basis(model, Corpus(play(), 64, 20, sample=0))
    neurons = [row for row in found.activations if "neurons" in row.space]
    stream = [row for row in found.activations if "neurons" not in row.space]
    assert all(row.verdict == "strong" and row.ratio > 4 and row.carriers > 9 for row in neurons)
    expected = "none none mild mild mild strong strong mild mild mild mild"
    assert " ".join(row.verdict for row in stream) == expected
    assert all(3 < row.carriers < 3.5 for row in stream[5:7]), "strong by a hair"
    assert min(row.kurtosis for row in neurons) == pytest.approx(13.28, abs=0.01)
    assert [round(found[point].kurtosis, 1) for point in ("L0.mid", "L1.out", "L4.out")] == [3.1, 4.3, 9.1]
    assert [place for place, _ in found["L4.out"].outliers(2)] == [20, 15]
    others = np.delete(np.arange(64), [20, 15])
    runs = [model.run(tokens).residuals for tokens in Corpus(play(), 64, 20, sample=0).cut(model)]
    for point in ("L1.out", "L4.out"):
        left = np.mean([fourths(streams[point][:, others]).sum(-1).mean() for streams in runs])
        assert left < 3.7, "without the two outliers the stream is all but like a turned one"


def test_sums_are_stopped_saved_and_taken_up(tmp_path):
    model = px.random_model(d_model=32, d_mlp=64, n_ctx=16, d_vocab=40)
    privileged_basis(model, Corpus(iter(random_texts()), windows=2)).tally.save(tmp_path / "sums.npz")
    start = Tally.load(tmp_path / "sums.npz")
    resumed, whole = (
        privileged_basis(model, iter(random_texts()), limits=Limits(start=sums)) for sums in (start, None)
    )
    assert [row.kurtosis for row in resumed.activations] == pytest.approx(
        [row.kurtosis for row in whole.activations]
    )
    assert resumed.tally.windows == 6
    with pytest.raises(px.PathexpError, match="begin anew"):
        privileged_basis(model, random_texts(), seed=1, limits=Limits(start=start))


def test_neurons_that_are_all_off_are_undefined_and_make_no_verdict():
    model = px.random_model(layers=1, d_mlp=4, activation="relu", n_ctx=8)
    off = np.zeros_like(model.weights.W_in)
    silent = type(model)(model.config, type(model.weights)(**{**model.weights.arrays(), "W_in": off}))
    row = privileged_basis(silent, Corpus([[1, 2, 3]], 3))["L0 neurons"]
    assert np.isnan(row.kurtosis) and row.verdict == "none" and np.isnan(row.carriers)


ZOO_AND_FAMILIES = {**ZOO, **FAMILIES}


def privileged(model):
    return {found.space: found.privileged for found in privileged_basis(model).weights}


@pytest.mark.parametrize("name", ZOO_AND_FAMILIES)
def test_spaces_with_a_basis_are_those_where_something_acts_by_coordinate(name):
    model = ZOO_AND_FAMILIES[name]()
    c, w, found = model.config, model.weights, privileged(model)
    on_stream = [
        key
        for key in w.arrays()
        if key[:2] == "g_" and key not in ("g_q", "g_k", "g_q_latent", "g_kv_latent")
    ]
    assert found["residual stream"] == (c.norm == "layernorm" or bool(on_stream))
    if c.n_layers:
        assert not found["values"]
        if c.latent is not None:
            assert not found["queries and keys, the part of its own"]
        else:
            assert found["queries and keys"] == (c.qk_norm is not None or c.positions == "rotary")
    if c.d_mlp:
        assert found["neurons"]


def test_folding_takes_the_basis_away():
    model = px.random_model(norm="layernorm", biases=True, d_mlp=9)
    folded = px.rewrite.layernorm_to_rmsnorm(px.rewrite.center_writing(px.rewrite.fold_norms(model)))
    assert privileged(model)["residual stream"] and not privileged(folded)["residual stream"]
    rows = privileged_basis(model).records()
    assert rows[0]["reason"].startswith("gains") and not rows[2]["reason"]


def test_the_command_prints_the_same_answer(capsys, tmp_path):
    (tmp_path / "corpus.txt").write_text("Macbeth shall sleep no more. " * 30)
    asked = [
        "privileged-basis",
        "attn-1l",
        "--corpus",
        str(tmp_path / "corpus.txt"),
        "--length",
        "16",
        "--windows",
        "3",
    ]
    assert main([*asked, "--json"]) == 0
    found = privileged_basis(px.load("attn-1l"), Corpus(tmp_path / "corpus.txt", 16, 3, sample=0))
    data = json.loads(capsys.readouterr().out)
    assert data == json.loads(found.to_json()) and data["windows"] == 3
    assert [row["space"] for row in data["tables"]["activations"]["rows"]] == ["embed", "L0.out"]
    assert len(data["tables"]["outliers"]["rows"]) == 6 and found.figures()["kurtosis"].data["rows"]
    assert main(asked) == 0
    assert "by activations: kurtosis" in capsys.readouterr().out
    assert main(["privileged-basis", "attn-1l"]) == 0
    assert "give a corpus" in capsys.readouterr().out and not privileged_basis(px.load("attn-1l")).figures()


def test_neurons_that_are_all_off_are_null_with_a_reason():
    model = px.random_model(layers=1, d_mlp=4, activation="relu", n_ctx=8)
    off = np.zeros_like(model.weights.W_in)
    silent = type(model)(model.config, type(model.weights)(**{**model.weights.arrays(), "W_in": off}))
    found = privileged_basis(silent, Corpus([[1, 2, 3]], 3))
    assert found.records("activations")[-1]["kurtosis"] is None
    assert "no kurtosis of L0 neurons" in str(found) and json.loads(
        found.to_json(), parse_constant=pytest.fail
    )


def test_what_cannot_be_asked_is_refused_by_name():
    for wrong in ({"seed": -1}, {"seed": "x"}, {"corpus": 3}, {"corpus": []}):
        with pytest.raises(px.PathexpError):
            privileged_basis(px.load("attn-1l"), **wrong)
    with pytest.raises(px.PathexpError, match="expected a model"):
        privileged_basis("attn-2l", [])
    with pytest.raises(px.PathexpError, match="no space"):
        privileged_basis(px.load("attn-1l"), Corpus([[1, 2, 3]], 3))["L7.out"]
