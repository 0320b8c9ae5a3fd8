"""Covectors of many endings, kept where they are not zero: at one position before any head, at few after one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...graph import Array, Indices
from ...workers import each
from .rounding import gamma, lengths


@dataclass(frozen=True, eq=False)
class Fields:
    """Rows (R, r) that are not zero, each at a position `at` (R,), of n; those of ending e from `begin[e]` to `begin[e + 1]`."""

    rows: Array
    at: Indices
    begin: Indices
    positions: int

    @classmethod
    def of(cls, dense: Array) -> Fields:
        """Covectors (m, n, r), those that are all zeros left out."""
        there = dense.any(axis=-1)
        endings, at = np.nonzero(there)
        begin = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
        return cls(dense[endings, at], at, begin, dense.shape[1])

    @classmethod
    def joined(cls, parts: Sequence[Fields]) -> Fields:
        """The endings of one after those of the other."""
        counts = np.concatenate([np.diff(part.begin) for part in parts])
        rows, at = (np.concatenate([getattr(part, name) for part in parts]) for name in ("rows", "at"))
        return cls(rows, at, np.concatenate([[0], np.cumsum(counts)]), parts[0].positions)

    def __len__(self) -> int:
        return len(self.begin) - 1

    @property
    def nbytes(self) -> int:
        """The memory of the rows."""
        return int(self.rows.nbytes)

    @cached_property
    def owners(self) -> Indices:
        """The ending of each row, (R,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.begin))

    @cached_property
    def lengths(self) -> Array:
        """Bounds on how long the covectors are, (m, n)."""
        found = np.zeros((len(self), self.positions))
        found[self.owners, self.at] = lengths(self.rows)
        return found

    def dense(self) -> Array:
        """All covectors, (m, n, r)."""
        found = np.zeros((len(self), self.positions, self.rows.shape[1]))
        found[self.owners, self.at] = self.rows
        return found

    def chosen(self, kept: NDArray[np.bool_]) -> Fields:
        """Those of some endings."""
        return self if kept.all() else self._some(np.repeat(kept, np.diff(self.begin)), np.flatnonzero(kept))

    def without(self, dropped: NDArray[np.bool_]) -> Fields:
        """Without the covectors of some endings at some positions, (m, n)."""
        stay = ~dropped[self.owners, self.at]
        return self if stay.all() else self._some(stay, np.arange(len(self)))

    def _some(self, stay: NDArray[np.bool_], endings: Indices) -> Fields:
        left = np.concatenate([[0], np.cumsum(stay)])
        counts = (left[self.begin[1:]] - left[self.begin[:-1]])[endings]
        begin = np.concatenate([[0], np.cumsum(counts)])
        return Fields(self.rows[stay], self.at[stay], begin, self.positions)

    def slices(self, rows: int, endings: int) -> Iterator[tuple[slice, Fields]]:
        """At most so many endings at a time, and at most so many rows where each has no more."""
        first = 0
        while first < len(self):
            fit = int(np.searchsorted(self.begin, self.begin[first] + rows, "right")) - 1
            last = min(max(first + 1, fit), first + max(1, endings), len(self))
            held = slice(int(self.begin[first]), int(self.begin[last]))
            begin = self.begin[first : last + 1] - self.begin[first]
            yield slice(first, last), Fields(self.rows[held], self.at[held], begin, self.positions)
            first = last

    def mapped(self, work: Callable[[Array, Indices], Array], width: int) -> Fields:
        """What `work` makes of rows (R, r) and their positions (R,), of `width` numbers each; shared out where that is much."""
        rows = np.empty((len(self.rows), width))

        def some(place: int) -> None:
            part = slice(place * ROWS, (place + 1) * ROWS)
            rows[part] = work(self.rows[part], self.at[part])

        each(some, -(-len(rows) // ROWS), self.rows.size * width)
        return self.holding(rows)

    def holding(self, rows: Array) -> Fields:
        """Other rows in the places of these."""
        return Fields(rows, self.at, self.begin, self.positions)

    def at_positions(self, work: Callable[[int, Indices], None], numbers: int) -> None:
        """Call `work` with every position and the rows that are there, on all cores if `numbers` a row make it worth that."""
        places = self._by_position
        each(lambda place: work(*places[place]), len(places), len(self.rows) * numbers)

    @cached_property
    def _by_position(self) -> list[tuple[int, Indices]]:
        """Every position where something is, and which rows."""
        order = np.argsort(self.at, kind="stable")
        ends = np.searchsorted(self.at[order], np.arange(self.positions + 1))
        return [
            (int(position), order[ends[position] : ends[position + 1]]) for position in np.unique(self.at)
        ]

    def met(self, values: Array) -> Array:
        """Inner products with vectors (E, n, r): (m, E)."""
        found = np.zeros((len(self), len(values)))
        for position, rows in self._by_position:
            found[self.owners[rows]] += self.rows[rows] @ values[:, position].T
        return found

    def sizes_met(self, sizes: Array) -> Array:
        """Bounds on Σ |r| s for numbers s (n, r) from 0 up: (m,)."""
        found = np.zeros(len(self.rows))
        for position, rows in self._by_position:
            found[rows] = np.abs(self.rows[rows]) @ sizes[position]
        return self.summed(found) * (1 + gamma(sizes.size))

    def summed(self, numbers: Array) -> Array:
        """Sums over each ending's rows of numbers (R,): (m,)."""
        return np.asarray(np.bincount(self.owners, numbers, minlength=len(self)), dtype=np.float64)


ROWS = 512
"""How many rows one worker takes at once."""
