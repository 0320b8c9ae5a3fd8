"""Zero points on a corpus: zero, mean and resample, by hand; windows drawn at random."""

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.corpus.corpus import Corpus
from pathexp.circuits.corpus.random_texts import random_texts
from pathexp.circuits.corpus.zero_points import zero_point
from pathexp.cli import main
from pathexp.model.softmax import next_token_loss
from tests.commands import json_of
from tests.shared_models import FOLDER

TEXT = "Macbeth shall sleep no more. Macbeth shall sleep no more, and so shall I not sleep. " * 4


def windows(model):
    return list(Corpus([TEXT], 8, 3).cut(model))


@pytest.mark.parametrize("zero", ["zero", "mean", "resample"])
def test_orders_by_hand(zero):
    """Order 1 of a one-layer model taken out, and what stands in its place put in."""
    model = px.load("attn-1l")
    chosen = windows(model)
    heads = [px.expand(model.run(window)).by_order()[1] for window in chosen]
    instead = {
        "zero": [np.zeros(1024)] * 3,
        "mean": [np.concatenate(heads).mean(axis=0)] * 3,
        "resample": [*heads[1:], heads[0]],
    }[zero]
    rows = zip(chosen, heads, instead, strict=True)
    expected = [next_token_loss(model.run(w).logits - out + put, w) for w, out, put in rows]
    found = px.order_importance(model, Corpus([TEXT], 8, 3), zero=zero)
    assert found.without[1] == pytest.approx(np.mean(expected), abs=1e-12)
    assert found.up_to[0] == pytest.approx(found.without[1], abs=1e-12), "what is left is order 0"
    increases = np.array(expected) - [model.run(w).loss() for w in chosen]
    assert found.errors["increase"][1] == pytest.approx(increases.std(ddof=1) / np.sqrt(3), abs=1e-9)
    words = {"zero": "set to zero", "mean": "their mean over 24 positions", "resample": "in another window"}
    assert words[zero] in found.headline() and words[zero] in found.zero


def test_terms_have_their_own_means():
    model = px.load("attn-1l")
    chosen = windows(model)
    runs = [px.expand(model.run(w))["E L0H3 U"].logits() for w in chosen]
    mean = np.concatenate(runs).mean(axis=0)
    expected = [
        next_token_loss(model.run(w).logits - run + mean, w) for w, run in zip(chosen, runs, strict=True)
    ]
    found = px.order_importance(model, Corpus([TEXT], 8, 3), zero="mean")
    assert found.without_term[found.terms.index("E L0H3 U")] == pytest.approx(np.mean(expected), abs=1e-12)


def test_a_constant_costs_nothing_with_the_mean():
    """Heads that write one vector everywhere: all of what they save with zeros is a constant."""
    model = px.random_model(layers=2, heads=1, d_vocab=11, n_ctx=12, biases=True)
    arrays = {name: np.array(a) for name, a in model.weights.arrays().items()}
    arrays["W_V"] *= 0  # values are their biases alone
    constant = px.Model(model.config, px.Weights(**arrays))
    rng = np.random.default_rng(0)
    texts = [rng.integers(0, 11, 12).tolist() for _ in range(4)]
    share = px.virtual_heads(constant, texts, k=0).share
    assert share.reduction == pytest.approx(0, abs=1e-12)
    assert share.constant == pytest.approx(share.zeroed[0] - share.loss, abs=1e-12)
    found = px.order_importance(constant, texts, zero="mean")
    np.testing.assert_allclose(found.increase[1:], 0, atol=1e-12)


def test_virtual_heads_both_ways():
    """What they save in attn-2l with zeros is more than half a constant."""
    path = FOLDER.parent / "data" / "tinyshakespeare.txt"
    if not path.is_file():
        pytest.skip("no corpus beside the repository")
    found = px.virtual_heads(px.load("attn-2l"), Corpus(path, 64, 8, sample=0), k=0)
    share = found.share
    assert 0.05 < share.share < 0.16 < share.zeroed_share < 0.35
    assert share.constant > 0.5 * (share.zeroed[0] - share.loss)
    zeroed = px.virtual_heads(px.load("attn-2l"), Corpus(path, 64, 8, sample=0), k=0, zero="zero").share
    assert (zeroed.without, zeroed.direct) == share.zeroed == zeroed.zeroed
    assert "of which" in str(found) and "their mean over 512 positions" in str(found)


def test_what_cannot_be_replaced_is_refused():
    model = px.load("attn-1l")
    with pytest.raises(px.PathexpError, match="zero: expected"):
        px.order_importance(model, [TEXT], zero="nothing")
    with pytest.raises(px.PathexpError, match="another window, but there is 1"):
        px.order_importance(model, Corpus([TEXT], 8, 1), zero="resample")
    with pytest.raises(px.PathexpError, match="a corpus that ends"):
        px.order_importance(model, iter([TEXT]), zero="mean")
    with pytest.raises(px.PathexpError, match="another window, but there is 2"):
        zero_point("resample", lambda window: iter(()), [np.array([1, 2]), np.array([1, 2])])


@pytest.mark.parametrize("order", ["aba", "aab", "abb", "abab", "aaab", "abca"])
def test_a_window_that_occurs_again_is_never_its_own_other(order):
    texts = {name: np.arange(3) + 10 * place for place, name in enumerate("abc")}
    point = zero_point("resample", lambda window: iter([("tokens", window)]), [texts[name] for name in order])
    for name in order:
        ((own, other),) = point.pairs(texts[name])
        assert np.array_equal(own, texts[name]) and not np.array_equal(own, other)


