"""What of a tree is shown: the largest branches, best first, and one line for what they leave out."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from .node import TreeNode

BRANCHES = 24
"""How many nodes are drawn as text."""

ROWS = 1_000
"""How many nodes are rows of the table and boxes of the picture."""


@dataclass(frozen=True)
class Branch:
    """A node that is shown, with its children that are shown, the largest first."""

    node: TreeNode
    parent: Branch | None = None
    children: list[Branch] = field(default_factory=list)

    @property
    def depth(self) -> int:
        """How far it stands below the root."""
        return 0 if self.parent is None else self.parent.depth + 1

    @property
    def size(self) -> float | None:
        """The sum of the children's absolute values: how much cancels; None for a leaf."""
        opening = self.node.opening
        return None if opening is None else float(np.abs(opening.values).sum())

    @property
    def rest(self) -> tuple[int, float]:
        """How many children are not shown, and what they add together."""
        opening = self.node.opening
        if opening is None:
            return 0, 0.0
        hidden = opening.order[len(self.children) :]
        return len(hidden), float(opening.values[hidden].sum())

    def walk(self) -> Iterator[Branch]:
        """Iterate over the branch and all that is shown below it."""
        yield self
        for child in self.children:
            yield from child.walk()


def largest_branches(root: TreeNode, most: int) -> list[Branch]:
    """Return the nodes of largest |value| that hang together with a root, the largest first; at most so many."""
    found = [Branch(root)]
    waiting: list[tuple[float, int, int]] = []
    _wait(waiting, found, 0)
    while waiting and len(found) < most:
        _, place, rank = heapq.heappop(waiting)
        parent = found[place]
        branch = Branch(parent.node.nth(rank), parent)
        parent.children.append(branch)
        found.append(branch)
        _wait(waiting, found, place)
        _wait(waiting, found, len(found) - 1)
    return found


def _wait(waiting: list[tuple[float, int, int]], found: list[Branch], place: int) -> None:
    """Let the next child of a branch wait for its turn."""
    opening, rank = found[place].node.opening, len(found[place].children)
    if opening is not None and rank < len(opening):
        heapq.heappush(waiting, (-abs(float(opening.values[opening.order[rank]])), place, rank))
