"""Verdicts on weights of any size: never a false alarm, never blind, and nothing warns."""

from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from tests.zoo import FAMILIES, ZOO

pytestmark = pytest.mark.filterwarnings("error")
EVERY = {name: make for name, make in {**ZOO, **FAMILIES}.items() if make().config.logit_cap is None}


def times(model, factor):
    """The model with all that reads the final stream, and so all logits, times a factor."""
    names = ("W_U", "b_U")
    arrays = {name: array * factor for name, array in model.weights.arrays().items() if name in names}
    return replace(model, config=replace(model.config, tied=False), weights=replace(model.weights, **arrays))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("factor", [1e-280, 1e-160, 1e-20, 1e20, 1e160, 1e280])
@pytest.mark.parametrize("name", EVERY)
def test_verdicts_scale_with_the_logits(name, factor):
    model = EVERY[name]()
    before = px.expand(model.run([1, 2, 3, 4])).verify()
    graph = px.freeze(times(model, factor).run([1, 2, 3, 4]))
    after = px.expand(graph).verify()
    assert before.ok and after.ok
    assert after.tolerance == pytest.approx(before.tolerance * factor, rel=1e-2)
    wrong = graph.trace.logits.copy()
    wrong[2, 1] += 3 * after.tolerance
    assert not px.expand(graph).verify(wrong).ok


@pytest.mark.parametrize("factor", [1e-280, 1e-160, 1e150, 1e280])
def test_streams_of_any_size(factor):
    rng = np.random.default_rng(0)
    graph = px.ResidualGraph.by_hand(positions=3, d_model=4, unembedding=rng.standard_normal((5, 4)))
    graph = graph.with_source("x", factor * rng.standard_normal((3, 4)))
    graph = graph.with_component("a", rng.standard_normal((4, 4)), np.tril(rng.random((3, 3))))
    graph = graph.with_component("b", (rng.standard_normal((4, 2)), rng.standard_normal((2, 4))))
    terms = px.expand(graph)
    verdict = terms.verify(sum(term.logits() for term in terms))
    assert verdict.ok and 0 < verdict.tolerance < 1e-12 * factor
