"""Memory management: one true eraser head and one true eraser neuron, and trained models that have none or few."""

import json
from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp import Tally, memory_management
from pathexp.circuits.corpus.corpus import Corpus
from pathexp.circuits.corpus.limits import Limits
from pathexp.cli import main
from tests.shared_models import FOLDER, shared_file

TEXTS = [np.random.default_rng(seed).integers(0, 20, 24).tolist() for seed in range(12)]
LETTERS = "abcdefghijklmnopqrst"
FEATURE, WRITTEN = 16, [20, 21, 22, 23]


def erasing(seed=0):
    """L1H0 sees its own place alone and takes off what L0H0 wrote; L0N0 takes off the feature of even tokens.

    No one but L0H0 writes to WRITTEN, and no one but the embedding to FEATURE: both are cleared whole.
    """
    model = px.random_model(
        layers=2, heads=2, d_model=32, d_head=4, d_mlp=6, d_vocab=20, n_ctx=24, activation="relu",
        positions="none", windows=(None, 1), seed=seed,
    )  # fmt: skip
    w = model.weights
    W_E, W_V, W_O, W_in, W_out = (np.array(a) for a in (w.W_E, w.W_V, w.W_O, w.W_in, w.W_out))
    only = np.eye(32)[:, WRITTEN]
    W_E[WRITTEN], W_E[FEATURE] = 0, 3.0 * (np.arange(20) % 2 == 0)
    W_O[:, :, WRITTEN], W_out[:, WRITTEN] = 0, 0
    W_O[:, :, FEATURE], W_out[:, FEATURE] = 0, 0
    W_O[0, 0] = only @ np.random.default_rng(seed).standard_normal((4, 4))
    W_V[1, 0], W_O[1, 0] = only.T, -only
    W_in[0, 0], W_out[0, :, 0] = np.eye(32)[FEATURE], -np.eye(32)[FEATURE]
    return replace(model, weights=replace(w, W_E=W_E, W_V=W_V, W_O=W_O, W_in=W_in, W_out=W_out))


@pytest.mark.parametrize("seed", range(4))
def test_the_two_erasers_are_confirmed_and_nothing_else(seed):
    model = erasing(seed)
    found = memory_management(model, TEXTS, k=100)
    assert len(found.heads) == 4 + 2 + 4 and len(found.neurons) == 12, (
        "E to four, three writers more to two each"
    )
    assert [(one.component, one.writer) for one in found.confirmed] == [("L1H0", "L0H0"), ("L0N0", "stream")]
    for one in found.confirmed:
        assert one.weights == pytest.approx(1) and one.measured == pytest.approx(1) and one.z > 4
        if one.component == "L1H0":
            assert [one.own, one.read, one.present] == pytest.approx([1, 1, 1])
    trace = model.run(TEXTS[0])
    assert np.abs(trace.residuals["L1.out"][:, [FEATURE, *WRITTEN]]).max() < 1e-12, "cleared"


def test_a_narrow_eraser_of_the_embedding_is_measured_by_what_it_can_read():
    """It takes back all of the four dimensions that it reads, of the 32 that are written: a share of one, not an eighth."""
    model = px.random_model(
        layers=1, heads=1, d_model=32, d_head=4, d_vocab=40, n_ctx=24, positions="none", windows=(1,), seed=3
    )
    read = np.linalg.qr(np.random.default_rng(0).standard_normal((32, 4)))[0]
    weights = replace(model.weights, W_V=read.T[None, None], W_O=-read[None, None])
    (one,) = memory_management(replace(model, weights=weights), TEXTS).heads
    assert [one.weights, one.own, one.present, one.negative] == pytest.approx([1] * 4) and one.confirmed
    assert one.read < 0.3 and one.measured == pytest.approx(one.read)


def test_what_is_written_elsewhere_is_not_taken_back():
    """A head that reads a sliver of what was written and writes against the rest of it erases nothing that it reads."""
    model = px.random_model(
        layers=1, heads=1, d_model=32, d_head=1, d_vocab=40, n_ctx=24, positions="none", windows=(1,), seed=3
    )
    axes = np.eye(32)
    W_E = np.array(model.weights.W_E)
    W_E[1] = 20 * W_E[0]  # what is read is a twentieth of what goes along with it
    weights = replace(
        model.weights, W_E=W_E, W_V=axes[0][None, None, None], W_O=-axes[1][None, None, :, None]
    )
    (one,) = memory_management(replace(model, weights=weights), TEXTS).heads
    assert one.own == pytest.approx(0, abs=1e-12) and not one.confirmed


def test_without_a_corpus_nothing_is_measured_or_confirmed():
    found = memory_management(erasing(), k=3)
    assert len(found.heads) == len(found.neurons) == 3 and found.tally is None
    assert all(one.measured is None for one in found) and not found.confirmed
    assert (found.heads[0].component, found.neurons[0].component) == ("L1H0", "L0N0")


def test_what_does_not_vary_cannot_be_erased():
    """One token said over and over: nothing varies, so the measure is NaN and confirms nothing."""
    found = memory_management(erasing(), [[2] * 24] * 3, k=100)
    assert not found.confirmed and np.isnan(found.neurons[0].measured)
    assert found.tables()["neurons"].records()[0]["measured"] is None
    assert "does not vary" in str(found) and "nan" not in str(found).split()


