"""The nodes and edges of a flow as plain values, read off a sweep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import merge
from itertools import repeat

import numpy as np

from ...graph import Component, Sink, Source
from .flow_names import FlowNames
from .flow_sweep import FlowSweep
from .wires import Flags


@dataclass(frozen=True)
class FlowEdge:
    """An edge and its flow; `kind` is "stream", or "direct" for a constant that is read inside one component."""

    writer: str
    reader: str
    kind: str
    flow: float

    @property
    def ends(self) -> tuple[str, str, str]:
        """The writer, the reader and the kind, which name the edge."""
        return self.writer, self.reader, self.kind

    @property
    def rank(self) -> tuple[float, str, str, str]:
        """What edges are sorted by: the strongest first, equal ones by name."""
        return (-abs(self.flow), *self.ends)


@dataclass(frozen=True)
class FlowNode:
    """A node and what passes through it: its inflow, or for a source its outflow.

    `block` is -1 for sources and the number of blocks for the sink; `head` and `position` are None where there is none.
    """

    name: str
    label: str
    kind: str
    layer: int
    block: int
    head: int | None
    position: int | None
    flow: float


def edges_of(sweep: FlowSweep) -> tuple[FlowEdge, ...]:
    """Return the edges that a path takes, the strongest first; kept apart by position, those that carry anything."""
    names = FlowNames(sweep.wires, sweep.target.position)
    stream, direct = _stream_edges(sweep, names), sorted(_direct_edges(sweep, names), key=_rank)
    return tuple(merge(stream, direct, key=_rank)) if direct else stream


def _stream_edges(sweep: FlowSweep, names: FlowNames) -> tuple[FlowEdge, ...]:
    """Sorted by arrays: there are hundreds of thousands in deep models."""
    rows, columns = np.nonzero(sweep.paths_exist.stream & _carries(sweep, sweep.stream))
    flows = sweep.stream[rows, columns]
    order = np.lexsort((_places(names.readers)[columns], _places(names.writers)[rows], -np.abs(flows)))
    writers = [names.writers[row] for row in rows[order].tolist()]
    readers = [names.readers[column] for column in columns[order].tolist()]
    return tuple(map(FlowEdge, writers, readers, repeat("stream"), flows[order].tolist()))


def _places(names: Sequence[str]) -> np.ndarray:
    """Where names stand in the alphabet; equal names at one place."""
    places = {name: place for place, name in enumerate(sorted(set(names)))}
    return np.array([places[name] for name in names], dtype=np.int64)


def _direct_edges(sweep: FlowSweep, names: FlowNames) -> Iterator[FlowEdge]:
    for number, k in np.argwhere(sweep.paths_exist.direct & _carries(sweep, sweep.direct)):
        yield FlowEdge(*names.direct(number, k), "direct", float(sweep.direct[number, k]))


def _rank(edge: FlowEdge) -> tuple[float, str, str, str]:
    return edge.rank


def _carries(sweep: FlowSweep, flows: np.ndarray) -> Flags:
    return np.asarray(flows != 0) if sweep.wires.by_position else np.ones(flows.shape, dtype=bool)


@dataclass(frozen=True, eq=False)
class Totals:
    """Inflow and outflow by node."""

    edges: tuple[FlowEdge, ...]

    @cached_property
    def into(self) -> Mapping[str, float]:
        """What flows into each node that has an edge into it."""
        found: dict[str, float] = {}
        for edge in self.edges:
            found[edge.reader] = found.get(edge.reader, 0.0) + edge.flow
        return found

    @cached_property
    def out(self) -> Mapping[str, float]:
        """What flows out of each node that has an edge out of it."""
        found: dict[str, float] = {}
        for edge in self.edges:
            found[edge.writer] = found.get(edge.writer, 0.0) + edge.flow
        return found

    @cached_property
    def numbers(self) -> tuple[Counter[str], Counter[str]]:
        """How many edges lead into each node, and out of it."""
        return Counter(edge.reader for edge in self.edges), Counter(edge.writer for edge in self.edges)

    @cached_property
    def size(self) -> float:
        """The sum of |flow| over all edges."""
        return sum(abs(edge.flow) for edge in self.edges)

    def through(self, name: str) -> float:
        """Return what passes through a node."""
        return self.into[name] if name in self.into else self.out[name]

    @property
    def imbalance(self) -> float:
        """The largest difference between inflow and outflow of a node that has both."""
        both = self.into.keys() & self.out.keys()
        return max((abs(self.into[name] - self.out[name]) for name in both), default=0.0)

    @property
    def started(self) -> float:
        """What flows out of all sources."""
        return sum(amount for name, amount in self.out.items() if name not in self.into)


def nodes_of(sweep: FlowSweep, edges: tuple[FlowEdge, ...]) -> tuple[FlowNode, ...]:
    """Return the nodes that an edge meets, in the order of the graph."""
    wires, totals = sweep.wires, Totals(edges)
    names = FlowNames(wires, sweep.target.position)
    found = []
    for node in wires.graph.nodes():
        for k in range(wires.copies):
            name = names.name(node.label, k)
            if name in totals.into or name in totals.out:
                found.append(_node(sweep, name, node, k, totals.through(name)))
    return tuple(found)


def _node(sweep: FlowSweep, name: str, node: Source | Component | Sink, k: int, flow: float) -> FlowNode:
    graph, position = sweep.wires.graph, k if sweep.wires.by_position else None
    match node:
        case Source():
            return FlowNode(name, node.label, node.kind, node.layer, -1, None, position, flow)
        case Component():
            place = graph.places[node.label]
            return FlowNode(name, node.label, node.kind, node.layer, place, node.head, position, flow)
    last = max((component.layer for component in graph.components()), default=-1)
    return FlowNode(name, node.label, "unembedding", last + 1, len(graph.blocks), None, position, flow)
