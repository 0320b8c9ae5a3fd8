"""Frobenius norms of all products of readers with writers, through blocks of their Gram matrices.

‖A B‖² = ⟨Aᵀ A, B Bᵀ⟩: two symmetric d × d matrices met entry by entry. They are made and met one block of rows
and columns at a time, so that d × d matrices of all heads are never held.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...algebra import for_each

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

BLOCK = 64
"""Rows and columns of the Gram matrices made at a time."""

CANCELED = 1e-6
"""Below this square of a score the sum over Gram entries has canceled too far, and the product is made itself."""


@dataclass(frozen=True, eq=False)
class Side:
    """Maps of one kind on one side of the stream, as products outer · thin.

    thin has shape (n, r, d): what is read, or the transpose of what is written. outer has shape (n, m, r): what
    follows a reader, or the transpose of what comes before a writer; None for nothing.
    """

    labels: tuple[str, ...]
    thin: Array
    outer: Array | None = None

    @property
    def width(self) -> int:
        """d, the dimension of the stream."""
        return int(self.thin.shape[-1])

    def part(self, chosen: slice) -> Side:
        """Return some of the maps."""
        return Side(
            self.labels[chosen], self.thin[chosen], None if self.outer is None else self.outer[chosen]
        )

    @cached_property
    def scale(self) -> Array:
        """The largest entries of outer times those of thin, (n,): Gram matrices are taken of maps over it."""
        sizes = _largest(self.thin) * (1.0 if self.outer is None else _largest(self.outer))
        return np.where(sizes > 0, sizes, 1.0)

    @cached_property
    def inner(self) -> Array:
        """outerᵀ outer over scale², (n, r, r), of maps that have an outer."""
        assert self.outer is not None, "asked for only where there is one"
        return np.asarray(np.swapaxes(self.outer, 1, 2) @ self.outer / self.scale[:, None, None] ** 2)

    def columns(self, start: int) -> Array:
        """Return inner · thin for one block of columns, (n, r, block)."""
        thin = self.thin[:, :, start : start + BLOCK]
        return thin / self.scale[:, None, None] ** 2 if self.outer is None else self.inner @ thin

    def block(self, start: int, columns: Array) -> Array:
        """Return one block of all Gram matrices as rows, (n, block · block)."""
        rows = np.swapaxes(self.thin[:, :, start : start + BLOCK], 1, 2)
        return (rows @ columns).reshape(len(self.thin), rows.shape[1] * columns.shape[2])

    def whole(self, index: int) -> Array:
        """Return a small matrix R with Rᵀ R the Gram matrix of one map, (at most r, d), accurate when small."""
        thin: Array = self.thin[index] / self.scale[index]
        return thin if self.outer is None else np.linalg.qr(self.outer[index], mode="r") @ thin


def _largest(arrays: Array) -> Array:
    """Return the largest magnitude in each of some matrices."""
    flat = arrays.reshape(len(arrays), arrays.shape[1] * arrays.shape[2])
    return np.asarray(np.maximum(flat.max(axis=1, initial=0.0), -flat.min(axis=1, initial=0.0)))


def reduced(matrix: Array) -> Array:
    """Return a matrix with the same Gram matrix and no more rows than columns, (1, r, d)."""
    rows, columns = matrix.shape
    if rows > columns:
        matrix = np.asarray(np.linalg.qr(matrix, mode="r"))
    return matrix[None]


class Met(NamedTuple):
    """Scores of readers with writers; undefined (NaN) where not allowed or where a map is zero.

    score: (readers, writers), ‖A B‖ / (‖A‖ ‖B‖). z: by how many standard deviations score² exceeds what a
    random rotation of the stream between the two gives. zero: the labels of maps that are zero.
    """

    score: Array
    z: Array
    zero: tuple[str, ...]


def meet(readers: Sequence[Side], writers: Sequence[Side], allowed: Flags) -> Met:
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


def squared_products(readers: Sequence[Side], writers: Sequence[Side], allowed: Flags) -> Array:
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


def _added_up(readers: Sequence[Side], writers: Sequence[Side], allowed: Flags) -> _Sums:
    """Return the sums over all blocks; the longest columns first, each with sums of its own, added in one order."""
    for side in (*readers, *writers):
        _ = side.scale if side.outer is None else side.inner
    starts = range(0, readers[0].width, BLOCK)[::-1]
    parts = [_Sums(readers, writers, allowed) for _ in starts]
    for_each(lambda at: parts[at].add_columns(starts[at]), len(starts))
    for part in parts[1:]:
        parts[0].add(part)
    return parts[0]


class _Sums:
    """⟨AᵀA, BBᵀ⟩ of allowed pairs, summed over blocks on and above the diagonal."""

    def __init__(self, readers: Sequence[Side], writers: Sequence[Side], allowed: Flags) -> None:
        self.readers, self.writers = readers, writers
        self.squares = np.zeros(allowed.shape)
        self.reader, self.writer = (_Own.nothing(amount) for amount in allowed.shape)
        self.bands = [list(_bands(allowed, rows)) for rows in _rows(readers)]

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
            for band in bands:
                for block, to in zip(written, _rows(self.writers), strict=True):
                    self._meet(band, read[band.start - rows.start : band.stop - rows.start], block, to, times)

    def _meet(self, band: _Band, read: Array, written: Array, to: slice, times: float) -> None:
        """Meet a band of readers with those of some writers that any of them may read."""
        first, last = max(to.start, band.first), min(to.stop, band.last)
        if first < last:
            met = read @ written[first - to.start : last - to.start].T
            self.squares[band.start : band.stop, first:last] += times * met


class _Band(NamedTuple):
    """Readers start to stop, which read nothing outside of writers first to last."""

    start: int
    stop: int
    first: int
    last: int


BAND = 36
"""Readers met with writers at a time, enough for a matrix product to be worth its while."""


def _bands(allowed: Flags, rows: slice) -> Iterator[_Band]:
    for start in range(rows.start, rows.stop, BAND):
        stop = min(start + BAND, rows.stop)
        read = np.flatnonzero(allowed[start:stop].any(axis=0))
        if len(read):
            yield _Band(start, stop, int(read[0]), int(read[-1]) + 1)


def _rows(sides: Sequence[Side]) -> list[slice]:
    ends = np.cumsum([0, *(len(side.thin) for side in sides)])
    return [slice(int(a), int(b)) for a, b in pairwise(ends)]


def _at(sides: Sequence[Side], index: int) -> Array:
    side, rows = next(pair for pair in zip(sides, _rows(sides), strict=True) if index < pair[1].stop)
    return side.whole(int(index) - rows.start)


def together(sides: Sequence[Side]) -> list[Side]:
    """Return the same maps in the same order, neighbors of one shape without outer as one side: fewer, larger products."""
    found: list[Side] = []
    for side in sides:
        last = found[-1] if found else None
        if (
            last is not None
            and last.outer is None
            and side.outer is None
            and last.thin.shape[1:] == side.thin.shape[1:]
        ):
            found[-1] = Side(last.labels + side.labels, np.concatenate([last.thin, side.thin]))
        else:
            found.append(side)
    return found


def labels(sides: Sequence[Side]) -> tuple[str, ...]:
    """Return the labels of all maps of some sides, in order."""
    return tuple(label for side in sides for label in side.labels)
