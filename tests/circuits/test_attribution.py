"""Attribution: for each unit the column is the target, to 1e-10, on every architecture; known parts by hand."""

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.attribution import UNITS, attribute, head_tokens, pulled_back
from pathexp.circuits.information import information
from pathexp.errors import PathexpError
from pathexp.report.information import information_svg
from tests.zoo import FAMILIES, ZOO

EVERY = {**ZOO, **FAMILIES}


def run(model):
    return model.run(np.random.default_rng(1).integers(0, model.config.d_vocab, min(5, model.config.n_ctx)))


@pytest.mark.parametrize("name", EVERY)
def test_the_column_is_the_target(name):
    trace = run(EVERY[name]())
    targets = trace.logit(2), trace.logit_difference(1, 3, position=len(trace) - 2)
    for target in targets:
        for unit in UNITS:
            found = attribute(trace, target, unit)
            assert abs(found.values.sum() - target.value) <= 1e-10 * max(1, np.abs(found.values).sum()), unit
            assert found.ok and len(found.labels) == len(found.values)
        split, heads = head_tokens(trace, target), attribute(trace, target, "head")
        whole = [heads[label] for label in split.labels]
        np.testing.assert_allclose(split.values.sum(axis=1) + split.constants, whole, atol=1e-11)


def test_by_hand():
    """One layer, no biases: what head h takes from j is A[i, j] · u W_OV x_j."""
    model = px.random_model(layers=1, heads=3, seed=3)
    trace = run(model)
    w, target = model.weights, trace.logit(4)
    x, i = trace.residuals["embed"], len(trace) - 1
    split = head_tokens(trace, target)
    for h in range(3):
        expected = trace.patterns[0, h, i] * (x @ (w.W_U[4] @ w.W_O[0, h] @ w.W_V[0, h]))
        np.testing.assert_allclose(split.values[h], expected, atol=1e-12)
    assert np.abs(split.constants).max() < 1e-12
    tokens = attribute(trace, target, "token")
    direct = np.where(np.arange(i + 1) == i, x[i] @ w.W_U[4], 0)
    np.testing.assert_allclose(tokens.values[:-1], split.values.sum(axis=0) + direct, atol=1e-12)
    assert attribute(trace, target)["E"] == pytest.approx(w.W_U[4] @ w.W_E[:, trace.tokens[i]])


def test_pulled_back_is_the_derivative_of_the_frozen_run():
    trace = run(px.random_model(layers=2, heads=2, norm="layernorm", d_mlp=7, seed=2))
    target = trace.logit(3)
    fields = pulled_back(trace, target)
    assert len(fields) == len(trace.graph.blocks) + 1
    steered = trace.graph.with_source("x", np.ones(trace.config.d_model))
    added = px.expand(steered, "x .* U").logits()[-1] @ target.direction
    assert added == pytest.approx(fields[0].sum())


@pytest.mark.parametrize("name", ["2L-gqa", "3L-layernorm", "original", "llama", "gptj", "gemma2"])
def test_information_is_kept_at_every_depth(name):
    """What flows into a depth from all positions is what flows out of it, constants on the way beside it."""
    trace = run(EVERY[name]())
    target = trace.logit(2)
    moves = information(trace, target)
    for place in range(len(moves.edges)):
        np.testing.assert_allclose(
            moves.edges[place].sum(axis=1) + moves.constants[place], moves.arriving[place + 1]
        )
        np.testing.assert_allclose(moves.edges[place].sum(axis=0), moves.arriving[place], atol=1e-10)
    svg = information_svg(trace, target)
    assert svg.startswith("<svg") and svg.count("<line") > len(trace)


def test_a_trained_model_copies_by_its_induction_heads():
    trace = px.load("attn-2l").run("Macbeth shall sleep no more. Macbeth shall")
    target = trace.logit(" sleep")
    best = [label for label, _ in attribute(trace, target, "head").ranked()[:3]]
    assert set(best) == {"L1H0", "L1H2", "L1H3"}
    split = head_tokens(trace, target)
    for label in best:
        row = split.values[split.labels.index(label)]
        assert trace.token_strings[row.argmax()] == " sleep" and row.max() > 2.5


def test_other_units_are_refused():
    trace = run(px.random_model())
    with pytest.raises(PathexpError, match="neuron"):
        attribute(trace, trace.logit(1), "neuron")
    with pytest.raises(PathexpError, match="L9H9"):
        attribute(trace, trace.logit(1))["L9H9"]
