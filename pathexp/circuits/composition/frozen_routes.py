"""Virtual weights inside a frozen run: maps on position*feature, pattern ⊗ weight, gates and skips included."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Literal, cast

from ...algebra import Dense, Diagonal, Identity, LinearMap, Space, add, compose, tensor
from ...errors import GraphError, PathError
from ...graph import (
    Action,
    Component,
    Gate,
    Operator,
    Parallel,
    Part,
    ResidualGraph,
    Sink,
    Source,
    freeze,
    word_map,
)
from ...graph.reading import Side, reading_graph
from ...model import Trace

MODEL, POSITION = "model", "position"


def frozen_weight(
    what: Trace | ResidualGraph, writer: str, reader: str, through: Literal["all"] | tuple[str, ...]
) -> LinearMap:
    """Return the map from what a writer takes to what a reader yields, by chosen routes of a frozen run.

    A source's map starts at its own space (tokens for E). Raises GraphError for what is not there, PathError
    where a reader cannot read a writer.
    """
    graph = freeze(what) if isinstance(what, Trace) else what
    routes = _Routes(graph)
    start = routes.writes(writer)
    end, last = _read(what, graph, reader)
    first = routes.map(_written(graph, writer))
    if through == "all":
        _check([(writer, start, start), (reader, end, end)])
        return compose(last, *routes.blocks(start, end), first)
    stops = [
        (writer, start, start),
        *((c, routes.place(c), routes.place(c) + 1) for c in through),
        (reader, end, end),
    ]
    _check(stops)
    parts = [first]
    for (_, _, left), (label, reached, _) in pairwise(stops):
        parts += [
            *routes.skips(left, reached),
            *([routes.map(routes.component(label).operator)] if label in through else []),
        ]
    return compose(last, *reversed(parts))


def _check(stops: list[tuple[str, int, int]]) -> None:
    """Raise PathError where a stop (label, reads at, writes from) is read before it is written."""
    for (writer, _, written), (reader, read, _) in pairwise(stops):
        if read < written:
            raise PathError(
                f"{reader} cannot read {writer}: it reads the stream before block {read}, and what "
                f"{writer} writes is there from block {written} on"
            )


def _written(graph: ResidualGraph, label: str) -> Operator:
    node = graph.by_label.get(label)
    return node.write if isinstance(node, Source) else cast(Component, node).operator


def _read(what: Trace | ResidualGraph, graph: ResidualGraph, label: str) -> tuple[int, LinearMap]:
    """The depth at which something reads, and what it reads as a map."""
    routes = _Routes(graph)
    name, _, side = str(label).partition(".")
    if side in ("Q", "K"):
        if not isinstance(what, Trace):
            raise GraphError(
                f"{label}: the queries and keys of a head are read off a trace, not off a graph alone"
            )
        cut = reading_graph(what, name, cast(Side, side))
        return len(cut.blocks), routes.map(cut.sink.operator)
    node = graph.by_label.get(label)
    match node:
        case Sink():
            return len(graph.blocks), routes.map(node.operator)
        case Component():
            return graph.places[label], routes.map(node.operator)
    raise GraphError(
        f"{label!r} does not read the stream of this graph; readers are {_some(graph)} and {graph.sink.label}"
    )


def _some(graph: ResidualGraph) -> str:
    labels = [component.label for component in graph.components()]
    return ", ".join(labels[:3]) + (f" … {labels[-1]}" if len(labels) > 3 else "")


class _Routes:
    """The stretches of stream between places of a graph."""

    def __init__(self, graph: ResidualGraph) -> None:
        self.graph = graph
        n, d, _ = graph.sizes
        self.position, self.model = Space(POSITION, n), Space(MODEL, d)

    def place(self, label: str) -> int:
        """The block of a component; GraphError if there is none of that label."""
        self.component(label)
        return self.graph.places[label]

    def component(self, label: str) -> Component:
        node = self.graph.by_label.get(label)
        if not isinstance(node, Component):
            raise GraphError(f"no component {label!r} in this graph; it has {_some(self.graph)}")
        return node

    def writes(self, label: str) -> int:
        """The depth from which on what a node writes can be read."""
        node = self.graph.by_label.get(label)
        if isinstance(node, Source) and node.depth is not None:
            return node.depth
        if isinstance(node, Component):
            return self.graph.places[label] + 1
        sources = ", ".join(s.label for s in self.graph.sources if s.depth is not None)
        raise GraphError(
            f"{label!r} does not write to the stream of this graph; writers are the sources {sources or '(none)'} "
            f"and the components {_some(self.graph)}"
        )

    def skips(self, left: int, reached: int) -> list[LinearMap]:
        """The maps on the skip edges from one depth to another, the first passed first."""
        return [self.map(block.skip) for block in self.graph.blocks[left:reached] if block.skip]

    def blocks(self, left: int, reached: int) -> Iterator[LinearMap]:
        """Whole blocks, skip and components added, the last passed first."""
        for block in reversed(self.graph.blocks[left:reached]):
            skip = self.map(block.skip) if block.skip else Identity(self.position * self.model)
            yield add(skip, *(self.map(component.operator) for component in block.components))

    def map(self, operator: Operator) -> LinearMap:
        """An operator as one map on position*feature."""
        parts: list[LinearMap] = []
        for part in reversed(operator):
            feature = parts[-1].target.factors[-1] if parts else None
            parts.append(self._part(part, feature))
        return compose(*reversed(parts)) if parts else Identity(self.position * self.model)

    def _part(self, part: Part, feature: Space | None) -> LinearMap:
        """One part, reading a feature space; the stream's where nothing is said."""
        if isinstance(part, Parallel):
            return add(*map(self.map, part.terms))
        if isinstance(part, Action):
            target, source = (Space(MODEL, size) for size in (part.rows, part.columns))
            return Dense(part.dense(), self.position * target, self.position * (feature or source), part.name)
        if isinstance(part, Gate):
            values = part.numbers()
            return Diagonal(
                values.ravel(), self.position * (feature or Space(MODEL, values.shape[1])), part.name
            )
        positions, features = word_map(part.position), word_map(part.feature)
        left = positions if positions is not None else Identity(self.position)
        return tensor(left, features if features is not None else Identity(feature or self.model))
