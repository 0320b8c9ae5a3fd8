"""Graphs as files that other programs read: DOT, GraphML and JSON, with every attribute flattened to a plain value."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import GraphError
from ..replaced_file import replaced_file
from .network import empty_multigraph

if TYPE_CHECKING:
    import networkx as nx


def save_graph(graph: nx.MultiDiGraph, file: str) -> None:
    """Write a graph to a file that ends in .dot, .graphml or .json, whole or not at all.

    Raises GraphError for another ending, or if the file cannot be written.

    >>> import pathexp as px
    >>> save_graph(px.ResidualGraph.attention_only(layers=1, heads=1).to_networkx(), "graph.txt")
    Traceback (most recent call last):
    ...
    pathexp.errors.GraphError: expected a graph file that ends in .dot, .graphml, .json, got 'graph.txt'
    """
    write = FORMS[check_graph_file(file)]
    made = write(graph).encode()
    try:
        with replaced_file(file) as beside:
            beside.write(made)
    except OSError as error:
        raise GraphError(f"cannot write the graph to {file!r}: {error}") from None


def check_graph_file(file: str) -> str:
    """Return the ending of a graph's file. Raises GraphError for one that is not known."""
    ending = Path(file).suffix.lower()
    if ending not in FORMS:
        raise GraphError(f"expected a graph file that ends in {', '.join(FORMS)}, got {file!r}")
    return ending


def graphml(graph: nx.MultiDiGraph) -> str:
    """Return a graph as GraphML; every edge has an id of its own and its key as an attribute."""
    import networkx as nx

    plain = flattened(graph)
    for number, (_, _, attributes) in enumerate(plain.edges(data=True)):
        attributes["id"] = f"e{number}"
    for _, attributes in [*plain.nodes(data=True), *((None, a) for *_, a in plain.edges(data=True))]:
        attributes.update({k: _printable(v) for k, v in attributes.items() if isinstance(v, str)})
    lines = nx.generate_graphml(plain, named_key_ids=False, edge_id_from_attribute="id")
    return "\n".join(['<?xml version="1.0" encoding="utf-8"?>', *lines]) + "\n"


def graph_json(graph: nx.MultiDiGraph) -> str:
    """Return a graph as node-link JSON, which `networkx.node_link_graph(..., edges="edges")` reads back."""
    import networkx as nx

    return json.dumps(
        nx.node_link_data(flattened(graph), edges="edges"), indent=1, ensure_ascii=False, allow_nan=False
    )


def dot(graph: nx.MultiDiGraph) -> str:
    """Return a graph as DOT, the language of Graphviz, from left to right; edges that carry `flow` are wide and colored.

    Every name and label is quoted, so that no character is lost.
    """
    plain = flattened(graph)
    lines = ["digraph {", "  rankdir=LR", "  node [shape=box]", *_nodes(plain), *_edges(plain), "}"]
    return "\n".join(lines) + "\n"


FORMS: Mapping[str, Callable[[Any], str]] = {".dot": dot, ".graphml": graphml, ".json": graph_json}
"""How a graph is written, by the ending of the file."""


def flattened(graph: nx.MultiDiGraph) -> nx.MultiDiGraph:
    """Return a graph whose node names are strings and whose attributes are strings, numbers and booleans.

    Arrays become `name_shape` and `name_norm`, complex numbers `name_re` and `name_im`; None and NaN are left
    out. Edges carry their key as the attribute `key` too, since some formats lose it. Raises GraphError if two
    nodes would have one name.

    >>> graph = empty_multigraph()
    >>> _ = graph.add_edge("a", "b", key="Q", W=np.eye(2), z=1 + 2j, none=None)
    >>> sorted(flattened(graph).edges["a", "b", "Q"].items())
    [('W_norm', 1.4142135623730951), ('W_shape', '2 × 2'), ('key', 'Q'), ('z_im', 2.0), ('z_re', 1.0)]
    """
    names: dict[str, Any] = {}
    for node in graph:
        if str(node) in names:
            raise GraphError(f"nodes {names[str(node)]!r} and {node!r} would both be called {str(node)!r}")
        names[str(node)] = node
    plain = empty_multigraph(**_plain(graph.graph))
    plain.add_nodes_from((str(node), _plain(attributes)) for node, attributes in graph.nodes(data=True))
    for writer, reader, key, attributes in graph.edges(keys=True, data=True):
        plain.add_edge(str(writer), str(reader), key=str(key))
        plain.edges[str(writer), str(reader), str(key)].update(_plain(attributes) | {"key": str(key)})
    return plain


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for pair in attributes.items() for name, value in _parts(*pair)}


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, np.generic):
        value = value.item()
    match value:
        case None:
            return
        case bool() | int() | str():
            yield name, value
        case float():
            if not math.isnan(value):
                yield name, value
        case complex():
            yield f"{name}_re", value.real
            yield f"{name}_im", value.imag
        case np.ndarray():
            yield f"{name}_shape", " × ".join(map(str, value.shape))
            yield f"{name}_norm", float(np.linalg.norm(value.astype(np.float64).ravel()))
        case _:
            yield name, str(value)


def _printable(text: str) -> str:
    """Text that XML can hold: control characters written out."""
    return "".join(
        c if c.isprintable() or c == " " else c.encode("unicode_escape").decode("ascii") for c in text
    )


_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\0": "\\0"})
_POSITIVE, _NEGATIVE, _FAINT = "#b2182b", "#2166ac", "#bbbbbb"


def quoted(text: str) -> str:
    """Return a DOT string: in quotes, with backslashes, quotes and line breaks escaped; different texts stay different.

    >>> print(quoted('a:b'), quoted('x"y'), quoted("\\n"), quoted("<b>"))
    "a:b" "x\\"y" "\\n" "<b>"
    """
    return f'"{text.translate(_ESCAPES)}"'


def _nodes(plain: nx.MultiDiGraph) -> Iterator[str]:
    for node, attributes in plain.nodes(data=True):
        flow = attributes.get("flow")
        shown = str(node) if flow is None else f"{node}\n{flow:+.3f}"
        yield f"  {quoted(node)} [label={quoted(shown)}]"


def _edges(plain: nx.MultiDiGraph) -> Iterator[str]:
    largest = max((abs(flow) for *_, flow in plain.edges(data="flow") if flow is not None), default=0.0)
    for writer, reader, key, attributes in plain.edges(keys=True, data=True):
        drawn = {"key": key} | ({"style": "dashed"} if key == "direct" else {})
        if (flow := attributes.get("flow")) is not None:
            drawn |= _weight(flow, largest)
        written = ", ".join(f"{name}={quoted(value)}" for name, value in drawn.items())
        yield f"  {quoted(writer)} -> {quoted(reader)} [{written}]"


def _weight(flow: float, largest: float) -> dict[str, str]:
    """How an edge that carries something is drawn: red adds, blue takes away, small flows are gray."""
    color = _POSITIVE if flow > 0 else _NEGATIVE
    return {
        "label": f"{flow:+.3f}",
        "color": color if abs(flow) > largest / 8 else _FAINT,
        "penwidth": f"{0.5 + 5 * abs(flow) / largest if largest else 0.5:.2f}",
    }
