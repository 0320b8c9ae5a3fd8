"""Graphs as DOT, the language of Graphviz; every name and label is quoted, so that no character is lost."""

from __future__ import annotations

from collections.abc import Iterator

import networkx as nx

from .graph_files import flattened
from .svg import number, signed_color

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\0": "\\0"})


def quoted(text: str) -> str:
    """Return a DOT string: in quotes, with backslashes, quotes and line breaks escaped; different texts stay different.

    >>> print(quoted('a:b'), quoted('x"y'), quoted("\\n"), quoted("<b>"))
    "a:b" "x\\"y" "\\n" "<b>"
    """
    return f'"{text.translate(_ESCAPES)}"'


def dot(graph: nx.MultiDiGraph) -> str:
    """Return a graph as DOT, from left to right by block; edges that carry `flow` are wide and colored by it."""
    return (
        "\n".join(["digraph {", "  rankdir=LR", "  node [shape=box]", *_nodes(graph), *_edges(graph), "}"])
        + "\n"
    )


def _nodes(graph: nx.MultiDiGraph) -> Iterator[str]:
    for node, attributes in flattened(graph).nodes(data=True):
        flow = attributes.get("flow")
        shown = str(node) if flow is None else f"{node}\n{flow:+.3f}"
        yield f"  {quoted(node)} [label={quoted(shown)}]"


def _edges(graph: nx.MultiDiGraph) -> Iterator[str]:
    plain = flattened(graph)
    largest = max((abs(flow) for *_, flow in plain.edges(data="flow") if flow is not None), default=0.0)
    for writer, reader, key, attributes in plain.edges(keys=True, data=True):
        drawn = {"key": key, **({"style": "dashed"} if key == "direct" else {})}
        if (flow := attributes.get("flow")) is not None:
            drawn["label"] = f"{flow:+.3f}"
            drawn["color"] = signed_color(flow, largest) if abs(flow) > largest / 8 else "#bbbbbb"
            drawn["penwidth"] = number(0.5 + 5 * abs(flow) / largest if largest else 0.5)
        written = ", ".join(f"{name}={quoted(value)}" for name, value in drawn.items())
        yield f"  {quoted(writer)} -> {quoted(reader)} [{written}]"
