"""What all beginnings bring, and all endings take, is found once: sums are those of a walk of their own, in every graph."""

import numpy as np
import pytest

import pathexp as px
from pathexp.expansion.target_totals import TargetTotals
from pathexp.graph import Pullback, Walk, everything, freeze
from pathexp.graph import kept_streams as module
from pathexp.graph.reading import reading_graph
from tests.zoo import FAMILIES, ZOO

MODELS = {**ZOO, **FAMILIES}


def queries(graph):
    """Queries that leave open a beginning, an ending, both, or neither, over the components that there are."""
    labels = [component.label for component in graph.components()]
    sink, source = graph.sink.label, graph.sources[0].label
    found = [f"S .* {sink}", f"{source} .* {sink}"]
    for label in (*labels[:2], *labels[-2:], *labels[len(labels) // 2 : len(labels) // 2 + 1]):
        found += [f"S .* {label} {sink}", f"S .* {label} .* {sink}", f"{source} {label} .* {sink}"]
        found += [f"S {label} .* {sink}", f"{source} .* {label} {labels[-1]} {sink}"]
    return list(dict.fromkeys(found))


def own(walk, by_order, monkeypatch):
    """The streams of a walk that shares nothing with others."""
    with monkeypatch.context() as patched:
        patched.setitem(walk.__dict__, "all_until", (0, -1))
        return walk.streams(by_order)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", sorted(MODELS))
def test_sums_are_those_of_a_walk_of_its_own(name, monkeypatch):
    model = MODELS[name]()
    trace = model.run(np.random.default_rng(1).integers(0, model.config.d_vocab, min(6, model.config.n_ctx)))
    graphs = [freeze(trace)]
    if model.config.n_layers:
        graphs += [reading_graph(trace, f"L{model.config.n_layers - 1}H0", side) for side in "QK"]
    for graph in graphs:
        for query in queries(graph):
            walk = px.expand(graph, query).walk if graph is graphs[0] else px.expand(graph).where(query).walk
            for by_order in (False, True):
                for found, expected in zip(
                    walk.streams(by_order), own(walk, by_order, monkeypatch), strict=True
                ):
                    np.testing.assert_allclose(
                        found, expected, rtol=0, atol=1e-12 * (1 + np.abs(expected).max())
                    )
    target = trace.logit(min(3, model.config.d_out - 1), position=len(trace.logits) // 2)
    for query in queries(graphs[0]):
        totals = TargetTotals(px.expand(graphs[0], query).walk)
        sides = [totals.total(target, side) for side in ("front", "back")]
        assert sides[0] == pytest.approx(sides[1], abs=1e-11 * (1 + np.abs(trace.logits).max()))


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", sorted(MODELS))
def test_what_comes_from_each_position_is_as_by_a_walk_of_its_own(name):
    model = MODELS[name]()
    trace = model.run(np.random.default_rng(1).integers(0, model.config.d_vocab, min(6, model.config.n_ctx)))
    graph = freeze(trace)
    target = trace.logit(min(3, model.config.d_out - 1), position=len(trace.logits) // 2)
    size = 1 + np.abs(trace.logits).max()
    for query in queries(graph):
        terms, alone = px.expand(graph, query), px.expand(graph, query)
        if not terms.count():
            continue
        alone.walk.__dict__.update(all_until=(0, -1), free_from=(len(graph.blocks), -1))
        found, expected = (each.tree(target, nodes=2).root for each in (terms, alone))
        np.testing.assert_allclose(found.by_position(), expected.by_position(), rtol=0, atol=1e-11 * size)
        assert found.by_position().sum() == pytest.approx(terms.value(target), abs=1e-11 * size)
        for one, other in zip(found.children[:3], expected.children[:3], strict=True):
            np.testing.assert_allclose(one.by_position(), other.by_position(), rtol=0, atol=1e-11 * size)


def deep(n=5):
    model = px.random_model(
        layers=4, heads=3, kv_heads=1, d_head=5, d_mlp=9, norm="rmsnorm", biases=True, positions="learned", d_vocab=20, seed=3
    )  # fmt: skip
    return model.run(np.arange(n) % 20)


def test_where_beginnings_and_endings_are_free():
    graph = freeze(deep())
    label, m = graph.places, len(graph.blocks)
    assert Walk(graph, everything).all_until[0] == m and Walk(graph, everything).free_from[0] == 0
    ending, beginning = px.expand(graph, "S .* L2H1 U").walk, px.expand(graph, "E L1M .* U").walk
    assert ending.all_until[0] == label["L2H1"] and ending.free_from[0] == m
    assert beginning.all_until[0] == 0 and beginning.free_from[0] == label["L1M"] + 1
    assert px.expand(graph, "E .* U").walk.all_until[0] == 0, "other sources begin no path of it"


def test_a_graph_that_was_changed_shares_only_what_is_the_same():
    graph = freeze(deep())
    whole = Walk(graph, everything).logits()
    without = graph.without("L1H1")
    kept = Walk(without, everything).logits()
    through = px.expand(graph, "S .* L1H1 .* U").walk.logits()
    np.testing.assert_allclose(kept, whole - through, rtol=0, atol=1e-12)
    steered = graph.with_source("steer", np.ones(graph.sizes[:2]), depth=2)
    change = px.expand(steered, "steer .* U").walk.logits()
    np.testing.assert_allclose(Walk(steered, everything).logits(), whole + change, rtol=0, atol=1e-12)
    np.testing.assert_allclose(Walk(graph, everything).logits(), whole, rtol=0, atol=0)


def test_one_pass_serves_all_queries(monkeypatch):
    trace = deep()
    graph, crossed = freeze(trace), []
    plain = module._crossed
    monkeypatch.setattr(module, "_crossed", lambda *given: crossed.append(given[2]) or plain(*given))
    target = trace.logit(3)
    for query in ("S .* L3H0 U", "S .* L2M U", "S .* L3M U"):
        px.expand(graph, query).value(target)
    for label in ("L3H1", "L2H0"):
        for side in "QK":
            px.expand(reading_graph(trace, label, side)).logits()
    assert sorted(crossed) == sorted(set(crossed)), "no block is crossed twice"


def test_a_field_is_pulled_back_once_and_the_next_target_anew(monkeypatch):
    trace = deep()
    graph = freeze(trace)
    for token in (3, 4):
        target = trace.logit(token)
        for query in ("E L0M .* U", "S L1H1 .* U", "E .* L1H2 .* U"):
            walk = px.expand(graph, query).walk
            assert TargetTotals(walk).total(target, "back") == pytest.approx(
                walk.logits()[-1, token], abs=1e-12
            )


def test_without_room_nothing_is_kept_and_sums_are_the_same():
    before = px.memory_budget()
    trace = deep()
    graph, target = freeze(trace), trace.logit(3)
    found = [px.expand(graph, query).value(target) for query in queries(graph)]
    try:
        px.memory_budget(0)
        trace = deep()
        graph, target = freeze(trace), trace.logit(3)
        again = [px.expand(graph, query).value(target) for query in queries(graph)]
        assert module.kept_until(graph, len(graph.blocks)) == 0
        back = [
            Pullback(px.expand(graph, query).walk, np.ones(graph.sizes[:2])).totals()[0]
            for query in queries(graph)
        ]
    finally:
        px.memory_budget(before.limit)
    np.testing.assert_allclose(again, found, rtol=0, atol=1e-12)
    front = [float(px.expand(graph, query).walk.total[0].sum()) for query in queries(graph)]
    np.testing.assert_allclose(back, front, rtol=0, atol=1e-10)
