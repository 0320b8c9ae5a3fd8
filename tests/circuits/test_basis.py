"""Which spaces use a basis of their own: on paper, random models, and trained ones on a real text."""

from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits import BasisKurtosis, Tally, basis_kurtosis, turn_basis
from pathexp.circuits.basis import fourths
from pathexp.circuits.corpus import windows
from pathexp.model.rewrite.basis import orthogonal
from tests.shared_models import FOLDER, shared_file

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


def test_coordinates_add_up_to_the_excess():
    found = basis_kurtosis(px.random_model(d_model=32, d_mlp=64, n_ctx=16, d_vocab=40), random_texts())
    for row in found:
        assert row.by_coordinate.sum() == pytest.approx(row.excess)
        assert row.turned == pytest.approx(3 * row.width / (row.width + 2))


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
@pytest.mark.parametrize("seed", range(3))
def test_random_neurons_have_a_basis_and_the_random_stream_has_none(activation, seed):
    model = px.random_model(
        layers=2, heads=2, d_model=32, d_mlp=64, activation=activation, n_ctx=16, d_vocab=40, seed=seed
    )
    found = {row.space: row.verdict for row in basis_kurtosis(model, random_texts())}
    assert found.pop("L0 neurons") == found.pop("L1 neurons") == "strong"
    assert set(found.values()) == {"none"}


def test_an_outlier_coordinate_is_mild_however_large():
    parts = np.full(64, -0.01)
    alone, spread = parts.copy(), parts.copy()
    alone[7], spread[10:30] = 9.0, 0.45
    rows = [BasisKurtosis("one", 3 * 64 / 66 + each.sum(), 0.05, each) for each in (alone, spread)]
    assert [row.verdict for row in rows] == ["mild", "strong"] and rows[0].outliers(1) == ((7, 9.0),)


def test_the_stream_of_attn_2l_has_no_basis_but_a_mild_one_at_its_end():
    """The figures of the page on subspaces."""
    found = basis_kurtosis(px.load("attn-2l"), play(), length=64, limit=20)
    assert [(row.space, row.verdict) for row in found] == [
        ("embed", "none"),
        ("L0.out", "none"),
        ("L1.out", "mild"),
    ]
    assert [round(row.kurtosis, 2) for row in found] == [2.90, 3.00, 3.46]
    assert found["L1.out"].ratio == pytest.approx(1.17, abs=0.005)


def test_stories260k_has_its_basis_in_the_neurons_and_two_outliers_in_the_stream():
    """The figures of the page on subspaces."""
    model = px.load(shared_file("stories260K.bin"))
    found = basis_kurtosis(model, play(), length=64, limit=20)
    neurons = [row for row in found if "neurons" in row.space]
    stream = [row for row in found if "neurons" not in row.space]
    assert all(row.verdict == "strong" and row.ratio > 4 and row.carriers > 9 for row in neurons)
    assert {row.verdict for row in stream[1:]} == {"mild"} and stream[0].verdict == "none"
    assert min(row.kurtosis for row in neurons) == pytest.approx(11.90, abs=0.01)
    assert [round(found[point].kurtosis, 1) for point in ("L0.mid", "L1.out", "L4.out")] == [3.1, 4.3, 11.4]
    assert [place for place, _ in found["L4.out"].outliers(2)] == [20, 15]
    others = np.delete(np.arange(64), [20, 15])
    runs = [model.run(tokens).residuals for tokens in windows(model, play(), 64, 20)]
    for point in ("L1.out", "L4.out"):
        left = np.mean([fourths(streams[point][:, others]).sum(-1).mean() for streams in runs])
        assert left < 3.6, "without the two outliers the stream is all but like a turned one"


def test_sums_are_stopped_saved_and_taken_up(tmp_path):
    model = px.random_model(d_model=32, d_mlp=64, n_ctx=16, d_vocab=40)
    basis_kurtosis(model, iter(random_texts()), limit=2).tally.save(tmp_path / "sums.npz")
    start = Tally.load(tmp_path / "sums.npz")
    resumed, whole = (basis_kurtosis(model, iter(random_texts()), start=sums) for sums in (start, None))
    assert [row.kurtosis for row in resumed] == pytest.approx([row.kurtosis for row in whole])
    assert resumed.tally.windows == 6
    with pytest.raises(px.PathexpError, match="begin anew"):
        basis_kurtosis(model, random_texts(), seed=1, start=start)


def test_neurons_that_are_all_off_are_undefined_and_make_no_verdict():
    model = px.random_model(layers=1, d_mlp=4, activation="relu", n_ctx=8)
    off = np.zeros_like(model.weights.W_in)
    silent = type(model)(model.config, type(model.weights)(**{**model.weights.arrays(), "W_in": off}))
    row = basis_kurtosis(silent, [[1, 2, 3]], length=3)["L0 neurons"]
    assert np.isnan(row.kurtosis) and row.verdict == "none" and np.isnan(row.carriers)


@pytest.mark.parametrize("model", ["attn-1l", "attn-2l"])
def test_turning_kills_coordinates_and_keeps_outputs_and_virtual_weights(model):
    found = turn_basis(px.load(model))
    assert found.logits < 1e-12 and found.weights < 1e-12 and found.ok
    assert found.kept < 2 * found.chance, "no more of the largest coordinates stay than by chance"


def test_turning_the_trained_model_with_norms_and_mlps():
    found = turn_basis(px.load(shared_file("stories260K.bin")))
    assert found.logits < 1e-12 and found.weights < 1e-12 and found.pairs == 1836
    assert found.kept < 1.5 * found.chance


def test_turning_takes_the_basis_of_norms_away_first():
    model = px.random_model(
        layers=1, heads=2, d_model=40, d_head=3, positions="none", norm="layernorm", biases=True
    )
    found = turn_basis(model, top=3)
    assert found.ok and [story.writer for story in found.stories] == ["E", "L0H0.O", "L0H1.O"]
    same = turn_basis(model, top=40)
    assert same.kept == same.chance == 1, "all coordinates are listed"


def test_turning_one_hot_writers_on_paper():
    """Token t writes coordinate t alone, as loud as it is; turned, every coordinate is written, and nothing else changes."""
    model = px.random_model(layers=1, heads=1, d_model=64, d_head=3, d_vocab=9, positions="none")
    W_E = np.eye(64)[:, :9] * np.arange(9, 0, -1)
    found = turn_basis(replace(model, weights=replace(model.weights, W_E=W_E)), top=9)
    assert found.stories[0].before == tuple(range(9)), "its own coordinates, the loudest first"
    assert found.stories[0].kept < 5 and found.ok and found.weights < 1e-12 and found.logits < 1e-12


@pytest.mark.parametrize("wrong", [{"top": 0}, {"top": 129}, {"top": None}, {"seed": -1}, {"seed": "x"}])
def test_what_cannot_be_asked_is_refused_by_name(wrong):
    with pytest.raises(px.PathexpError):
        turn_basis(px.load("attn-2l"), **wrong)
    with pytest.raises(px.PathexpError, match="expected a model"):
        turn_basis(None)
    with pytest.raises(px.PathexpError, match="expected a model"):
        basis_kurtosis("attn-2l", [])
    with pytest.raises(px.PathexpError):
        basis_kurtosis(px.load("attn-2l"), None)
    with pytest.raises(px.PathexpError, match="no space"):
        basis_kurtosis(px.load("attn-1l"), [[1, 2, 3]], length=3)["L7.out"]
