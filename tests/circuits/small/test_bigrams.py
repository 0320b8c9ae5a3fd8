"""Zero layers: the direct path beside a corpus's bigrams."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.corpus.limits import Limits
from pathexp.circuits.corpus.tally import Tally
from pathexp.circuits.small.bigrams import bigrams, spearman, without_layers
from pathexp.cli import main
from pathexp.errors import LoadError
from pathexp.model import Tokenizer, zero_layer_bigram
from tests.shared_models import FOLDER

TEXT = "abacabadabacabacabadbbca"
CORPUS = FOLDER.parent / "data" / "tinyshakespeare.txt"


def of_table(table, symbols="abcd", **switches):
    return replace(zero_layer_bigram(table), tokenizer=Tokenizer(tuple(symbols)), **switches)


def best_table(text, symbols="abcd"):
    counts = np.full((len(symbols),) * 2, 1e-300)
    for this, after in pairwise(text):
        counts[symbols.index(after), symbols.index(this)] += 1
    return np.log(counts / counts.sum(axis=0))


def test_the_best_table_has_no_divergence():
    """On paper: W_U W_E = log of the corpus's bigram frequencies leaves a divergence of 0, and all ranks equal."""
    found = bigrams(of_table(best_table(TEXT)), [TEXT], min_count=1)
    assert found.total == len(TEXT) - 1
    np.testing.assert_allclose(found.kl, 0, atol=1e-12)
    assert found.rank_correlation == pytest.approx(1.0)
    counts = Counter(pairwise(TEXT))
    each = Counter(TEXT[:-1])
    entropy = -sum(n * np.log(n / each[this]) for (this, _), n in counts.items()) / found.total
    np.testing.assert_allclose(found.entropy, entropy, atol=1e-12)


def test_an_even_table_is_off_by_what_the_corpus_knows():
    """On paper: the even table's loss is log 4, so its divergence is log 4 - entropy; it ranks nothing."""
    found = bigrams(of_table(np.zeros((4, 4))), [TEXT], min_count=1)
    np.testing.assert_allclose(found.kl, np.log(4) - found.entropy, atol=1e-12)
    assert found.rank_correlation is None


def test_texts_are_read_one_by_one():
    whole, parts = bigrams(of_table(best_table(TEXT)), [TEXT, TEXT[::-1]]), [TEXT, TEXT[::-1]]
    again = bigrams(of_table(best_table(TEXT)), iter(parts))
    np.testing.assert_array_equal(whole.counts, again.counts)
    joined = bigrams(of_table(best_table(TEXT)), [TEXT + TEXT[::-1]])
    assert joined.total == whole.total + 1


def test_spearman_by_hand():
    assert spearman(np.arange(5.0), np.arange(5.0) ** 3) == 1.0
    assert spearman(np.arange(5.0), -np.arange(5.0)) == -1.0
    ties = spearman(np.array([1.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0]))
    assert ties == pytest.approx(1.5 / np.sqrt(1.5 * 2))


def test_the_direct_path_of_a_deeper_model_is_its_direct_term():
    model = px.random_model(layers=2, heads=2, positions="none", d_vocab=7, seed=3)
    trace = model.run([0, 1, 2, 3, 4, 5, 6])
    direct = without_layers(model).run(trace.tokens)
    np.testing.assert_allclose(direct.logits, px.expand(trace)["E U"].logits(), atol=1e-13)


def test_positions_do_not_mix_in():
    """Where positions are added, each token is read at position 0 alone."""
    model = px.random_model(layers=0, heads=1, positions="learned", d_vocab=4, biases=True)
    model = replace(model, tokenizer=Tokenizer(tuple("abcd")))
    found = bigrams(model, [TEXT])
    for first, second, said in zip(found.first, found.second, found.predicted, strict=True):
        np.testing.assert_allclose(said, model.run([first]).log_probs[0, second], atol=1e-13)


def test_bad_input(tmp_path):
    model = of_table(np.zeros((4, 4)))
    with pytest.raises(LoadError, match="cannot read"):
        bigrams(model, tmp_path / "nothing.txt")
    with pytest.raises(px.PathexpError, match="no two tokens in a row"):
        bigrams(model, ["a", "b"])
    for wrong in ({"min_count": 0}, {"chunks": 0}, {"chunks": 1.5}):
        with pytest.raises(px.PathexpError, match=next(iter(wrong))):
            bigrams(model, [TEXT], **wrong)
    with pytest.raises(px.PathexpError, match="whole texts"):
        bigrams(model, px.Corpus([TEXT], length=5))


def test_sums_that_are_no_counts_are_refused():
    model = of_table(np.zeros((4, 4)))
    good = bigrams(model, [TEXT]).tally
    for wrong in (
        {"amounts": -good.sums["amounts"]}, {"amounts": good.sums["amounts"] * 0.5}, {"codes": good.sums["codes"] + 99},
        {"codes": good.sums["codes"][::-1]}, {"codes": good.sums["codes"][:2]},
    ):  # fmt: skip
        sums = Tally(good.question, good.windows, good.tokens, {**good.sums, **wrong}, good.mark)
        with pytest.raises(px.PathexpError, match="no counts of bigrams"):
            bigrams(model, [TEXT], limits=Limits(start=sums))


def test_the_command_prints_the_same_answer(capsys, tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("To be, or not to be, that is the question. " * 9)
    command = ["bigrams", "attn-1l", "--corpus", str(corpus), "--min-count", "2"]
    found = bigrams(px.load("attn-1l"), corpus, min_count=2)
    assert main([*command, "--json"]) == 0
    assert capsys.readouterr().out == found.to_json() + "\n"
    rows = found.records()
    assert len(rows) == found.kept.sum() and rows[0]["count"] == found.counts[0] == found.counts.max()
    assert [row["model"] for row in rows] == found.predicted[found.kept].tolist()
    assert len(found.figures()["bigrams"].data["x"]) == len(rows)
    assert main([*command, "--top", "3"]) == 0
    printed = capsys.readouterr().out
    assert "its direct path alone" in printed and f"KL(corpus ‖ model) {found.kl:.4f}" in printed
    assert f"… {len(rows) - 3} more" in printed
    assert main(["bigrams", "--corpus", str(tmp_path / "gone.txt")]) == 2


def test_trained_the_table_is_the_corpus_bigrams():
    """The zero-layer model's logits follow the bigram log-likelihoods of the text it was trained on."""
    if not CORPUS.is_file():
        pytest.skip("the corpus is not beside the repository")
    found = bigrams(px.load("attn-0l"), CORPUS)
    print(f"rank correlation {found.rank_correlation:.4f}, KL {found.kl:.4f} nats a token")
    assert found.rank_correlation > 0.8 and found.kl < 0.6
    deeper = bigrams(px.load("attn-2l"), CORPUS)  # there the direct path need not predict alone
    assert deeper.kl > 2 * found.kl
