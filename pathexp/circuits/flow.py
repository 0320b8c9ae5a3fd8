"""Flows: how much of a target passes along every edge of the residual graph, over all paths, exactly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arguments import TRUTH, expect
from ..errors import GraphError, PathexpError
from ..expansion import Expansion, expand
from ..graph import Component, ResidualGraph, Sink, Source, empty_multigraph
from ..model import Target, Trace
from .sweep import Sweep
from .wires import Flags, Wires

if TYPE_CHECKING:
    import networkx as nx

Edge = tuple[str, str, str]
"""An edge of a flow: writer, reader, key."""


def flow(
    what: Trace | ResidualGraph | Expansion, target: Target, *, per_position: bool = False
) -> nx.MultiDiGraph:
    """Return the exact signed flow of a target along every edge, over all paths at once.

    The `flow` of an edge a -> b is the sum, in the target's units, of all paths that take the edge: the target
    pulled back to b's input, met with a's output carried over the skips. It is conserved: at every component
    inflow equals outflow, the sources' outflows and the sink's inflow each add up to the target.

    Parameters
    ----------
    what: a trace, a residual graph, or an expansion narrowed by `where`: then only its paths flow.
    target: what is asked about, such as `trace.logit(token)`.
    per_position: make one node per component and position, `L0H1@3`: what the head writes at position 3.

    Returns
    -------
    A MultiDiGraph. Edges carry `flow` and `kind`, which is also their key: "stream", or "direct" for a
    constant read inside one component. Nodes carry `label`, `kind`, `layer`, `block` (-1 for sources), `flow`
    (what passes through), `head` for heads, `position` where kept apart. The graph carries `value` (the whole
    target), `target`, `walk` and `per_position`. Edges that no path takes are left out; an empty graph means
    that there are no paths.

    Cost: one backward and one forward pass per live state of the query, and O(edges · positions · d_model).
    Raises SizeError if the pulled-back fields do not fit in memory, TargetError for a target of another run.
    Elhage et al. 2021, "Path Expansion"; per position as in Ferrando & Voita 2024, "Information Flow Routes",
    but signed, exact and by virtual paths.

    >>> import pathexp as px
    >>> trace = px.random_model(layers=2, heads=2, seed=1).run([1, 2, 3])
    >>> target = trace.logit(4)
    >>> graph = px.flow(trace, target)
    >>> sorted(graph.successors("L0H1"))
    ['L1H0', 'L1H1', 'U']
    >>> into = sum(amount for *_, amount in graph.in_edges("L1H0", data="flow"))
    >>> out = sum(amount for *_, amount in graph.out_edges("L1H0", data="flow"))
    >>> abs(into - out) < 1e-12, abs(graph.graph["value"] - target.value) < 1e-12
    (True, True)
    """
    expect("flow", per_position=(per_position, TRUTH))
    terms = what if isinstance(what, Expansion) else expand(what)
    return drawn(Sweep(Wires(terms.walk, per_position), target))


def drawn(sweep: Sweep) -> nx.MultiDiGraph:
    """Return a sweep's flows as a graph."""
    return _Drawing(sweep).graph()


@dataclass(frozen=True, eq=False)
class Names:
    """What the nodes of a flow are called: by label, or by label and position."""

    wires: Wires
    position: int
    """The target's position, at which alone the sink is read."""

    @cached_property
    def writers(self) -> tuple[str, ...]:
        """Names of all writers · copies."""
        return tuple(self.name(label, k) for label in self.wires.writers for k in range(self.wires.copies))

    @cached_property
    def readers(self) -> tuple[str, ...]:
        """Names of all readers, the sink last."""
        components = self.wires.graph.alphabet.components
        names = [self.name(label, k) for label in components for k in range(self.wires.copies)]
        return (*names, self.sink)

    @property
    def sink(self) -> str:
        """The name of the sink."""
        return self.name(self.wires.graph.sink.label, self.position)

    def direct(self, number: int, k: int) -> tuple[str, str]:
        """The names of a direct edge's ends."""
        edge = self.wires.directs[number]
        return self.name(edge.source, k), self.name(edge.reader, k)

    def name(self, label: str, k: int) -> str:
        """The name of one copy of a node."""
        return f"{label}@{k}" if self.wires.by_position else label


