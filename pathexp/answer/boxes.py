"""Where the boxes, ribbons and arcs of a picture stand: plain geometry, no drawing."""

from __future__ import annotations

from cmath import rect
from collections.abc import Mapping, Sequence
from math import pi
from typing import Any

from ..visible import inert

Node = Mapping[str, Any]


def boxes(nodes: Sequence[Node], width: float) -> list[dict[str, Any]]:
    """Return the boxes of a flame graph: the width of a box is its |value|, children side by side below their parent.

    Where children cancel they are wider together than their parent; they are then drawn to the parent's width, and
    say so by their tooltip. What was not opened of a parent is a box of its own, paler.

    >>> rows = boxes([{"id": 0, "parent": None, "label": "U", "value": 2.0, "depth": 0, "count": 2},
    ...               {"id": 1, "parent": 0, "label": "E U", "value": 1.5, "depth": 1, "count": 1}], 100.0)
    >>> [(row["label"], round(row["x2"] - row["x"], 1)) for row in rows]
    [('U', 100.0), ('E U', 75.0), ('not shown, below U', 25.0)]
    """
    children: dict[Any, list[Node]] = {}
    for node in nodes:
        children.setdefault(node["parent"], []).append(node)
    rows: list[dict[str, Any]] = []
    pending = [(node, 0.0, width) for node in children.get(None, ())]
    while pending:
        node, left, right = pending.pop(0)
        rows.append(_box(node, left, right))
        below = children.get(node["id"], [])
        if not below:
            continue
        rest = node["value"] - sum(child["value"] for child in below)
        sizes = [abs(child["value"]) for child in below]
        whole = sum(sizes) + abs(rest) or 1.0
        at = left
        for child, size in zip(below, sizes, strict=True):
            step = (right - left) * size / whole
            pending.append((child, at, at + step))
            at += step
        if abs(rest) > 1e-9 * whole:
            label = f"not shown, below {node['label']}"
            other = {"label": label, "value": rest, "depth": node["depth"] + 1, "count": None}
            rows.append(_box(other, at, right, rest=True))
    return sorted(rows, key=lambda row: (row["y"], row["x"]))


def _box(node: Node, left: float, right: float, rest: bool = False) -> dict[str, Any]:
    label, depth = inert(str(node["label"])), float(node["depth"])
    letters = int((right - left) / 6.5) - 1
    said = "" if letters < 3 or rest else label if len(label) <= letters else label[: letters - 1] + "…"
    return {
        "x": left, "x2": right, "y": depth, "y2": depth + 0.94, "middle": depth + 0.5, "label": label, "said": said,
        "value": node["value"], "paths": "" if node.get("count") is None else f"{node['count']:,}", "rest": rest,
        "sign": "negative" if node["value"] < 0 else "positive",
    }  # fmt: skip


STEPS = 16


def ribbons(
    nodes: Sequence[Node], edges: Sequence[Node]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the ribbons between nodes, as points of bands, and the boxes of the nodes, on a signed Sankey diagram.

    The width of a ribbon is |flow|; what enters and what leaves a node is stacked in the order of the other ends.
    """
    height = {str(n["label"]): 0.0 for n in nodes}
    for side in ("source", "target"):
        sums: dict[str, float] = {}
        for edge in edges:
            sums[str(edge[side])] = sums.get(str(edge[side]), 0.0) + abs(edge["flow"])
        height = {label: max(size, sums.get(label, 0.0)) for label, size in height.items()}
    place = _columns(nodes, height)
    starts = _stacked(edges, place)
    points: list[dict[str, Any]] = []
    for edge, ends in zip(edges, starts, strict=True):
        left, right = (place[str(edge[side])][0] for side in ("source", "target"))
        points += _band(edge, left + 0.16, right, ends)
    rows = [_column_box(node, *place[str(node["label"])], height[str(node["label"])]) for node in nodes]
    return points, rows


def _stacked(edges: Sequence[Node], place: Mapping[str, tuple[float, float]]) -> list[list[float]]:
    """Return where each edge leaves its source and enters its target: in the order in which their other ends stand."""
    starts = [[0.0, 0.0] for _ in edges]
    for number, (here, there) in enumerate((("source", "target"), ("target", "source"))):
        filled: dict[str, float] = {}
        for at in sorted(range(len(edges)), key=lambda at: place[str(edges[at][there])][1]):
            end = str(edges[at][here])
            starts[at][number] = place[end][1] + filled.get(end, 0.0)
            filled[end] = filled.get(end, 0.0) + abs(edges[at]["flow"])
    return starts


def _columns(nodes: Sequence[Node], height: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """Return where each node's box begins: its column, and below what stands above it."""
    gap = 0.03 * max(sum(height.values()), 1e-12) / max(len(nodes), 1) * 4
    tops: dict[Any, float] = {}
    place = {}
    for node in nodes:
        column, label = node["column"], str(node["label"])
        place[label] = (float(column), tops.get(column, 0.0))
        tops[column] = tops.get(column, 0.0) + height[label] + gap
    return place


def _band(edge: Node, left: float, right: float, starts: Sequence[float]) -> list[dict[str, Any]]:
    name = inert(f"{edge['source']} → {edge['target']}")
    sign = "negative" if edge["flow"] < 0 else "positive"
    made = []
    for step in range(STEPS + 1):
        t = step / STEPS
        low = starts[0] + (starts[1] - starts[0]) * t * t * (3 - 2 * t)
        made.append({"edge": name, "x": left + (right - left) * t, "low": low, "high": low + abs(edge["flow"]),
                     "flow": edge["flow"], "sign": sign})  # fmt: skip
    return made


def _column_box(node: Node, column: float, top: float, height: float) -> dict[str, Any]:
    label = inert(str(node["label"]))
    return {
        "x": column, "x2": column + 0.16, "y": top, "y2": top + height, "middle": top + height / 2, "label": label,
        "said": label, "value": node["value"], "paths": "", "rest": False,
        "sign": "negative" if node["value"] < 0 else "positive",
    }  # fmt: skip


def arcs(tokens: Sequence[str], edges: Sequence[Node]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return arcs between positions, as points of half circles at equal angles, and the tokens below them."""
    points = []
    for number, edge in enumerate(edges):
        start, end = float(edge["source"]), float(edge["target"])
        name = inert(f"{edge.get('label', number)}: {tokens[int(start)]} → {tokens[int(end)]}")
        for step in range(STEPS + 1):
            turned = rect(1.0, pi * (1 - step / STEPS))
            points.append({"edge": name, "step": step, "x": (start + end) / 2 + (end - start) / 2 * turned.real,
                           "y": abs(end - start) / 2 * turned.imag if 0 < step < STEPS else 0.0, "flow": edge["flow"],
                           "size": abs(edge["flow"]), "sign": "negative" if edge["flow"] < 0 else "positive"})  # fmt: skip
    marks = [{"x": at, "y": -0.4, "token": inert(token)} for at, token in enumerate(tokens)]
    return points, marks
