"""Sums toward a target from the back: the same as from the front and as brute force, for everything in the zoo."""

import numpy as np
import pytest

import pathexp as px
from pathexp.expansion.target_totals import TargetTotals
from pathexp.expansion.tolerance import rounding_tolerance
from pathexp.graph import Pullback, everything, positions_needed
from tests.circuits.attribution.test_flow import by_hand, hand_target
from tests.zoo import FAMILIES, ZOO

EVERY = {**ZOO, **FAMILIES}


def run(name, length=6):
    model = EVERY[name]()
    tokens = np.random.default_rng(len(name)).integers(0, model.config.d_vocab, length)
    return model.run(tokens)


def freezings(trace):
    yield px.freeze(trace)
    if trace.config.has_mlps and trace.config.n_layers:
        yield px.freeze(trace, mlp="source")
    if trace.config.n_layers and trace.config.has_dense(trace.config.n_layers - 1):
        yield px.freeze(trace, neurons={trace.config.n_layers - 1: [3, 1]})


def targets(trace):
    """Logits at the first and the last position, a difference at an inner one, and a direction on the stream."""
    yield from (trace.logit(2, position=position) for position in (0, -1))
    yield trace.logit_difference(1, 2, position=2)
    yield trace.direction(np.arange(1.0, 1.0 + trace.config.d_model), position=4, space="residual")


def queries(graph):
    """All paths, those of one source, those through one component, and those that leave it out."""
    yield everything
    yield f"{graph.sources[-1].label} .* {graph.sink.label}"
    labels = graph.alphabet.components
    if labels:
        yield f"S .* {labels[-1]} .* {graph.sink.label}"
        yield f"~(S .* {labels[0]} .* {graph.sink.label})"


def tolerance(terms, target, values):
    """What rounding at a logit explains, for as many logits as the target reads; on the stream a share of all."""
    listed = float(np.abs(values).sum())
    if target.space == "residual":
        return 1e-13 * max(listed, 1.0)
    return rounding_tolerance(terms.graph, len(values), listed) * float(np.abs(target.direction).sum())


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", EVERY)
def test_both_sides_agree_with_each_other_and_with_the_listed_paths(name):
    trace = run(name)
    for graph in freezings(trace):
        for query in queries(graph):
            terms = px.expand(graph, query)
            ends = np.cumsum(terms.count_by_order())[:-1]
            for target in targets(trace):
                values = terms.values(target)
                listed = [part.sum() for part in np.split(values, ends)]
                allowed = tolerance(terms, target, values)
                totals = [TargetTotals(terms.walk).total(target, side) for side in ("front", "back")]
                np.testing.assert_allclose(totals, values.sum(), rtol=0, atol=allowed)
                for side in ("front", "back"):
                    by_order = TargetTotals(terms.walk).by_order(target, side)
                    np.testing.assert_allclose(by_order, listed, rtol=0, atol=allowed)
                    assert abs(by_order.sum() - totals[0]) <= allowed


@pytest.mark.parametrize("query", [everything, "x .* U", "(x | late) .* d .* U", "~(x a .* U)"])
def test_skip_maps_gates_and_late_sources(query):
    terms = px.expand(by_hand(), query)
    for position in range(4):
        target = hand_target(position)
        listed = terms.values(target)
        for parts in (TargetTotals(terms.walk).by_order(target, side) for side in ("front", "back")):
            ends = np.cumsum(terms.count_by_order())[:-1]
            expected = [part.sum() for part in np.split(listed, ends)]
            np.testing.assert_allclose(parts, expected, rtol=1e-11, atol=1e-11)
        assert TargetTotals(terms.walk).total(target, "back") == pytest.approx(listed.sum(), rel=1e-11)


@pytest.mark.parametrize("name", EVERY)
def test_a_target_needs_the_positions_it_can_see(name):
    trace = run(name)
    walk = px.expand(trace).walk
    for position in range(6):
        field = np.zeros(walk.graph.sizes[:2])
        field[position] = 1.0
        looks_ahead = not trace.config.causal and trace.config.n_layers > 0
        assert positions_needed(walk, field) == (6 if looks_ahead else position + 1)


def test_later_positions_never_enter():
    """Sources that are wild behind the target do not change what is pulled back to it."""
    trace = run("gpt2")
    graph = px.freeze(trace)
    wild = np.zeros(graph.sizes[:2])
    wild[3:] = 1e300
    field = np.zeros(graph.sizes[:2])
    field[2] = 1.0
    before = Pullback(px.expand(graph).walk, field[:3]).totals()
    after = Pullback(px.expand(graph.with_source("wild", wild)).walk, field[:3]).totals()
    np.testing.assert_array_equal(before, after)


def test_the_side_that_costs_less():
    """Early targets come from the back until they add up to a forward pass; kept streams cost nothing."""
    trace = run("llama", length=8)
    terms = px.expand(trace)
    for position in (0, 1, 2):
        terms.value(trace.logit(1, position=position))
    spent = (1 + 2 + 3) * len(terms.graph.blocks)
    assert terms._totals.spent[False] == spent and "total" not in vars(terms.walk)
    terms.value(trace.logit(1, position=1))
    assert terms._totals.spent[False] == spent and "total" not in vars(terms.walk), "that field is kept"
    terms.value(trace.logit(2, position=1))
    assert "total" in vars(terms.walk)
    again = px.expand(trace)
    again.logits()
    again.value(trace.logit(1, position=0))
    assert not again._totals.spent


def test_no_paths_add_nothing():
    trace = run("2L-plain")
    terms = px.expand(trace, "E L1H0 L0H0 U")
    for side in ("front", "back"):
        assert TargetTotals(terms.walk).total(trace.logit(1), side) == 0.0
        assert not TargetTotals(terms.walk).by_order(trace.logit(1), side).any()


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert"])
def test_many_layers_that_nobody_could_list(name):
    """Deep models: no list, but the run itself says what the sum must be."""
    model = EVERY[name]()
    deep = px.random_model(**{**_switches(model), "layers": 12, "seed": 3})
    trace = deep.run([1, 2, 3, 4, 5, 6, 7])
    terms = px.expand(trace)
    assert terms.count() > 10**9
    target = trace.logit(3, position=4)
    allowed = 10 * rounding_tolerance(terms.graph, 0, 0.0)
    assert abs(TargetTotals(terms.walk).total(target, "back") - target.value) <= allowed
    assert abs(TargetTotals(terms.walk).by_order(target, "back").sum() - target.value) <= allowed


def _switches(model):
    c = model.config
    known = {
        name: value for name, value in vars(c).items() if name not in ("n_layers", "n_heads", "n_kv_heads")
    }
    return known | {"heads": c.n_heads, "kv_heads": c.n_kv_heads, "biases": True}
