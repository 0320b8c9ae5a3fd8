"""Listed paths as the data of a picture: edges that several of them take are one ribbon, as wide as what they add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from ..answer import Figure
from .path import Path


def bundle(
    paths: Sequence[Path], values: Sequence[float], places: Mapping[str, int], title: str, unit: str
) -> Figure:
    """Return paths as a flow: an edge's flow is the sum of the listed paths that take it, and of no other.

    `places` says in which block of the graph each component stands.
    """
    edges: dict[tuple[str, str], float] = {}
    through: dict[str, float] = {}
    last = max(places.values(), default=-1) + 2
    for path, value in zip(paths, values, strict=True):
        for label in path:
            through[label] = through.get(label, 0.0) + value
        for ends in pairwise(path):
            edges[ends] = edges.get(ends, 0.0) + value
    sinks = {path[-1] for path in paths}
    columns = {label: last if label in sinks else places.get(label, -1) + 1 for label in through}
    dense = {column: rank for rank, column in enumerate(sorted(set(columns.values())))}
    nodes = sorted(through, key=lambda label: (columns[label], label))
    return Figure(
        "flow", "bundle",
        {"nodes": [{"label": label, "column": dense[columns[label]], "value": through[label]} for label in nodes],
         "edges": [{"source": a, "target": b, "flow": flow} for (a, b), flow in edges.items()]},
        title, unit,
    )  # fmt: skip
