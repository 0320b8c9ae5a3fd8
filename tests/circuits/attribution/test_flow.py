"""Flows: conserved at every node, and on every edge the sum of the listed paths that take it."""

import json
import pickle
from dataclasses import replace
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest

from pathexp import ResidualGraph, Target, expand, freeze, random_model
from pathexp.algebra import Dense, Diagonal, Space
from pathexp.circuits.attribution import flow_sweep
from pathexp.circuits.attribution.flow import flow
from pathexp.circuits.attribution.flow_sweep import FlowSweep
from pathexp.circuits.attribution.wires import Wires
from pathexp.cli import main
from pathexp.errors import GraphError, PathexpError, SizeError, TargetError
from pathexp.graph import Component, Factor, Gate, Step
from tests.zoo import ZOO

POSITION, MODEL = Space("position", 4), Space("model", 5)


def run(name, length=5):
    model = ZOO[name]()
    rng = np.random.default_rng(0)
    return model.run([int(token) for token in rng.integers(0, model.config.d_vocab, length)])


def factor(array, space):
    map = Diagonal(array, space) if array.ndim == 1 else Dense(array, space, space)
    return Factor("F", space.size, space.size, map)


def by_hand():
    """A graph with everything at once: skip maps, a gate, a low-rank update, a source that enters late."""
    rng = np.random.default_rng(3)
    graph = ResidualGraph.by_hand(positions=4, d_model=5, unembedding=rng.standard_normal((6, 5)))
    graph = graph.with_source("x", rng.standard_normal((4, 5)))
    graph = graph.with_component("a", rng.standard_normal((5, 5)), np.tril(rng.random((4, 4))))
    graph = graph.with_component("b", (rng.standard_normal((5, 2)), rng.standard_normal((2, 5))), beside="a")
    graph = graph.with_component("c", rng.standard_normal((5, 5)), np.tril(rng.random((4, 4))))
    graph = graph.with_component("d", rng.standard_normal((5, 5)))
    graph = graph.with_source("late", rng.standard_normal(5), depth=2)
    weights = factor(rng.standard_normal((5, 5)), MODEL), factor(rng.standard_normal((5, 5)), MODEL)
    gated = (Step((), weights[:1]), Gate("G", 4, 5, rng.random((4, 5))), Step((), weights[1:]))
    norm = (Step((factor(rng.random(4) + 0.5, POSITION),), (factor(rng.random(5) + 0.5, MODEL),)),)
    first, second, third = graph.blocks
    third = replace(third, components=(*third.components, Component("m", "mlp", gated, 2)))
    return replace(
        graph, blocks=(replace(first, skip=norm), replace(second, skip=norm), replace(third, skip=norm))
    )


def hand_target(position=2):
    return Target(position, np.array([1.0, -2.0, 0.5, 0.0, 3.0, -1.0]), "logits", "by hand", 0.0)


def listed(terms, target):
    """By brute force: for every edge the sum of the values of the listed paths that take it."""
    sums = {}
    for path, value in zip(terms.paths(), terms.values(target), strict=True):
        for edge in pairwise(path):
            sums[edge] = sums.get(edge, 0.0) + value
    return sums


def on_edges(found):
    return {(edge.writer, edge.reader): edge.flow for edge in found.edges}


def conserved(found, value, tolerance=1e-12):
    assert found.ok
    graph = found.to_networkx()
    for node in graph:
        into = sum(amount for *_, amount in graph.in_edges(node, data="flow"))
        out = sum(amount for *_, amount in graph.out_edges(node, data="flow"))
        if graph.in_degree(node) and graph.out_degree(node):
            assert abs(into - out) < tolerance, node
        assert abs(graph.nodes[node]["flow"] - (into if graph.in_degree(node) else out)) < tolerance
    sources = sum(graph.nodes[node]["flow"] for node in graph if not graph.in_degree(node))
    sinks = sum(graph.nodes[node]["flow"] for node in graph if not graph.out_degree(node))
    assert abs(sources - value) < tolerance and abs(sinks - value) < tolerance