# Random windows ------------------------------------------------------------------------------------------


def test_a_sample_is_the_same_for_a_seed_and_goes_on(tmp_path):
    file, model = tmp_path / "lines.txt", px.load("attn-1l")
    file.write_text("\n".join(f"{TEXT[at:]}" for at in range(60)), encoding="utf-8")
    some, more, other = (
        [tuple(w) for w in Corpus(file, 8, n, sample=seed).cut(model)] for n, seed in ((3, 0), (6, 0), (6, 1))
    )
    assert more[:3] == some and more != other and len(set(more)) > 1
    beginnings = {tuple(model.encode(line)[:8]) for line in file.read_text().splitlines()}
    assert set(more) <= beginnings


def test_letters_of_several_bytes_are_not_cut(tmp_path):
    file = tmp_path / "letters.txt"
    file.write_text("ä" * 9000 + "\n" + "ö" * 20001 + "\nü\n", encoding="utf-8")
    texts = Corpus(file, 8, 2, sample=3)

    drawn = random_texts(file, 0)
    assert {next(drawn)[0] for _ in range(20)} == {"ä", "ö"} and texts.most == 2, "within lines that are long"


def test_a_file_of_one_line_is_drawn_from_at_many_places(tmp_path):
    file, model = tmp_path / "line.txt", px.load("attn-1l")
    file.write_text(" ".join([TEXT] * 200))
    windows = {tuple(window) for window in Corpus(file, 16, 20, sample=0).cut(model)}
    assert len(windows) > 5


@pytest.mark.parametrize(("windows", "drawn"), [(10, True), (1000, False), (None, False)])
def test_windows_are_spread_over_a_large_file_unless_it_is_said_otherwise(tmp_path, windows, drawn):
    file, model = tmp_path / "lines.txt", px.load("attn-1l")
    file.write_text("\n".join(TEXT[at:] for at in range(40)))
    assert 4 * 8 * 10 < file.stat().st_size < 4 * 8 * 1000
    corpus = Corpus(file, 8, windows)
    assert corpus.spread(model) is corpus if not drawn else corpus.spread(model).sample == 0
    assert Corpus(file, 8, 10, sample=3).spread(model).sample == 3
    assert Corpus(file, 8, [0, 1]).spread(model).sample is None


def test_the_command_line_spreads_windows_and_says_so(capsys, tmp_path):
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(TEXT[at:] for at in range(40)))
    given = ["--corpus", str(file), "--length", "8", "--windows", "3"]
    for sample, seed, said in (
        ((), 0, "3 windows at random lines (seed 0)"),
        (("--sample", "start"), None, "3 windows, "),
    ):
        assert main(["order-importance", "attn-1l", *given, *sample]) == 0
        printed = capsys.readouterr().out
        expected = px.order_importance(px.load("attn-1l"), Corpus(file, 8, 3, sample=seed))
        assert said in printed and f"loss {expected.loss:.4f}" in printed


def test_bad_samples_are_refused(tmp_path):
    file, empty = tmp_path / "short.txt", tmp_path / "empty.txt"
    file.write_text("To be\nTo be\n"), empty.write_text("")
    model = px.load("attn-1l")
    with pytest.raises(px.PathexpError, match=r"no place of .* has a whole window of 50 tokens"):
        list(Corpus(file, 50, 2, sample=0).cut(model))
    with pytest.raises(px.PathexpError, match="no text"):
        list(Corpus(empty, 5, 2, sample=0).cut(model))
    for bad in (
        {"source": [TEXT], "windows": 2},
        {"source": str(file)},
        {"source": str(file), "windows": [1, 2]},
    ):
        with pytest.raises(px.PathexpError, match="one text file"):
            Corpus(**bad, sample=0)


def test_from_the_command_line(capsys, tmp_path):
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(TEXT[at:] for at in range(40)))
    given = ["--corpus", str(file), "--length", "8", "--windows", "3", "--sample", "1", "--zero", "mean"]
    found = json_of(capsys, "order-importance", "attn-1l", *given)
    assert found["zero"] == "replaced by their mean over 24 positions"
    expected = px.order_importance(px.load("attn-1l"), Corpus(file, 8, 3, sample=1), zero="mean")
    assert found["loss"] == pytest.approx(expected.loss)
    assert json_of(capsys, "virtual-heads", "attn-2l", *given)["zero"] == found["zero"]


def test_copies_of_a_corpus_are_windows_at_random_lines(tmp_path):
    file, model = tmp_path / "lines.txt", px.load("attn-1l")
    file.write_text("\n".join(TEXT[at:] for at in range(40)))
    drawn = list(Corpus(file, 8, 2, sample=0).cut(model))
    of_file, of_texts = (px.heads(model, runs=2, length=8, corpus=source) for source in (str(file), drawn))
    assert of_file.types.second_loss == of_texts.types.second_loss


def test_texts_begin_and_end_at_characters_whatever_their_bytes(tmp_path):
    """One endless line of a character whose second byte is the first that continues one, 0x80."""
    file = tmp_path / "long.txt"
    file.write_text("Ā" * 40_000, encoding="utf-8")
    for seed in range(5):
        text = next(random_texts(file, seed))
        assert set(text) == {"Ā"} and 0 < len(text.encode()) <= 1 << 14
    assert max(len(next(random_texts(file, seed)).encode()) for seed in range(5)) > 1 << 13
