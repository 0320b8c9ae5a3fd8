"""Two layers: heads that read what heads wrote."""

import json

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.small.virtual_heads import virtual_heads
from pathexp.cli import main
from pathexp.model import Tokenizer
from tests.shared_models import FOLDER, induction_2l_1h
from tests.zoo import ZOO


def test_counts():
    assert len(virtual_heads(px.random_model(layers=2, heads=3))) == 9
    three = px.random_model(layers=3, heads=2)
    assert (len(virtual_heads(three)), len(virtual_heads(three, order=3))) == (12, 8)
    assert list(virtual_heads(px.random_model(layers=1))) == []
    with pytest.raises(px.PathexpError, match="order"):
        virtual_heads(three, order=1)


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
    found = virtual_heads(model, px.Corpus([text], length=12), zero="zero").share
    traces = [model.run(text[:12]), model.run(text[12:])]
    np.testing.assert_allclose(found.loss, np.mean([trace.loss() for trace in traces]), atol=1e-12)
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
    found = virtual_heads(model, px.Corpus(["abcdefabcdef"], length=12)).share
    assert found.reduction == pytest.approx(0.0, abs=1e-12)


def test_trained_pair_composes_by_keys_and_not_by_values():
    """Known of it: without layer 0 in the values, accuracy stays .92."""
    (virtual,) = virtual_heads(induction_2l_1h())
    assert virtual.composition < 0.1


def test_trained_virtual_heads_are_worth_little_beside_heads():
    corpus = FOLDER.parent / "data" / "tinyshakespeare.txt"
    if not corpus.is_file():
        pytest.skip("the corpus is not beside the repository")
    found = virtual_heads(px.load("attn-2l"), px.Corpus(corpus, windows=10)).share
    print(f"virtual heads save {found.reduction:.4f} nats a token, {found.share:.1%} of what heads save")
    assert found.counts == (1, 16, 64)
    assert 0 < found.share < 0.5  # 64 terms together save less than 16 do


def test_models_with_mlps_are_refused():
    model = px.random_model(layers=2, d_mlp=8)
    with pytest.raises(px.PathexpError, match="attention-only"):
        virtual_heads(model, ["abc"])


def test_the_command_prints_the_same_answer(capsys, tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("To be, or not to be, that is the question. " * 9)
    command = [
        "virtual-heads",
        "attn-2l",
        "--corpus",
        str(corpus),
        "--length",
        "8",
        "--windows",
        "2",
        "--top",
        "2",
    ]
    found = virtual_heads(px.load("attn-2l"), px.Corpus(corpus, 8, 2, sample=0), k=2)
    assert main([*command, "--json"]) == 0
    assert capsys.readouterr().out == found.to_json() + "\n"
    best = max(found, key=lambda head: head.composition)
    assert found.records()[0]["virtual_head"] == best.label and len(found.records()) == 2
    assert found.records()[0]["copying"] == best.copying.score
    losses = [row["loss"] for row in found.records("losses")]
    assert losses == [found.share.direct, found.share.without, found.share.loss]
    assert np.shape(found.figures()["composition"].data["values"]) == (8, 8)
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "64 virtual heads" in printed and "virtual heads reduce the loss by" in printed
    assert main(["virtual-heads", "attn-2l", "--json"]) == 0
    assert "losses" not in json.loads(capsys.readouterr().out)["tables"]
    assert main(["virtual-heads", "attn-2l", "--windows", "2"]) == 2
    assert "give --corpus" in capsys.readouterr().err


@pytest.mark.parametrize("switches", [{}, {"kv_heads": 1}, {"norm": "layernorm", "biases": True}, {"norm": "rmsnorm", "norm_placement": "sandwich"},
                                      {"norm": "layernorm", "norm_placement": "post"}])  # fmt: skip
def test_scores_of_all_pairs_are_those_of_each(switches):
    found = px.virtual_heads(px.random_model(layers=3, heads=2, d_model=12, seed=3, **switches))
    each = [head.composition for head in found.heads]
    np.testing.assert_allclose(found.compositions, each, rtol=1e-12)