@pytest.mark.parametrize("per_position", [False, True])
@pytest.mark.parametrize("name", ZOO)
def test_conserved_over_the_zoo(name, per_position):
    trace = run(name)
    target = trace.logit_difference(1, 2, position=3)
    conserved(flow(trace, target, per_position=per_position), target.value)


@pytest.mark.parametrize("name", ZOO)
def test_every_edge_is_the_sum_of_the_listed_paths_through_it(name):
    trace = run(name)
    target = trace.logit(2, position=3)
    expected = listed(expand(trace), target)
    found = on_edges(flow(trace, target))
    assert found.keys() == expected.keys()
    np.testing.assert_allclose([found[edge] for edge in expected], list(expected.values()), atol=1e-12)


PUBLISHED = {
    "post-norm": {"norm": "layernorm", "norm_placement": "post", "d_mlp": 20},
    "sandwich, gated": {"norm": "rmsnorm", "norm_placement": "sandwich", "d_mlp": 20, "gated": True},
    "parallel, capped": {"norm": "layernorm", "parallel": "shared", "d_mlp": 9, "logit_cap": 5.0},
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("per_position", [False, True])
@pytest.mark.parametrize("mlp", ["gate", "source"])
@pytest.mark.parametrize("family", PUBLISHED)
def test_mlps_as_gates_or_as_sources_and_every_norm_placement(family, mlp, per_position):
    trace = random_model(layers=2, heads=3, biases=True, seed=2, **PUBLISHED[family]).run([1, 2, 3, 4])
    graph, target = freeze(trace, mlp=mlp), trace.logit(3)
    found = flow(graph, target, per_position=per_position)
    conserved(found, target.value)
    if not per_position:
        expected = listed(expand(graph), target)
        assert on_edges(found).keys() == expected.keys()
        np.testing.assert_allclose(
            [on_edges(found)[e] for e in expected], list(expected.values()), atol=1e-12
        )
    kept = found.prune(0.8)
    conserved(kept, kept.value)
    assert abs(kept.remainder) <= 0.2 * abs(target.value) + 1e-12


@pytest.mark.parametrize(
    "query",
    ["E .* U", "(E | P | b_V_L1H1) .* L1H1 .* U", "~(E .* L0H0 .* U)", "E L0 L1 U", "(E | P) L0H1? U"],
)
def test_a_query_lets_only_its_paths_flow(query):
    trace = run("3L-layernorm")
    target = trace.logit(2, position=4)
    terms = expand(trace, query)
    graph = flow(trace, target, query=query)
    expected = listed(terms, target)
    found = on_edges(graph)
    assert found.keys() == expected.keys()
    np.testing.assert_allclose([found[edge] for edge in expected], list(expected.values()), atol=1e-12)
    assert abs(graph.value - terms.value(target)) < 1e-12
    conserved(graph, terms.value(target))


def test_node_totals_are_query_totals():
    trace = run("3L-layernorm")
    target = trace.logit(1)
    terms, graph = expand(trace), flow(trace, target)
    start = " | ".join(freeze(trace).alphabet.sources)
    for label in ("L0H1", "L1H0", "L2H1"):
        assert abs(graph.node_flow(label) - terms.where(f"({start}) .* {label} .* U").value(target)) < 1e-12
    assert abs(graph.node_flow("E") - terms.where("E .* U").value(target)) < 1e-12


@pytest.mark.parametrize("per_position", [False, True])
@pytest.mark.parametrize("query", ["(x | late) .* U", "x .* d U", "~(x a .* U)"])
def test_skip_maps_gates_and_late_sources(query, per_position):
    terms = expand(by_hand(), query)
    target = hand_target()
    graph = flow(by_hand(), target, query=query, per_position=per_position)
    conserved(graph, terms.value(target), tolerance=1e-10)
    if not per_position:
        expected = listed(terms, target)
        found = on_edges(graph)
        assert found.keys() == expected.keys()
        np.testing.assert_allclose([found[e] for e in expected], list(expected.values()), atol=1e-10)


@pytest.mark.parametrize("name", ["2L-gqa", "3L-layernorm", "2L-mqa-no-positions", "1L-bidirectional"])
def test_positions_add_up_to_the_plain_flow(name):
    trace = run(name)
    target = trace.logit(3, position=4)
    merged = {}
    for each in flow(trace, target, per_position=True).edges:
        edge = each.writer.split("@")[0], each.reader.split("@")[0]
        merged[edge] = merged.get(edge, 0.0) + each.flow
    plain = on_edges(flow(trace, target))
    for edge, amount in plain.items():
        assert abs(merged.get(edge, 0.0) - amount) < 1e-12


@pytest.mark.parametrize("per_position", [False, True])
@pytest.mark.parametrize("query", ["S .* U", "S .* L1 .* U"])
@pytest.mark.parametrize("at_once", [1, 3, 1000])
def test_over_plain_skips_writers_may_be_met_with_readers_in_any_number(
    at_once, query, per_position, monkeypatch
):
    model = random_model(
        layers=3, heads=3, d_model=20, d_head=4, d_mlp=12, biases=True, norm="rmsnorm", seed=4
    )
    trace = model.run([3, 1, 2, 5])
    graph = freeze(trace)
    sweep = FlowSweep(Wires(expand(graph, query).walk, per_position), trace.logit(2))
    monkeypatch.setattr(flow_sweep, "AT_ONCE", at_once)
    np.testing.assert_allclose(sweep._over_plain_skips(), sweep._over_any_skips(), rtol=0, atol=1e-13)
    assert not any(block.skip for block in graph.blocks)


def test_blocks_without_components_meet_nobody(monkeypatch):
    monkeypatch.setattr(flow_sweep, "AT_ONCE", 1)
    trace = random_model(layers=3, heads=2, seed=4).run([3, 1, 2, 5])
    graph = freeze(trace).without("L1H0", "L1H1")
    sweep = FlowSweep(Wires(expand(graph).walk, False), trace.logit(2))
    np.testing.assert_allclose(sweep._over_plain_skips(), sweep._over_any_skips(), rtol=0, atol=1e-13)


def test_a_head_moves_between_positions_by_its_pattern():
    """One head by its formula: E@j -> L0H0@i carries A[i, j] ⟨d U W_OV, x_j⟩, at the target's position only."""
    trace = random_model(layers=1, heads=1, positions="none", d_vocab=7, seed=4).run([1, 5, 2])
    weights, target = trace.model.weights, trace.logit(3, position=2)
    graph = flow(trace, target, per_position=True)
    read = weights.W_U[3] @ weights.W_O[0, 0] @ weights.W_V[0, 0]
    for j, token in enumerate([1, 5, 2]):
        expected = trace.patterns[0, 0, 2, j] * (read @ weights.W_E[:, token])
        assert abs(graph[f"E@{j}", "L0H0@2"] - expected) < 1e-14
    assert sorted(node.name for node in graph.nodes) == ["E@0", "E@1", "E@2", "L0H0@2", "U@2"]
    assert graph.to_networkx().nodes["L0H0@2"]["position"] == 2


def test_on_paper():
    """x = 1 at one position; a doubles, b takes a third of what is there: paths 1 + 2 + 1/3 + 2/3."""
    graph = ResidualGraph.by_hand(positions=1, d_model=1, unembedding=[[1.0]]).with_source("x", [[1.0]])
    graph = graph.with_component("a", [[2.0]]).with_component("b", [[1 / 3]])
    target = Target(0, np.array([1.0]), "logits", "one", 4.0)
    assert on_edges(flow(graph, target)) == pytest.approx(
        {
            ("x", "a"): 2 + 2 / 3,
            ("x", "b"): 1 / 3,
            ("x", "U"): 1.0,
            ("a", "b"): 2 / 3,
            ("a", "U"): 2.0,
            ("b", "U"): 1.0,
        }
    )


@pytest.mark.parametrize("per_position", [False, True])
def test_nodes_name_their_place_in_the_graph(per_position):
    """Sources stand in block -1, components in theirs, the sink behind the last; layers, heads and positions alike."""
    trace = run("2L-qk")
    graph = freeze(trace)
    found = flow(graph, trace.logit(1), per_position=per_position)
    heads = {f"L{layer}H{head}": (layer, head) for layer in range(2) for head in range(3)}
    for node in found.nodes:
        layer, head = heads.get(node.label, (-1, None))
        sink = node.label == "U"
        assert node.layer == (2 if sink else layer) and node.head == head
        assert node.block == (len(graph.blocks) if sink else graph.places.get(node.label, -1))
        assert (node.position is None) is not per_position
        assert node.kind == {"E": "embedding", "U": "unembedding"}.get(node.label, "head")
    assert {node.label for node in found.nodes} == {"E", "U", *heads}


def test_one_edge_divides_over_the_heads_of_a_layer_and_a_bypass():
    """All that E adds, over the three heads of either layer and past them, exactly."""
    trace = random_model(layers=2, heads=3, norm="layernorm", biases=True, seed=6).run([1, 5, 2, 2])
    target = trace.logit(3)
    terms = expand(trace, "E .* U")
    graph = flow(trace, target, query="E .* U")
    for layer in (0, 1):
        parts = graph.split(layer)
        assert list(parts) == [f"L{layer}H0", f"L{layer}H1", f"L{layer}H2", "past"]
        assert abs(sum(parts.values()) - terms.value(target)) < 1e-13
        for label in parts:
            query = f"E .* U & ~(E .* L{layer} .* U)" if label == "past" else f"E .* {label} .* U"
            assert abs(parts[label] - terms.where(query).value(target)) < 1e-13
    with pytest.raises(GraphError, match="no block 2 to split a flow at; this graph has 2"):
        graph.split(2)


def test_shares_into_every_node_of_every_position_sum_to_one():
    trace = run("3L-layernorm", length=3)
    both = [flow(trace, trace.logit(1, position=p), per_position=True) for p in (1, 2)]
    for graph in both:
        rows = {}
        for (_, reader, _), share in graph.inflow_shares().items():
            assert share >= 0
            rows[reader] = rows.get(reader, 0.0) + share
        positions = {node.position for node in graph.nodes if node.name in rows}
        assert positions >= {graph.target.position}
        assert all(abs(total - 1.0) < 1e-12 for total in rows.values())


def test_shares_of_nothing_are_undefined_and_not_zero():
    graph = ResidualGraph.by_hand(positions=1, d_model=1, unembedding=[[0.0]]).with_source("x", [[1.0]])
    shares = flow(graph, Target(0, np.array([1.0]), "logits", "one", 0.0)).inflow_shares()
    assert list(shares) == [("x", "U", "stream")] and np.isnan(shares["x", "U", "stream"])


def test_negative_flows_keep_their_sign():
    graph = ResidualGraph.by_hand(positions=1, d_model=1, unembedding=[[1.0]]).with_source("A", [[-1.0]])
    graph = graph.with_component("B", [[5.0]]).with_component("C", [[10.0]])
    target = Target(0, np.array([1.0]), "logits", "one", -66.0)
    found = on_edges(flow(graph, target))
    assert found["A", "B"] == -55 and found["B", "C"] == -50 and found["A", "C"] == -10
    best = expand(graph).top(1, target)
    assert str(best.terms[0].path) == "A B C U" and best.values[0] == -50


def test_no_paths_is_an_empty_flow():
    trace = run("2L-plain")
    found = flow(trace, trace.logit(1), query="E L1H0 L0H0 U")
    assert not found.nodes and found.value == 0.0 and found.ok and len(found.to_networkx()) == 0


@pytest.mark.parametrize("per_position", [False, True])
def test_a_query_that_no_source_can_begin_is_an_empty_flow(per_position):
    trace = random_model(layers=2, heads=2, positions="none").run([1, 2, 3])
    found = flow(trace, trace.logit(4), query="S .* U & ~(E .* U)", per_position=per_position)
    assert (len(found.nodes), found.value) == (0, 0.0)
    assert found.prune().remainder == 0.0


def test_a_residual_target_reads_the_stream_and_no_constant_of_the_sink():
    trace = run("3L-layernorm")
    target = trace.direction(np.arange(14.0), position=2, space="residual")
    graph = flow(trace, target)
    conserved(graph, target.value, tolerance=1e-10)
    assert graph["b_U", "U"] == 0.0


@pytest.mark.sampled(5)
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9, 0.99, 1.0])
@pytest.mark.parametrize("per_position", [False, True])
@pytest.mark.parametrize("name", ["2L-gqa", "3L-layernorm", "2L-qk"])
def test_a_pruned_flow_keeps_its_share_and_is_conserved(name, per_position, share):
    trace = run(name)
    target = trace.logit(2, position=3)
    whole = flow(trace, target, per_position=per_position)
    kept = whole.prune(share)
    assert abs(kept.value + kept.remainder - target.value) < 1e-12
    assert abs(kept.remainder) <= (1 - share) * abs(target.value) + 1e-11
    conserved(kept, kept.value)
    before = {edge.ends: edge.flow for edge in whole.edges}
    for row in kept.records("edges"):
        assert row["whole"] == before[row["writer"], row["reader"], row["kind"]]


