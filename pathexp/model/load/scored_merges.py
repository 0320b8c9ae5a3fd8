"""Merging neighbors of a text into pieces, the best-scored merge first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import pairwise

_Merge = tuple[float, int, str, str, int]
"""Minus the score, the place of the left one, the two that are merged, the place of the right one."""


def merged(symbols: Sequence[str], score: Callable[[str], float | None]) -> list[str]:
    """Merge neighbors, the highest score first and the first of equals; ``score`` is None of what is no piece.

    Time n log n in the number of symbols.

    >>> merged("abab", {"ab": 2.0, "abab": 1.0}.get)
    ['abab']
    """
    return _Chain(list(symbols), score).merged()


@dataclass
class _Chain:
    """Symbols with their neighbors; one that was merged into the one before it is empty."""

    symbols: list[str]
    score: Callable[[str], float | None]
    before: list[int] = field(init=False)
    after: list[int] = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.symbols)
        self.before, self.after = list(range(-1, count - 1)), list(range(1, count + 1))

    def merged(self) -> list[str]:
        """Merge as long as neighbors make a piece."""
        places = range(len(self.symbols))
        queue = [merge for left, right in pairwise(places) for merge in self._merge(left, right)]
        heapify(queue)
        while queue:
            _, left, one, other, right = heappop(queue)
            if (self.symbols[left], self.symbols[right]) == (one, other) and self.after[left] == right:
                for merge in self._joined(left, right):
                    heappush(queue, merge)
        return [symbol for symbol in self.symbols if symbol]

    def _joined(self, left: int, right: int) -> Iterator[_Merge]:
        """Merge two neighbors, and yield the merges that are possible now."""
        self.symbols[left] += self.symbols[right]
        self.symbols[right], self.after[left] = "", self.after[right]
        if self.after[left] < len(self.symbols):
            self.before[self.after[left]] = left
            yield from self._merge(left, self.after[left])
        if self.before[left] >= 0:
            yield from self._merge(self.before[left], left)

    def _merge(self, left: int, right: int) -> Iterator[_Merge]:
        one, other = self.symbols[left], self.symbols[right]
        score = self.score(one + other)
        if score is not None:
            yield -score, left, one, other, right
