"""The flame graph: a tree of exact sums, with the branches that were opened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import PathexpError
from ...expansion.tree import Direction, TreeNode
from ..subject import Subject
from ..view import queries
from . import shown

WIDEST = 40
"""How many children of a branch go to the page; what the others add is one box, the rest."""

_DIRECTIONS: dict[str, Direction] = {"endings": "back", "beginnings": "forward"}


def tree(subject: Subject, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the branches that are open; children add up to their parent, `rest` included.

    `open` lists the queries of branches to open, parents first; `by` is "endings" or "beginnings".
    """
    by = given.get("by") or "endings"
    if by not in _DIRECTIONS:
        raise PathexpError(f"by: expected endings or beginnings, got {by!r:.40}")
    wanted = queries(given, "open")
    grown = subject.tree(_DIRECTIONS[by], wanted)
    return {"by": by, "root": _branch(grown.root, frozenset(wanted)), "unit": "logits"}


def _branch(node: TreeNode, wanted: frozenset[str]) -> dict[str, Any]:
    made = _box(node)
    opening = node.opening
    if opening is None:
        return made
    children = [
        child
        for rank, child in enumerate(node.children)
        if rank < WIDEST or child.opened or child.query in wanted
    ]
    left = len(opening) - len(children)
    rest = _rest(opening.values, [child.value for child in children], left)
    up = float(opening.values[opening.values > 0].sum())
    down = float(opening.values[opening.values < 0].sum())
    return made | {
        "children": [_branch(child, wanted) for child in children],
        "rest": {"number": left, "value": rest, "said": shown.logits(rest)},
        "up": {"value": up, "said": shown.logits(up)}, "down": {"value": down, "said": shown.logits(down)},
    }  # fmt: skip


def _rest(values: Any, listed: list[float], left: int) -> float:
    """What the children that are not listed add."""
    return float(np.sum(values) - sum(listed)) if left else 0.0


def _box(node: TreeNode) -> dict[str, Any]:
    whole = node.tree.value
    return {
        "query": node.query, "label": node.label or node.query, "value": node.value, "said": shown.logits(node.value),
        "count": shown.amount(node.count), "single": node.count == 1,
        "share": shown.share(node.value / whole if whole else None),
    }  # fmt: skip