@pytest.mark.parametrize("name", ["2L-gqa", "3L-layernorm"])
def test_a_pruned_flow_is_the_sum_of_the_paths_whose_edges_are_kept(name):
    trace = run(name)
    target = trace.logit(2, position=3)
    terms = expand(trace)
    whole = flow(trace, target)
    kept = whole.prune(0.7)
    inside = set(on_edges(kept))
    values = [
        value
        for path, value in zip(terms.paths(), terms.values(target), strict=True)
        if all(edge in inside for edge in pairwise(path))
    ]
    assert abs(sum(values) - kept.value) < 1e-12
    weaker = {edge.ends[:2] for edge in whole.edges[: kept.taken - 1]}
    without_weakest = sum(
        value
        for path, value in zip(terms.paths(), terms.values(target), strict=True)
        if all(edge in weaker for edge in pairwise(path))
    )
    assert abs(target.value - without_weakest) > 0.3 * abs(target.value)


def test_pruning_with_skips_and_a_query():
    terms = expand(by_hand(), "x .* U")
    target = hand_target()
    kept = flow(by_hand(), target, query="x .* U", share=0.8)
    inside = set(on_edges(kept))
    values = [
        value
        for path, value in zip(terms.paths(), terms.values(target), strict=True)
        if all(edge in inside for edge in pairwise(path))
    ]
    assert abs(sum(values) - kept.value) < 1e-10
    conserved(kept, kept.value, tolerance=1e-10)