@dataclass(frozen=True, eq=False)
class _Drawing:
    sweep: Sweep

    @cached_property
    def names(self) -> Names:
        return Names(self.sweep.wires, self.sweep.target.position)

    def graph(self) -> nx.MultiDiGraph:
        wires = self.sweep.wires
        found = empty_multigraph(
            value=self.sweep.value,
            target=self.sweep.target,
            walk=wires.walk,
            per_position=wires.by_position,
        )
        edges = list(self.edges())
        on_edge = {name for writer, reader, _, _ in edges for name in (writer, reader)}
        found.add_nodes_from((name, attributes) for name, attributes in self.nodes() if name in on_edge)
        found.add_edges_from(
            (writer, reader, kind, {"kind": kind, "flow": amount}) for writer, reader, kind, amount in edges
        )
        for name, attributes in found.nodes(data=True):
            attributes["flow"] = through(found, name)
        return found

    def edges(self) -> Iterator[tuple[str, str, str, float]]:
        """The edges that a path takes; kept apart by position, those that carry anything."""
        exist, sweep = self.sweep.paths_exist, self.sweep
        writers, readers = self.names.writers, self.names.readers
        for row, column in np.argwhere(exist.stream & self._carries(sweep.stream)):
            yield writers[row], readers[column], "stream", float(sweep.stream[row, column])
        for number, k in np.argwhere(exist.direct & self._carries(sweep.direct)):
            yield *self.names.direct(number, k), "direct", float(sweep.direct[number, k])

    def _carries(self, flows: np.ndarray) -> Flags:
        return np.asarray(flows != 0) if self.sweep.wires.by_position else np.ones(flows.shape, dtype=bool)

    def nodes(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for node in self.sweep.wires.graph.nodes():
            if not self.sweep.wires.by_position:
                yield node.label, self.attributes(node)
                continue
            for k in range(self.sweep.wires.copies):
                yield self.names.name(node.label, k), self.attributes(node) | {"position": k}

    def attributes(self, node: Source | Component | Sink) -> dict[str, Any]:
        """What is known of a node, as plain values."""
        graph = self.sweep.wires.graph
        match node:
            case Source():
                return _attributes(node.label, node.kind, node.layer, -1)
            case Component():
                found = _attributes(node.label, node.kind, node.layer, graph.places[node.label])
                return found if node.head is None else found | {"head": node.head}
        last = max((component.layer for component in graph.components()), default=-1)
        return _attributes(node.label, "unembedding", last + 1, len(graph.blocks))


def _attributes(label: str, kind: str, layer: int, block: int) -> dict[str, Any]:
    return {"label": label, "kind": kind, "layer": layer, "block": block}


def check_flow(graph: nx.MultiDiGraph, name: str) -> None:
    """Raise PathexpError unless a graph was made by `flow`."""
    carried = getattr(graph, "graph", None)
    if not isinstance(carried, dict) or "walk" not in carried:
        raise PathexpError(f"{name}() takes a flow; make one with px.flow(trace, target)")


def through(graph: nx.MultiDiGraph, node: str) -> float:
    """Return what passes through a node: its inflow, or for a source its outflow."""
    edges = graph.in_edges if graph.in_degree(node) else graph.out_edges
    return float(sum(amount for *_, amount in edges(node, data="flow")))


def split(graph: nx.MultiDiGraph, block: int) -> dict[str, float]:
    """Return how a flow divides at one block: what passes through each of its components, and "past" all of them.

    Every path takes at most one component of a block or none, so the parts add up to the whole flow exactly.
    "past" is the sum over the edges that pass the block by; sources that begin later are in it.
    Raises GraphError if the graph has no such block.

    >>> import pathexp as px
    >>> trace = px.random_model(layers=2, heads=2, seed=1).run([1, 2, 3])
    >>> graph = px.flow(px.expand(trace, "E .* U"), trace.logit(4))
    >>> parts = split(graph, 1)
    >>> list(parts), abs(sum(parts.values()) - graph.graph["value"]) < 1e-12
    (['L1H0', 'L1H1', 'past'], True)
    """
    check_flow(graph, "split")
    blocks = graph.graph["walk"].graph.blocks
    if not isinstance(block, Integral) or isinstance(block, bool) or not 0 <= block < len(blocks):
        raise GraphError(
            f"no block {block!r:.40} to split a flow at; this graph has {len(blocks)}, counted from 0"
        )
    parts = {component.label: 0.0 for component in blocks[block].components}
    parts["past"] = 0.0
    places = dict(graph.nodes(data="block"))
    for writer, reader, amount in graph.edges(data="flow"):
        if places[reader] == block:
            parts[graph.nodes[reader]["label"]] += amount
        elif places[writer] < block < places[reader]:
            parts["past"] += amount
    return parts


def inflow_shares(graph: nx.MultiDiGraph) -> dict[Edge, float]:
    """Return for every edge its share of the absolute inflow of its reader: shares into one node sum to 1.

    Kept apart by position, every node of a position has its own sum. Where nothing flows into a node the
    shares are undefined (NaN), not zero.

    >>> import pathexp as px
    >>> trace = px.random_model(layers=1, heads=2, seed=1).run([1, 2, 3])
    >>> shares = inflow_shares(px.flow(trace, trace.logit(4)))
    >>> round(sum(share for (_, reader, _), share in shares.items() if reader == "U"), 12)
    1.0
    """
    check_flow(graph, "inflow_shares")
    totals: dict[str, float] = {}
    for _, reader, amount in graph.edges(data="flow"):
        totals[reader] = totals.get(reader, 0.0) + abs(amount)
    return {
        (writer, reader, key): abs(amount) / totals[reader] if totals[reader] else float("nan")
        for writer, reader, key, amount in graph.edges(keys=True, data="flow")
    }
