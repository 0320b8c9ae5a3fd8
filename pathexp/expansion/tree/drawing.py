"""A tree as lines of text, as a table and as the data of a flame graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...answer import Figure, Matrix, Table, columns, visible
from ...model import Trace
from ..header import amount
from .shown import Branch


def drawn(root: Branch) -> str:
    """Return a tree of branches as indented text."""
    largest = max(abs(branch.node.value) for branch in root.walk())
    return "\n".join(_below(root, largest))


def _below(branch: Branch, among: float) -> Iterator[str]:
    yield f"{_indent(branch.depth)}{signed(branch.node.value, among)}  {branch.node.query}{_said(branch)}"
    for child in branch.children:
        yield from _below(child, among)
    amount, value = branch.rest
    if amount and branch.children:
        yield f"{_indent(branch.depth + 1)}{signed(value, among)}  … {amount:,} more"


def signed(value: float, among: float | None = None) -> str:
    """Return a value with its sign and four decimals; by its power of ten from 10⁷ on, and where all are below 10⁻³.

    `among`: the largest of those that it is shown with; by default itself.

    >>> signed(2.5), signed(-1e-9, among=2.5), signed(-1e-9), signed(-1.6293e150)
    ('+2.5000', '+0.0000', '-1.0000e-09', '-1.6293e+150')
    """
    small = 0.0 < (abs(value) if among is None else among) < 1e-3
    if value and (small or abs(value) >= 1e7):
        return f"{value:+.4e}"
    return f"{round(value, 4) + 0.0:+.4f}"


def _indent(depth: int) -> str:
    return "  " * depth


def _said(branch: Branch) -> str:
    """How many paths there are, and how large its children are where they cancel."""
    count, size = branch.node.count, branch.size
    said = [f"{amount(count)} paths"] if count > 1 else []
    if size is not None and size > 1.5 * abs(branch.node.value):
        said.append(f"parts of size {size:.4g} cancel")
    return f"   ({', '.join(said)})" if said else ""


def table(branches: Sequence[Branch], unit: str, all_nodes: int) -> Table:
    """Return branches as rows, the largest first; each is joined to those of other trees by its query."""
    head = (
        columns.path("query"),
        columns.number("value", unit=unit),
        columns.count("paths"),
        columns.number("size", "sum of |children|", unit, signed=False),
        columns.path("parent"),
    )
    title = (
        f"the {len(branches):,} largest of {all_nodes:,} nodes" if len(branches) < all_nodes else "all nodes"
    )
    return Table(head, map(_row, branches), "nodes", title, key=("query",), value="value", shown=0)


def _row(branch: Branch) -> tuple[str, float, int, float | None, str | None]:
    node, parent = branch.node, branch.parent
    return node.query, node.value, node.count, branch.size, None if parent is None else parent.node.query


def by_source(branches: Sequence[Branch], trace: Trace | None) -> Matrix:
    """Return branches split by source position, (branches, positions); rows add up to the branches' values."""
    values = np.array([branch.node.by_position() for branch in branches])
    names = range(values.shape[1]) if trace is None else trace.token_strings
    return Matrix(
        "positions",
        tuple(branch.node.query for branch in branches),
        tuple(f"{place} {visible(str(name))}" for place, name in enumerate(names)),
        values,
        "by source position",
        row_axis="branch",
        column_axis="source",
    )


def flame(branches: Sequence[Branch], title: str, unit: str) -> Figure:
    """Return the boxes of a flame graph: the width of a box is its |value|, its color the sign."""
    numbers = {id(branch): number for number, branch in enumerate(branches)}
    boxes = [
        {
            "id": number,
            "parent": None if branch.parent is None else numbers[id(branch.parent)],
            "label": branch.node.label or branch.node.query,
            "query": branch.node.query,
            "value": branch.node.value,
            "count": branch.node.count,
            "depth": branch.depth,
        }
        for number, branch in enumerate(branches)
    ]
    return Figure("flame", "tree", {"nodes": boxes}, title, unit)