def test_a_position_that_the_skip_moves_cannot_be_kept_apart():
    graph = by_hand()
    moving = (Step((factor(np.full((4, 4), 0.5), POSITION),), ()),)
    graph = replace(graph, blocks=(replace(graph.blocks[0], skip=moving), *graph.blocks[1:]))
    conserved(flow(graph, hand_target()), expand(graph).value(hand_target()), tolerance=1e-10)
    with pytest.raises(GraphError, match="skip edge past block 0 moves between positions"):
        flow(graph, hand_target(), per_position=True)


def test_what_does_not_fit_is_refused():
    trace = run("2L-plain")
    with pytest.raises(TargetError):
        flow(trace, Target(9, np.ones(11), "logits", "elsewhere", 0.0))
    for share in (0.0, 1.5, float("nan"), None, "a", True):
        with pytest.raises(PathexpError, match="above 0 and at most 1"):
            flow(trace, trace.logit(1)).prune(share)
    for block in (-1, 2, 1.0, None, "a", True):
        with pytest.raises(GraphError, match="to split a flow at; this graph has 2"):
            flow(trace, trace.logit(1)).split(block)


@pytest.mark.parametrize("what", [None, 3, "flow", freeze(run("2L-plain")).to_networkx()])
def test_what_has_no_flow_is_refused(what):
    with pytest.raises(PathexpError, match="takes a trace or a residual graph"):
        flow(what, run("2L-plain").logit(1))
    for name in ("L9H9", None):
        with pytest.raises(GraphError, match="no node"):
            flow(run("2L-plain"), run("2L-plain").logit(1)).node_flow(name)
    with pytest.raises(GraphError, match="no edge"):
        flow(run("2L-plain"), run("2L-plain").logit(1))["L1H0", "L0H0"]


