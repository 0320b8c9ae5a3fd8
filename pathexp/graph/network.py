"""The residual graph as a networkx MultiDiGraph; networkx is imported on first use, as it is slow to load."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from .nodes import Block, Component, Sink, Source

if TYPE_CHECKING:
    import networkx as nx


def empty_multigraph(**attributes: object) -> nx.MultiDiGraph:
    """Return a MultiDiGraph without nodes."""
    import networkx as nx

    return nx.MultiDiGraph(**attributes)


def multigraph(sources: tuple[Source, ...], blocks: tuple[Block, ...], sink: Sink) -> nx.MultiDiGraph:
    """Return sources, components and sink with an edge from every writer to every later reader."""
    graph = empty_multigraph()
    for source in sources:
        graph.add_node(source.label, label=source.label, kind=source.kind, layer=source.layer)
    for component in (component for block in blocks for component in block.components):
        graph.add_node(component.label, **_attributes(component))
    last = max((component.layer for block in blocks for component in block.components), default=-1)
    graph.add_node(sink.label, label=sink.label, kind="unembedding", layer=last + 1)
    for writer, reader in _stream_edges(sources, blocks, sink):
        graph.add_edge(writer, reader, key="stream", kind="stream")
    for source in sources:
        graph.add_edges_from((source.label, reader, "direct", {"kind": "direct"}) for reader in source.into)
    return graph


def _attributes(component: Component) -> dict[str, str | int]:
    attributes: dict[str, str | int] = {
        "label": component.label,
        "kind": component.kind,
        "layer": component.layer,
    }
    return attributes if component.head is None else attributes | {"head": component.head}


def _stream_edges(
    sources: tuple[Source, ...], blocks: tuple[Block, ...], sink: Sink
) -> Iterator[tuple[str, str]]:
    readers = [*(tuple(component.label for component in block.components) for block in blocks), (sink.label,)]
    for source in sources:
        if source.depth is not None:
            yield from _edges(source.label, readers[source.depth :])
    for b, block in enumerate(blocks):
        for component in block.components:
            yield from _edges(component.label, readers[b + 1 :])


def _edges(writer: str, readers: Iterable[tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    return ((writer, reader) for group in readers for reader in group)
