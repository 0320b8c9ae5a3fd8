"""Frobenius norms of all products of readers with writers, through blocks of their Gram matrices.

‖A B‖² = ⟨Aᵀ A, B Bᵀ⟩: two symmetric d × d matrices met entry by entry. They are made and met one block of rows
and columns at a time, so that d × d matrices of all heads are never held.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...workers import for_each
from .sides import BLOCK, Array, Maps

Flags = NDArray[np.bool_]
Counts = NDArray[np.int64]

CANCELED = 1e-6
"""Below this square of a score the sum over Gram entries has canceled too far, and the product is made itself."""


class Met(NamedTuple):
    """Scores of readers with writers; undefined (NaN) where not allowed or where a map is zero.

    score: (readers, writers), ‖A B‖ / (‖A‖ ‖B‖). z: by how many standard deviations score² exceeds what a
    random rotation of the stream between the two gives. zero: the labels of maps that are zero.
    """

    score: Array
    z: Array
    zero: tuple[str, ...]


def meet(readers: Sequence[Maps], writers: Sequence[Maps], allowed: Flags) -> Met:
    """Return the scores of all allowed pairs; readers and writers are concatenated in order.

    Under a uniformly random rotation U, E ‖A U B‖² = ‖A‖² ‖B‖² / d, and the variance follows from the second
    moments of U: 2 (a - 1/d) (b - 1/d) / ((d - 1) (d + 2)), where a = tr((AᵀA)²) / tr(AᵀA)².
    """
    d = readers[0].width
    sums = _added_up(readers, writers, allowed)
    sizes = np.outer(sums.reader.norm, sums.writer.norm)
    share = np.full(sizes.shape, np.nan)
    defined = allowed & (sizes > 0)
    share[defined] = np.maximum(sums.squares[defined], 0.0) / sizes[defined]
    for row, column in np.argwhere(defined & (share < CANCELED)):
        product = _at(readers, row) @ _at(writers, column).T
        share[row, column] = np.vdot(product, product) / sizes[row, column]
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = np.outer(sums.reader.beyond(d), sums.writer.beyond(d)) * 2.0 / ((d - 1) * (d + 2))
        z = np.where(variance > 0, (share - 1.0 / d) / np.sqrt(variance), np.nan)
    names = np.array(labels([*readers, *writers]))
    gone = np.concatenate([sums.reader.norm, sums.writer.norm]) == 0
    return Met(np.sqrt(share), z, tuple(map(str, names[gone])))


def squared_products(readers: Sequence[Maps], writers: Sequence[Maps], allowed: Flags) -> Array:
    """Return ‖A B‖² of all allowed readers A and writers B, (readers, writers); 0 elsewhere.

    Those that have canceled are made of the product itself.
    """
    sums = _added_up(readers, writers, allowed)
    scales = np.outer(*(np.concatenate([side.scale for side in sides]) for sides in (readers, writers)))
    squares = np.where(allowed, np.maximum(sums.squares, 0.0), 0.0)
    sizes = np.outer(sums.reader.norm, sums.writer.norm)
    for row, column in np.argwhere(allowed & (squares < CANCELED * sizes)):
        product = _at(readers, row) @ _at(writers, column).T
        squares[row, column] = np.vdot(product, product)
    return np.asarray(squares * scales**2)


@dataclass(eq=False)
class _Own:
    """Of every map its tr G and tr G², G its Gram matrix, added up block by block."""

    norm: Array
    fourth: Array

    @staticmethod
    def nothing(amount: int) -> _Own:
        return _Own(np.zeros(amount), np.zeros(amount))

    def add(self, rows: slice, block: Array, times: float) -> None:
        """Add one block of the maps in some rows, (maps, block · block); one on the diagonal counts once."""
        self.fourth[rows] += times * np.einsum("mk,mk->m", block, block)
        if times == 1.0:
            side = round(block.shape[1] ** 0.5)
            self.norm[rows] += block[:, :: side + 1].sum(axis=1)

    def beyond(self, d: int) -> Array:
        """tr G² / (tr G)² - 1/d: how far from a multiple of a rotation a map is."""
        return np.maximum(self.fourth / self.norm**2 - 1.0 / d, 0.0)


def _added_up(readers: Sequence[Maps], writers: Sequence[Maps], allowed: Flags) -> _Sums:
    """Return the sums over all blocks; the longest columns first, each with sums of its own, added in one order."""
    for side in (*readers, *writers):
        side.prepare()
    starts = range(0, readers[0].width, BLOCK)[::-1]
    parts = [_Sums(readers, writers, allowed) for _ in starts]
    for_each(lambda at: parts[at].add_columns(starts[at]), len(starts))
    for part in parts[1:]:
        parts[0].add(part)
    return parts[0]


class _Sums:
    """⟨AᵀA, BBᵀ⟩ of allowed pairs, summed over blocks on and above the diagonal."""

    def __init__(self, readers: Sequence[Maps], writers: Sequence[Maps], allowed: Flags) -> None:
        self.readers, self.writers = readers, writers
        self.squares = np.zeros(allowed.shape)
        self.reader, self.writer = (_Own.nothing(amount) for amount in allowed.shape)
        self.bands = [[list(_bands(allowed, rows, to)) for to in _rows(writers)] for rows in _rows(readers)]

    def add_columns(self, start: int) -> None:
        """Add the blocks of one block of columns, from the first row to the diagonal."""
        reading = [side.columns(start) for side in self.readers]
        writing = [side.columns(start) for side in self.writers]
        for i in range(0, start + 1, BLOCK):
            self._add(i, 1.0 if i == start else 2.0, reading, writing)

    def add(self, other: _Sums) -> None:
        """Add the sums over other blocks of the same maps."""
        self.squares += other.squares
        for own, more in ((self.reader, other.reader), (self.writer, other.writer)):
            own.norm += more.norm
            own.fourth += more.fourth

    def _add(self, start: int, times: float, reading: list[Array], writing: list[Array]) -> None:
        written = [side.block(start, columns) for side, columns in zip(self.writers, writing, strict=True)]
        for block, rows in zip(written, _rows(self.writers), strict=True):
            self.writer.add(rows, block, times)
        for side, columns, rows, bands in zip(
            self.readers, reading, _rows(self.readers), self.bands, strict=True
        ):
            read = side.block(start, columns)
            self.reader.add(rows, read, times)
            for block, to, some in zip(written, _rows(self.writers), bands, strict=True):
                for band in some:
                    met = read[band.reading(rows)] @ block[band.writing(to)].T
                    self.squares[band.start : band.stop, band.first : band.last] += times * met


class _Band(NamedTuple):
    """Readers start to stop, which of the writers of one side read nothing outside of first to last."""

    start: int
    stop: int
    first: int
    last: int

    def reading(self, rows: slice) -> slice:
        """Where the readers stand on their side."""
        return slice(self.start - rows.start, self.stop - rows.start)

    def writing(self, to: slice) -> slice:
        """Where the writers stand on theirs."""
        return slice(self.first - to.start, self.last - to.start)


BAND = 36
"""Readers met with writers at a time, enough for a matrix product to be worth its while."""

TILE = 4
"""Numbers of rows and columns of which a product rounds each entry alike, whatever else is multiplied beside it."""


def _bands(allowed: Flags, rows: slice, to: slice) -> Iterator[_Band]:
    lasts = _lasts(allowed[rows, to])
    if lasts is not None:
        yield from _stairs(lasts, rows.start, to.start, 0)
        return
    for start in range(rows.start, rows.stop, BAND):
        stop = min(start + BAND, rows.stop)
        read = to.start + np.flatnonzero(allowed[start:stop, to].any(axis=0))
        if len(read):
            yield _Band(start, stop, int(read[0]), int(read[-1]) + 1)


def _lasts(allowed: Flags) -> Counts | None:
    """Return how many writers, from the first on, each reader reads, if later readers read no fewer; steps in whole tiles only."""
    lasts = allowed.sum(axis=1)
    stairs = np.arange(allowed.shape[1]) < lasts[:, None]
    steps = np.flatnonzero(np.diff(lasts)) + 1
    whole = not (steps % TILE).any() and not (lasts[lasts < allowed.shape[1]] % TILE).any()
    return lasts if whole and (np.diff(lasts) >= 0).all() and np.array_equal(stairs, allowed) else None


def _stairs(lasts: Counts, row: int, column: int, done: int) -> Iterator[_Band]:
    """Yield what lies under stairs, in rectangles as large as can be: what is left of the middle step, then above and below it."""
    steps = np.flatnonzero(np.diff(lasts)) + 1
    middle = int(steps[len(steps) // 2]) if len(steps) else 0
    under = int(lasts[middle]) if len(lasts) else 0
    if under > done:
        yield _Band(row + middle, row + len(lasts), column + done, column + under)
    if len(steps):
        yield from _stairs(lasts[:middle], row, column, done)
        yield from _stairs(lasts[middle:], row + middle, column, under)


def _rows(sides: Sequence[Maps]) -> list[slice]:
    ends = np.cumsum([0, *(len(side.labels) for side in sides)])
    return [slice(int(a), int(b)) for a, b in pairwise(ends)]


def _at(sides: Sequence[Maps], index: int) -> Array:
    side, rows = next(pair for pair in zip(sides, _rows(sides), strict=True) if index < pair[1].stop)
    return side.whole(int(index) - rows.start)


def labels(sides: Sequence[Maps]) -> tuple[str, ...]:
    """Return the labels of all maps of some sides, in order."""
    return tuple(label for side in sides for label in side.labels)