def test_a_flow_beyond_memory_is_refused_with_its_size(monkeypatch):
    monkeypatch.setattr(flow_sweep, "MEMORY_LIMIT", 1000)
    trace = run("2L-plain")
    with pytest.raises(
        SizeError, match="21 nodes × 1 states, 5 positions × 14 numbers each, holds 1,470 numbers"
    ):
        flow(trace, trace.logit(1), per_position=True)


def test_the_check_fails_when_a_flow_is_lost():
    found = flow(run("2L-plain"), run("2L-plain").logit(1))
    first, *others = found.edges
    lost = replace(found, edges=(replace(first, flow=first.flow + 1e-3), *others))
    assert found.ok and not lost.ok and "does not hold" in str(lost)


@pytest.mark.parametrize("asked", [(), ("--per-position",), ("--share", "0.999", "--query", "E .* U")])
def test_the_command_prints_the_same_answer_and_writes_the_graph(capsys, tmp_path, asked):
    path, graph = str(tmp_path / "tiny.npz"), str(tmp_path / "flow.graphml")
    model = random_model(layers=2, heads=2, d_vocab=9, norm="layernorm", biases=True, seed=1)
    model.save(path)
    command = ["flow", path, "--tokens", "1,2,3", *asked]
    assert main([*command, "--json", "--graph", graph]) == 0
    data = json.loads(capsys.readouterr().out)
    trace = model.run([1, 2, 3])
    given = {"share": 0.999, "query": "E .* U"} if "--share" in asked else {"per_position": bool(asked)}
    found = flow(trace, trace.logit(trace.top_token()), **given)
    expected = json.loads(found.to_json())
    assert data["tables"] == expected["tables"] and data["checks"] == expected["checks"]
    assert set(nx.read_graphml(graph, force_multigraph=True)) == {node.name for node in found.nodes}
    assert main([*command, "--top", "2"]) == 0
    printed = capsys.readouterr().out
    for part in ("flow of logit of", "more of", "inflow equals outflow"):
        assert part in printed, part
    assert ("pruned to" in printed) == ("--share" in asked)


