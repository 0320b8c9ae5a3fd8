"""A path: the labels it passes, from a source to the sink, and the operator that it stands for."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import PathError
from ..graph import NO_PORTS, Component, Operator, ResidualGraph, Source, asked_for_port, chain, has_ports


class Path(tuple[str, ...]):
    """The labels of a path from a source to the sink; prints as a query that matches it alone.

    >>> str(Path(("E", "L0H1", "U")))
    'E L0H1 U'
    """

    __slots__ = ()

    def __str__(self) -> str:
        return " ".join(self)

    def __repr__(self) -> str:
        return f"Path({str(self)!r})"


def parse_path(text: str | tuple[str, ...], graph: ResidualGraph) -> Path:
    """Read a path such as "E L0H1 L1H0 U" and check that the graph has it.

    Raises PathError with the first place that does not fit.
    """
    if not isinstance(text, str | tuple):
        raise PathError(
            f"{text!r:.60} is no path: give one as text, such as 'E U'; to go through terms by number, "
            "iterate: for term in terms"
        )
    path = Path(text.split() if isinstance(text, str) else text)
    if len(path) < 2:
        raise PathError(f"{str(path)!r} is no path: a path runs from a source to {graph.sink.label}")
    for label in path:
        if label not in graph.by_label and asked_for_port(label) and not has_ports(graph.alphabet):
            raise PathError(
                f"no edge {label!r} in path {str(path)!r}: this graph keeps no ports apart. {NO_PORTS}"
            )
        if label not in graph.by_label:
            raise PathError(
                f"no node {label!r} in path {str(path)!r}; this graph has {_overview(graph)}. "
                "A pattern with . or * belongs in where()."
            )
    _check_ends(path, graph)
    _check_order(path, graph)
    return path


def _overview(graph: ResidualGraph) -> str:
    labels = [component.label for component in graph.components()]
    some = ", ".join(labels[:3]) + (f" … {labels[-1]}" if len(labels) > 3 else "")
    sources = ", ".join(source.label for source in graph.sources[:4])
    return f"sources {sources}{'…' if len(graph.sources) > 4 else ''}, components {some or 'none'}, sink {graph.sink.label}"


def _check_ends(path: Path, graph: ResidualGraph) -> None:
    if not isinstance(graph.by_label[path[0]], Source):
        raise PathError(f"path {str(path)!r} starts at {path[0]}, which is no source")
    if path[-1] != graph.sink.label:
        raise PathError(f"path {str(path)!r} ends at {path[-1]}, not at the sink {graph.sink.label}")
    for label in path[1:-1]:
        if not isinstance(graph.by_label[label], Component):
            raise PathError(f"path {str(path)!r} passes {label}, which no path can pass through")


def _check_order(path: Path, graph: ResidualGraph) -> None:
    source = graph.by_label[path[0]]
    assert isinstance(source, Source)
    if source.into and path[1] not in source.into:
        raise PathError(
            f"path {str(path)!r}: {source.label} is read only by {', '.join(source.into)}, not by {path[1]}"
        )
    depth, before = source.depth or 0, source.label
    for label in path[1:-1]:
        if graph.places[label] < depth:
            raise PathError(
                f"path {str(path)!r} is out of order: {label} (block {graph.places[label]}) cannot read "
                f"{before}, which writes to the stream before block {depth}"
            )
        depth, before = graph.places[label] + 1, label


def operator_of(path: Path, graph: ResidualGraph) -> Operator:
    """Return the operator of a path, from its source's start to the sink, skip maps included."""
    return chain(*reversed([*_stretches(path, graph), *_into_sink(path, graph)]))


def stream_operator_of(path: Path, graph: ResidualGraph) -> Operator:
    """Return the operator of a path up to the final stream, before the sink reads it."""
    return chain(*reversed(list(_stretches(path, graph))))


def _into_sink(path: Path, graph: ResidualGraph) -> Iterator[Operator]:
    source = graph.by_label[path[0]]
    assert isinstance(source, Source)
    straight = path[1] == graph.sink.label and graph.sink.label in source.into
    yield source.into[graph.sink.label] if straight else graph.sink.operator


def is_straight(path: Path, graph: ResidualGraph) -> bool:
    """Return whether a path goes from a constant straight into the sink, never on the stream."""
    source = graph.by_label[path[0]]
    return isinstance(source, Source) and path[1] in source.into and path[1] == graph.sink.label


def _stretches(path: Path, graph: ResidualGraph) -> Iterator[Operator]:
    """The operators along a path up to the final stream, the first applied first."""
    if is_straight(path, graph):
        return
    source = graph.by_label[path[0]]
    assert isinstance(source, Source)
    inner = path[1:-1]
    depth = source.depth or 0
    if source.into:
        yield source.into[inner[0]]
        depth, inner = graph.places[inner[0]] + 1, inner[1:]
    else:
        yield source.write
    for label in inner:
        component = graph.by_label[label]
        assert isinstance(component, Component)
        place = graph.places[label]
        yield from (block.skip for block in graph.blocks[depth:place] if block.skip)
        yield component.operator
        depth = place + 1
    yield from (block.skip for block in graph.blocks[depth:] if block.skip)
