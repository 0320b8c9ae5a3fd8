"""Graphs as files that other programs read: GraphML, JSON and DOT, with every attribute flattened to a plain value."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import networkx as nx
import numpy as np

from ..errors import GraphError
from ..graph import Walk
from ..model import Target


def flattened(graph: nx.MultiDiGraph) -> nx.MultiDiGraph:
    """Return a graph whose node names are strings and whose attributes are strings, numbers and booleans.

    Arrays become `name_shape` and `name_norm`, complex numbers `name_re` and `name_im`; None and NaN are left
    out. Edges carry their key as the attribute `key` too, since some formats lose it. Raises GraphError if two
    nodes would have one name.

    >>> graph = nx.MultiDiGraph()
    >>> _ = graph.add_edge("a", "b", key="Q", W=np.eye(2), z=1 + 2j, none=None)
    >>> sorted(flattened(graph).edges["a", "b", "Q"].items())
    [('W_norm', 1.4142135623730951), ('W_shape', '2 × 2'), ('key', 'Q'), ('z_im', 2.0), ('z_re', 1.0)]
    """
    names: dict[str, Any] = {}
    for node in graph:
        if str(node) in names:
            raise GraphError(f"nodes {names[str(node)]!r} and {node!r} would both be called {str(node)!r}")
        names[str(node)] = node
    plain = nx.MultiDiGraph(**_plain(graph.graph))
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
        case Target():
            yield name, value.label
        case Walk():
            yield "query", str(value.query)
        case _:
            yield name, str(value)


def graphml(graph: nx.MultiDiGraph) -> str:
    """Return a graph as GraphML; every edge has an id of its own and its key as an attribute."""
    plain = flattened(graph)
    for number, (_, _, attributes) in enumerate(plain.edges(data=True)):
        attributes["id"] = f"e{number}"
    for _, attributes in [*plain.nodes(data=True), *((None, a) for *_, a in plain.edges(data=True))]:
        attributes.update({k: _printable(v) for k, v in attributes.items() if isinstance(v, str)})
    lines = nx.generate_graphml(plain, named_key_ids=False, edge_id_from_attribute="id")
    return "\n".join(['<?xml version="1.0" encoding="utf-8"?>', *lines]) + "\n"


def _printable(text: str) -> str:
    """Text that XML can hold: control characters written out."""
    return "".join(
        c if c.isprintable() or c == " " else c.encode("unicode_escape").decode("ascii") for c in text
    )


def graph_json(graph: nx.MultiDiGraph) -> str:
    """Return a graph as node-link JSON, which `networkx.node_link_graph(..., edges="edges")` reads back."""
    return json.dumps(
        nx.node_link_data(flattened(graph), edges="edges"), indent=1, ensure_ascii=False, allow_nan=False
    )