def test_a_copied_flow_keeps_its_numbers_and_not_its_run():
    trace = run("2L-plain")
    found = flow(trace, trace.logit(1), share=0.9)
    again = pickle.loads(pickle.dumps(found))
    assert str(again) == str(found) and again.edges == found.edges and again.whole.nodes == found.whole.nodes
    assert set(again.to_networkx()) == {node.name for node in found.nodes}
    with pytest.raises(AttributeError, match="ask again"):
        again.prune()


def test_bad_shares_and_files_are_refused_before_any_work(capsys):
    assert main(["flow", "attn-1l", "the", "--graph", "flow.txt"]) == 2
    assert ".graphml" in capsys.readouterr().err
    assert main(["flow", "attn-1l", "the", "--graph", "/nowhere/at/all/flow.dot"]) == 2
    assert main(["flow", "attn-1l", "the", "--share", "0"]) == 2
    assert "above 0 and at most 1" in capsys.readouterr().err


def test_flows_to_a_heads_query_hold_its_bias():
    """Paths that end inside: a constant that the sink reads past the stream flows into it."""
    model = random_model(layers=2, heads=2, norm="layernorm", biases=True, positions="qk", seed=2)
    trace = model.run([1, 2, 3, 4])
    target = trace.direction(np.cos(np.arange(model.config.d_head)), at="L1H0.Q")
    terms = expand(trace, at="L1H0.Q")
    assert any(terms.graph.sink.label in source.into for source in terms.graph.sources)
    assert abs(flow(terms.graph, target).value - target.value) < 1e-13
