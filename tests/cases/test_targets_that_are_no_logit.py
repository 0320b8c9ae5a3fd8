"""Targets that are no logit of one token: a probe's direction, a mean over answers, a head's key. Each against the run itself."""

import numpy as np
import pytest

import pathexp as px
from tests.zoo import FAMILIES

TEXT, OTHER = "Macbeth shall sleep no more. Macbeth shall", "Macbeth doth sleep no more. Macbeth shall"
ANSWERS, OTHERS = (" sleep", " be", " have"), (" not", " I")


@pytest.fixture(scope="module")
def trace() -> px.Trace:
    return px.load("attn-2l").run(TEXT)


def added_up(trace: px.Trace, target: px.Target, at: str) -> px.Expansion:
    """The paths to where a target reads, whose values are its value; the largest are ranked with proof."""
    terms = px.expand(trace, at=at) if at else px.expand(trace)
    assert terms.verify().ok
    assert terms.values(target).sum() == pytest.approx(target.value, abs=1e-10)
    ranking = terms.top(3, target)
    assert ranking.exact and ranking.value + ranking.remainder == pytest.approx(target.value, abs=1e-10)
    return terms


@pytest.mark.parametrize(("at", "place"), [("L0.out", 5), ("L1.out", -1), ("final", 0)])
def test_a_probes_direction(trace, at, place):
    probe = np.random.default_rng(1).standard_normal(trace.config.d_model)
    target = trace.direction(probe, at=at, position=place)
    point = "final_in" if at == "final" else at
    assert target.value == pytest.approx(trace.residuals[point][place] @ probe, abs=1e-12)
    added_up(trace, target, at)


def test_a_mean_over_answers(trace):
    """The mean logit of some tokens minus that of others: linear, so the mean of what single tokens get, path by path."""
    good, bad = ([trace.model.token_id(word) for word in words] for words in (ANSWERS, OTHERS))
    direction = np.zeros(trace.config.d_out)
    direction[good], direction[bad] = 1 / len(good), -1 / len(bad)
    target = trace.direction(direction)
    logits = trace.logits[-1]
    assert target.value == pytest.approx(logits[good].mean() - logits[bad].mean(), abs=1e-12)
    terms = added_up(trace, target, "")
    single = np.stack([terms.values(trace.logit(word)) for word in (*ANSWERS, *OTHERS)])
    np.testing.assert_allclose(
        terms.values(target), single[:3].mean(axis=0) - single[3:].mean(axis=0), atol=1e-10
    )
    graph = px.contrast(trace, trace.model.run(OTHER))
    change = graph.difference(target).value
    assert (
        px.expand(graph).value(target) == pytest.approx(change, abs=1e-10)
        and px.attribution(graph, target).ok
    )


@pytest.mark.parametrize("place", [6, -1])
def test_a_heads_key(trace, place):
    """As the run recorded it: this model neither turns nor norms keys."""
    direction = trace.queries[1, 3, -1]
    target = trace.direction(direction, at="L1H3.K", position=place)
    assert target.value == pytest.approx(direction @ trace.keys[1, 3, place], abs=1e-12)
    terms = added_up(trace, target, "L1H3.K")
    assert terms.where("E L0H2 L1H3.K").count() == 1
    graph = px.contrast(trace, trace.model.run(OTHER))
    inside = px.expand(graph, at="L1H3.K")
    assert inside.verify().ok and inside.value(target) == pytest.approx(
        graph.difference(target).value, abs=1e-10
    )


def test_a_key_of_a_head_that_is_turned_normed_and_shared():
    trace = FAMILIES["qwen3"]().run([3, 1, 4, 1, 5])
    direction = np.arange(1.0, 1 + trace.config.d_head)
    added_up(trace, trace.direction(direction, at="L1H3.K", position=2), "L1H3.K")