def test_chance_is_the_spread_over_random_rotations():
    """Heads whose outputs are rotated at random cancel, over many rotations, with the deviation that is said."""
    model = erasing(1)
    w, found = model.weights, []
    for seed in range(60):
        R = np.linalg.qr(np.random.default_rng(seed).standard_normal((32, 32)))[0]
        W_O = np.array(w.W_O)
        W_O[1, 1] = R @ W_O[1, 1]
        rotated = replace(model, weights=replace(w, W_O=W_O))
        pairs = memory_management(rotated, TEXTS[:4], k=100).heads
        found.append(next(one for one in pairs if (one.component, one.writer) == ("L1H1", "E")))
    assert np.std([one.measured for one in found]) == pytest.approx(found[0].baseline, rel=0.3)
    np.testing.assert_allclose([one.baseline for one in found], found[0].baseline)


def test_sums_are_stopped_saved_and_taken_up(tmp_path):
    model = erasing()
    memory_management(model, Corpus(iter(TEXTS), windows=5), k=4).tally.save(tmp_path / "sums.npz")
    start = Tally.load(tmp_path / "sums.npz")
    resumed, whole = (
        memory_management(model, iter(TEXTS), k=4, limits=Limits(start=sums)) for sums in (start, None)
    )
    assert resumed.tally.windows == whole.tally.windows == 12
    assert [one.measured for one in resumed] == pytest.approx([one.measured for one in whole])
    with pytest.raises(px.PathexpError, match="begin anew"):
        memory_management(erasing(2), iter(TEXTS), k=4, limits=Limits(start=start))


@pytest.mark.parametrize(
    "wrong",
    [
        {"k": 0}, {"k": None}, {"k": 2.5}, {"corpus": []}, {"corpus": 3}, {"corpus": Corpus([[1, 2]], 99)},
        {"corpus": [[1] * 24], "limits": 0}, {"corpus": [[float("nan")] * 24]},
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused_by_name(wrong):
    with pytest.raises(px.PathexpError):
        memory_management(erasing(), **wrong)
    with pytest.raises(px.PathexpError, match="expected a model"):
        memory_management(None)
    with pytest.raises(px.PathexpError, match="post-norm"):
        memory_management(px.random_model(norm="layernorm", norm_placement="post"))


def play():
    text = FOLDER.parent / "data" / "tinyshakespeare.txt"
    if not text.is_file():
        pytest.skip("the text is not beside the repository")
    return text


def test_attn_2l_has_no_eraser():
    """The figures of the page on subspaces: all 80 pairs."""
    found = memory_management(px.load("attn-2l"), Corpus(play(), 64, 20, sample=0), k=400)
    assert len(found.heads) == 80 and not found.confirmed
    first = found.heads[0]
    assert (first.component, first.writer, first.negative) == ("L0H5", "E", 1.0)
    assert first.weights == pytest.approx(0.472, abs=5e-4), "of the 16 dimensions that it can read"
    assert (first.own, first.present) == (pytest.approx(0.038, abs=5e-4), pytest.approx(0.13, abs=5e-3))
    assert max(one.measured for one in found.heads) == pytest.approx(0.099, abs=5e-4)
    assert max(one.own for one in found.heads) < 0.07


@pytest.mark.slow
def test_stories260k_has_opposed_weights_and_two_neurons_that_erase_a_little():
    """The figures of the page on subspaces: of the neurons with opposed weights runs bear out two."""
    found = memory_management(
        px.load(shared_file("stories260K.bin")), Corpus(play(), 64, 20, sample=0), k=900
    )
    assert len(found.heads) == 760 and len(found.neurons) == 860
    assert [one.component for one in found.confirmed] == ["L2N50", "L3N70"]
    (one, other), first = found.confirmed, found.neurons[0]
    assert [round(x, 2) for x in (one.weights, one.measured, other.measured)] == [0.51, 0.16, 0.11]
    assert 4 < one.z < 5 and 4 < other.z < 5
    assert (first.component, round(first.weights, 2)) == ("L0N84", 0.80) and first.measured < 0.01
    assert max(one.weights for one in found.heads) == pytest.approx(0.040, abs=5e-4)


def test_the_command_prints_the_same_answer(capsys, tmp_path):
    model, corpus = erasing(), tmp_path / "corpus.txt"
    letters = px.Model(model.config, model.weights, px.model.Tokenizer(tuple(LETTERS)), "letters")
    letters.save(tmp_path / "letters.npz")
    text = "".join(LETTERS[token] for tokens in TEXTS for token in tokens)
    corpus.write_text(text)
    asked = ["memory-management", str(tmp_path / "letters.npz"), "--corpus", str(corpus), "--top", "3"]
    assert main([*asked, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    found = memory_management(px.load(str(tmp_path / "letters.npz")), [text], k=3)
    assert data == json.loads(found.to_json())
    rows = data["tables"]["heads"]["rows"]
    assert [row["component"] for row in rows if row["confirmed"]] == ["L1H0"] and len(rows) == 3
    assert main(asked) == 0
    printed = capsys.readouterr().out
    assert "confirmed: L1H0 of L0H0, L0N0 of stream" in printed and "cancelled on runs" in printed
    assert main(["memory-management", "attn-1l"]) == 0 and "give a corpus" in capsys.readouterr().out


def test_the_picture_shows_weights_beside_runs():
    data = memory_management(erasing(), TEXTS, k=2).figures()["erased"].data
    assert data["rows"][0] == "L1H0 of L0H0" and data["values"][0] == pytest.approx([1, 1])
    assert memory_management(erasing(), k=2).figures()["erased"].data["series"] == ["by weights"]
