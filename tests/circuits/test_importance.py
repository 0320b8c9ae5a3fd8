"""Importance by order: losses by hand, the virtual heads' small share, running sums that stop and go on."""

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.importance import loss_of, order_importance
from pathexp.circuits.running import Tally, tally
from pathexp.errors import LoadError, PathexpError, SizeError
from tests.shared_models import FOLDER

TEXT = "Macbeth shall sleep no more. Macbeth shall sleep no more, and so shall I not sleep. " * 4


def test_losses_by_hand():
    """A table: the direct path is all there is."""
    model = px.load("attn-0l")
    found = order_importance(model, [TEXT], length=8)
    expected = [
        model.run(np.array(w)).loss()
        for w in np.array(model.encode(TEXT))[: found.tally.tokens].reshape(-1, 8)
    ]
    assert found.loss == pytest.approx(np.mean(expected))
    assert found.counts[0] == len(found.terms) and found.marginal.shape == (0,)
    np.testing.assert_allclose(found.without[0], np.log(model.config.d_vocab))


def test_terms_against_dense_arrays():
    model = px.load("attn-1l")
    found = order_importance(model, [TEXT], length=8, limit=1)
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
    found = order_importance(model, texts, terms_to=-1)
    assert found.loss == pytest.approx(np.mean([model.run(text).loss() for text in texts]))
    assert len(found.up_to) == 5 and found.terms == ()


def test_second_order_is_worth_less_than_the_first():
    """Elhage et al. 2021: virtual heads are worth little; most is single heads."""
    path = FOLDER.parent / "data" / "tinyshakespeare.txt"
    if not path.is_file():
        pytest.skip("no corpus beside the repository")
    found = order_importance(px.load("attn-2l"), path, length=48, limit=6)
    first, second = found.marginal
    assert first > 2 * second > 0
    assert len(found.terms) == 81
    best = [name for name, _ in found.term_worth()[:12]]
    assert "E U" in best and sum(name.count("L") == 1 for name in best) >= 6


def test_stopped_saved_and_taken_up(tmp_path):
    model = px.load("attn-1l")
    whole = order_importance(model, [TEXT], length=8, limit=5)
    some = order_importance(model, [TEXT], length=8, limit=2)
    some.tally.save(tmp_path / "sums.npz")
    again = order_importance(model, [TEXT], length=8, limit=5, start=Tally.load(tmp_path / "sums.npz"))
    assert (some.tally.windows, again.tally.windows, again.tally.tokens) == (2, 5, 40)
    np.testing.assert_array_equal(again.without_term, whole.without_term)
    with pytest.raises(PathexpError, match="begin anew"):
        order_importance(model, [TEXT], length=9, start=some.tally)
    (tmp_path / "sums.npz").write_bytes(b"PK no")
    with pytest.raises(LoadError, match=r"sums\.npz"):
        Tally.load(tmp_path / "sums.npz")


def test_an_interrupt_and_a_time_limit_keep_what_was_counted(capsys):
    def slow(window):
        if window[0] == 2:
            raise KeyboardInterrupt
        return {"one": np.ones(1)}

    found = tally((np.array([k, k]) for k in range(9)), slow, "ones", progress=True)
    assert found.windows == 2 and found.mean("one")[0] == 1
    assert "stopped after 2" in capsys.readouterr().err
    assert (
        tally((np.array([k, k]) for k in range(9)), lambda w: {"one": np.ones(1)}, "ones", seconds=0).windows
        == 1
    )


def test_texts_are_never_held_whole():
    """An endless corpus is no trouble."""

    def endless():
        while True:
            yield TEXT

    assert order_importance(px.load("attn-1l"), endless(), length=8, limit=3, terms_to=0).tally.windows == 3


def test_refusals():
    with pytest.raises(PathexpError, match="window"):
        order_importance(px.load("attn-1l"), ["To"])
    with pytest.raises(SizeError, match="terms_to"):
        order_importance(px.random_model(layers=12, heads=30), ["x"])
