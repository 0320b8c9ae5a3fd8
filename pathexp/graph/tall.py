"""A table of very many rows, such as the unembedding of a large vocabulary: multiplied a block of rows at a time.

In double precision the table of 128,256 tokens of a model of 8 billion parameters takes 4.2 GB, and a target reads one row of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..algebra.arrays import within_range

Array = NDArray[np.float64]

BLOCK = 8192
"""How many rows are multiplied at a time. A table of no more is a map like any other."""


@dataclass(frozen=True)
class Tall:
    """A table (count, d) of which `rows(begin, end)` gives some rows; stored or in memory, it rounds alike."""

    name: str
    count: int
    rows: Callable[[int, int], Array]

    def push(self, x: Array) -> Array:
        """Return x (..., d) times every row, (..., count)."""
        made = np.empty((*x.shape[:-1], self.count))
        with within_range(self.name):
            for begin, end in self._blocks():
                np.matmul(x, self.rows(begin, end).T, out=made[..., begin:end])
        return made

    def pull(self, r: Array) -> Array:
        """Return the sum of rows times r (..., count), (..., d). Rows before the first and after the last that count are not read.

        >>> table = np.arange(6.0).reshape(3, 2)
        >>> Tall("W_U", 3, lambda begin, end: table[begin:end]).pull(np.array([0.0, 2.0, 0.0]))
        array([4., 6.])
        """
        found: Array | None = None
        counts = np.flatnonzero(r.any(axis=tuple(range(r.ndim - 1))))
        with within_range(self.name):
            for begin, end in self._blocks():
                here = counts[(counts >= begin) & (counts < end)]
                if len(here):
                    first, last = int(here[0]), int(here[-1]) + 1
                    part = r[..., first:last] @ self.rows(first, last)
                    found = part if found is None else found + part
        return np.zeros((*r.shape[:-1], self.rows(0, 1).shape[1])) if found is None else found

    def lengths(self, through: Callable[[Array], Array], length: Callable[[Array], Array]) -> Array:
        """Return the lengths of all rows, (count,), each first taken through a map."""
        return np.concatenate([length(through(self.rows(begin, end))) for begin, end in self._blocks()])

    def _blocks(self) -> Iterator[tuple[int, int]]:
        return ((begin, min(begin + BLOCK, self.count)) for begin in range(0, self.count, BLOCK))
