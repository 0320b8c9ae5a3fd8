"""A mean tree as text, as a table, and as the boxes of a flame graph."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

from ...answer import Figure, Note, Table, columns
from ...expansion.header import amount

DRAWN, ROWS = 24, 1_000
"""How many nodes are drawn as text, and how many are rows of the table and boxes of the picture."""


@dataclass(frozen=True, eq=False)
class Branch:
    """A node: its paths by query, their number, their mean over cases and its error, the largest children first."""

    query: str
    label: str
    count: int
    mean: float
    error: float | None
    children: list[Branch]


def largest(root: Branch, most: int) -> list[tuple[Branch, Branch | None, int]]:
    """Return the nodes of largest |mean| that hang together with the root: each with its parent and its depth."""
    found: list[tuple[Branch, Branch | None, int]] = []
    waiting: list[tuple[float, int, Branch, Branch | None, int]] = [(-abs(root.mean), 0, root, None, 0)]
    made = 0
    while waiting and len(found) < most:
        _, _, branch, parent, depth = heapq.heappop(waiting)
        found.append((branch, parent, depth))
        for child in branch.children:
            made += 1
            heapq.heappush(waiting, (-abs(child.mean), made, child, branch, depth + 1))
    return found


def drawn(root: Branch) -> Note:
    """Return the largest branches as indented text."""
    shown = {id(branch) for branch, _, _ in largest(root, DRAWN)}
    return Note("\n".join(_lines(root, 0, shown)))


def _lines(branch: Branch, depth: int, shown: set[int]) -> Iterator[str]:
    error = "" if branch.error is None else f" ± {branch.error:.4f}"
    paths = f"   ({amount(branch.count)} paths)" if branch.count > 1 else ""
    yield f"{'  ' * depth}{branch.mean:+.4f}{error}  {branch.query}{paths}"
    rest = [child for child in branch.children if id(child) not in shown]
    for child in branch.children:
        if id(child) in shown:
            yield from _lines(child, depth + 1, shown)
    if rest and len(rest) < len(branch.children):
        yield f"{'  ' * (depth + 1)}{sum(child.mean for child in rest):+.4f}  … {len(rest):,} more"


def table(root: Branch) -> Table:
    """Return the largest nodes as rows, each found again by its query."""
    every = _size(root)
    rows = [
        (branch.query, branch.mean, branch.error, branch.count, None if parent is None else parent.query)
        for branch, parent, _ in largest(root, ROWS)
    ]
    title = f"the {len(rows):,} largest of {every:,} nodes" if len(rows) < every else "all nodes"
    head = (
        columns.path("query"), columns.number("mean", unit="logits"), columns.number("error", "± error", "logits", signed=False),
        columns.count("paths"), columns.path("parent"),
    )  # fmt: skip
    return Table(head, rows, "nodes", title, key=("query",), value="mean", shown=0)


def _size(root: Branch) -> int:
    return 1 + sum(map(_size, root.children))


def flame(root: Branch) -> Figure:
    """Return the boxes of a flame graph: the width of a box is its |mean|, its color the sign."""
    shown = largest(root, ROWS)
    numbers = {id(branch): number for number, (branch, _, _) in enumerate(shown)}
    boxes = [
        {"id": number, "parent": None if parent is None else numbers[id(parent)], "label": branch.label or branch.query,
         "query": branch.query, "value": branch.mean, "count": branch.count, "depth": depth}
        for number, (branch, parent, depth) in enumerate(shown)
    ]  # fmt: skip
    return Figure("flame", "tree", {"nodes": boxes}, f"mean tree: {root.mean:+.4f}", "logits")
