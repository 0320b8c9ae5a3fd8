"""Two layers: heads that read what heads wrote."""

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.virtual_heads import virtual_heads, virtual_share
from pathexp.model import Tokenizer
from tests.shared_models import FOLDER, induction_2l_1h
from tests.zoo import ZOO


def test_counts():
    assert len(virtual_heads(px.random_model(layers=2, heads=3))) == 9
    three = px.random_model(layers=3, heads=2)
    assert (len(virtual_heads(three)), len(virtual_heads(three, 3))) == (12, 8)
    assert virtual_heads(px.random_model(layers=1)) == ()
    with pytest.raises(px.PathexpError, match="2 or more heads"):
        virtual_heads(three, 1)


@pytest.mark.parametrize("name", ["2L-plain", "2L-gqa", "3L-layernorm"])
def test_a_virtual_head_is_the_product_of_its_heads(name):
    model = ZOO[name]()
    trace = model.run([1, 5, 2, 2, 9])
    for virtual in virtual_heads(model):
        first, last = virtual.heads
        pattern = trace.patterns[last.layer, last.index] @ trace.patterns[first.layer, first.index]
        np.testing.assert_allclose(virtual.pattern(trace), pattern, atol=1e-14)
        np.testing.assert_allclose(virtual.pattern(trace).sum(axis=1), 1, atol=1e-14)
        term = virtual.term(trace)
        np.testing.assert_allclose(term.weight.dense(), virtual.ov_table.dense(), atol=1e-12)
        assert virtual.OV.rank_bound == model.config.d_head
        if model.config.norm is None:
            np.testing.assert_allclose(term.pattern, pattern, atol=1e-14)
            np.testing.assert_allclose(virtual.OV.dense(), last.OV.dense() @ first.OV.dense(), atol=1e-13)
            assert 0 < virtual.composition <= 1


def lettered(model):
    return px.Model(
        model.config, model.weights, Tokenizer(tuple("abcdefghijk"[: model.config.d_vocab])), "lettered"
    )


def test_losses_are_those_of_runs_and_of_terms():
    model = lettered(px.random_model(layers=2, heads=2, d_vocab=11, n_ctx=12, biases=True, norm="layernorm"))
    text = "abcabcdefghijkabcdefabcc"
    found = virtual_share(model, [text], length=12)
    traces = [model.run(text[:12]), model.run(text[12:])]
    np.testing.assert_allclose(found.whole, np.mean([trace.loss() for trace in traces]), atol=1e-12)
    losses = []
    for trace in traces:
        logits = sum(term.logits() for term in px.expand(trace) if term.order < 2)
        logs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        losses.append(-logs[np.arange(11), trace.tokens[1:]].mean())
    np.testing.assert_allclose(found.without, np.mean(losses), atol=1e-12)
    assert found.tokens == 22 and found.counts == px.expand(traces[0]).count_by_order()


def test_on_paper_the_induction_model_has_no_v_composition():
    """Its second head reads this token and never what the first wrote: the virtual head is zero."""
    model = lettered(px.induction_model(d_vocab=6, n_ctx=12))
    (virtual,) = virtual_heads(model)
    assert virtual.composition == 0.0 and virtual.copying.score is None
    found = virtual_share(model, ["abcdefabcdef"], length=12)
    assert found.worth == pytest.approx(0.0, abs=1e-12)


def test_trained_pair_composes_by_keys_and_not_by_values():
    """Known of it: without layer 0 in the values, accuracy stays .92."""
    (virtual,) = virtual_heads(induction_2l_1h())
    assert virtual.composition < 0.1


def test_trained_virtual_heads_are_worth_little_beside_heads():
    corpus = FOLDER.parent / "data" / "tinyshakespeare.txt"
    if not corpus.is_file():
        pytest.skip("the corpus is not beside the repository")
    found = virtual_share(px.load("attn-2l"), corpus, limit=10)
    print(f"virtual heads save {found.worth:.4f} nats a token, {found.share:.1%} of what heads save")
    assert found.counts == (1, 16, 64)
    assert 0 < found.share < 0.5  # 64 terms together save less than 16 do


def test_models_with_mlps_are_refused():
    model = px.random_model(layers=2, d_mlp=8)
    with pytest.raises(px.PathexpError, match="attention-only"):
        virtual_share(model, ["abc"])
