"""Importance by order: losses by hand, the virtual heads' small share, running sums that stop and go on."""

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.corpus.corpus import Corpus
from pathexp.circuits.corpus.limits import Limits
from pathexp.circuits.corpus.order_importance import order_importance
from pathexp.circuits.corpus.tally import Tally
from pathexp.cli import main
from pathexp.errors import PathexpError, SizeError
from pathexp.model.softmax import next_token_loss as loss_of
from tests.shared_models import FOLDER

TEXT = "Macbeth shall sleep no more. Macbeth shall sleep no more, and so shall I not sleep. " * 4


def test_losses_by_hand():
    """A table: the direct path is all there is."""
    model = px.load("attn-0l")
    found = order_importance(model, Corpus([TEXT], 8))
    expected = [
        model.run(np.array(w)).loss()
        for w in np.array(model.encode(TEXT))[: found.tally.tokens].reshape(-1, 8)
    ]
    assert found.loss == pytest.approx(np.mean(expected))
    assert found.counts[0] == len(found.terms) and found.marginal.shape == (0,)
    np.testing.assert_allclose(found.without[0], np.log(model.config.d_vocab))


def test_terms_against_dense_arrays():
    model = px.load("attn-1l")
    found = order_importance(model, Corpus([TEXT], 8, 1))
    window = np.array(model.encode(TEXT)[:8])
    trace, w = model.run(window), model.weights
    x = w.W_E[:, window].T
    head = trace.patterns[0, 3] @ x @ (w.W_U @ w.W_O[0, 3] @ w.W_V[0, 3]).T
    row = found.terms.index("E L0H3 U")
    assert found.without_term[row] == pytest.approx(loss_of(trace.logits - head, window))
    assert found.up_to[0] == pytest.approx(
        loss_of(trace.logits - sum(trace.head_results[0]) @ w.W_U.T, window)
    )
    assert found.up_to[-1] == pytest.approx(trace.loss())


def test_lists_of_tokens_of_a_model_with_everything():
    model = px.random_model(layers=2, heads=2, norm="layernorm", d_mlp=7, biases=True, n_ctx=9)
    texts = [[3, 1, 2, 5, 1, 2, 3, 4, 0], [1] * 9]
    found = order_importance(model, texts, max_order=-1)
    assert found.loss == pytest.approx(np.mean([model.run(text).loss() for text in texts]))
    assert len(found.up_to) == 5 and found.terms == ()


def test_second_order_is_worth_less_than_the_first():
    """Elhage et al. 2021: virtual heads are worth little; most is single heads."""
    path = FOLDER.parent / "data" / "tinyshakespeare.txt"
    if not path.is_file():
        pytest.skip("no corpus beside the repository")
    found = order_importance(px.load("attn-2l"), Corpus(path, 48, 6), max_order=2)
    first, second = found.marginal
    assert first > 2 * second > 0
    assert len(found.terms) == 81
    best = [name for name, _ in found.term_increase()[:12]]
    assert "E U" in best and sum(name.count("L") == 1 for name in best) >= 6


def test_stopped_saved_and_resumed(tmp_path):
    model = px.load("attn-1l")
    whole = order_importance(model, Corpus([TEXT], 8, 5))
    some = order_importance(model, Corpus([TEXT], 8, 2))
    some.tally.save(tmp_path / "sums.npz")
    limits = Limits(start=Tally.load(tmp_path / "sums.npz"))
    again = order_importance(model, Corpus([TEXT], 8, 5), limits=limits)
    assert (some.tally.windows, again.tally.windows, again.tally.tokens) == (2, 5, 40)
    np.testing.assert_array_equal(again.without_term, whole.without_term)
    with pytest.raises(PathexpError, match="begin anew"):
        order_importance(model, Corpus([TEXT], 9), limits=limits)


def test_texts_are_never_held_whole():
    """An endless corpus is no trouble."""

    def endless():
        while True:
            yield TEXT

    assert order_importance(px.load("attn-1l"), Corpus(endless(), 8, 3), max_order=0).tally.windows == 3


def test_refusals():
    with pytest.raises(PathexpError, match="window"):
        order_importance(px.load("attn-1l"), ["To"])
    with pytest.raises(SizeError, match="max_order"):
        order_importance(px.random_model(layers=12, heads=30), ["x"], max_order=2)


def test_the_command_prints_the_same_answer(capsys, tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text(TEXT)
    command = ["order-importance", "attn-2l", "--corpus", str(corpus), "--length", "16", "--windows", "3"]
    found = order_importance(px.load("attn-2l"), Corpus(corpus, 16, 3, sample=0))
    assert main([*command, "--json"]) == 0
    assert capsys.readouterr().out == found.to_json() + "\n"
    orders, terms = (found.records(name) for name in ("orders", "terms"))
    assert [row["paths"] for row in orders] == [1, 16, 64] and len(terms) == 17
    assert [row["loss_up_to"] for row in orders] == found.up_to.tolist() and orders[0]["marginal"] is None
    assert [row["increase"] for row in terms] == sorted((row["increase"] for row in terms), reverse=True)
    assert main([*command, "--max-order", "-1"]) == 0
    printed = capsys.readouterr().out
    assert (
        "loss increase if removed" in printed
        and "over 3 windows at random lines (seed 0), 48 tokens" in printed
    )
    assert "… " not in printed and f"{found.loss:.4f}" in printed


def test_the_command_refuses_what_it_cannot_measure(capsys, tmp_path):
    assert main(["order-importance", "attn-1l", "--corpus", str(tmp_path / "nowhere.txt")]) == 2
    assert "nowhere.txt" in capsys.readouterr().err
    for wrong in (["--max-order", "-2"], ["--windows", "0"], ["--length", "1"], ["--seconds", "0"], []):
        with pytest.raises(SystemExit):
            main(["order-importance", "attn-1l", *wrong, *(["--corpus", "x.txt"] if wrong else [])])
