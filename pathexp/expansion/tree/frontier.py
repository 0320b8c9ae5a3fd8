"""Which node to open next: the largest leaf, by |value|, of those that hold more than one path."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
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

    def add(self, number: int, opening: Opening, rank: int = 0) -> None:
        """Put in the largest child from a rank on that can be opened."""
        while rank < len(opening):
            place = int(opening.order[rank])
            if opening.child(place).count > 1:
                heapq.heappush(self.heap, (-abs(float(opening.values[place])), number, rank))
                return
            rank += 1

    def pop(self, openings: Sequence[Opening], taken: Collection[Leaf] = ()) -> Leaf | None:
        """Take out the largest leaf that was not opened; None if all paths are complete."""
        while self.heap:
            _, number, rank = heapq.heappop(self.heap)
            self.add(number, openings[number], rank + 1)
            if (number, rank) not in taken:
                return number, rank
        return None

    def largest(self, amount: int, openings: Sequence[Opening], taken: Collection[Leaf]) -> list[Leaf]:
        """Return the largest leaves in order and leave them in."""
        ahead, found = self.copy(), list[Leaf]()
        while len(found) < amount and (leaf := ahead.pop(openings, taken)) is not None:
            found.append(leaf)
        return found
