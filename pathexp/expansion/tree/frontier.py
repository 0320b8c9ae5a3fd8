"""Which node to open next: the largest leaf, by |value|, of those that hold more than one path."""

from __future__ import annotations

import heapq
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from .opening import Opening

Leaf: TypeAlias = tuple[int, int]
"""A leaf: the number of the opening that it is a child of, and its rank among those children by |value|."""

ROOT: Leaf = (-1, 0)
"""The root, which is nobody's child."""


@dataclass
class Frontier:
    """The largest leaf of every opening, in a heap; equals come in the order in which their parents were opened."""

    heap: list[tuple[float, int, int]] = field(default_factory=list)

    def copy(self) -> Frontier:
        """Another frontier of the same leaves."""
        return Frontier(list(self.heap))

    def add(self, number: int, opening: Opening, index: int = 0) -> None:
        """Put in a child of an opening: of those that can be opened, the one of an index by |value|."""
        if index < len(opening.ranks):
            place = opening.order[opening.ranks[index]]
            heapq.heappush(self.heap, (-abs(float(opening.values[place])), number, index))

    def pop(self, openings: Sequence[Opening], taken: Container[Leaf] = ()) -> Leaf | None:
        """Take out the largest leaf that was not opened; None if all paths are complete."""
        while self.heap:
            _, number, index = heapq.heappop(self.heap)
            opening = openings[number]
            self.add(number, opening, index + 1)
            if (leaf := (number, int(opening.ranks[index]))) not in taken:
                return leaf
        return None
