"""The largest entries of a map, found in blocks: those of a 50,000 × 50,000 product in bounded memory.

A block is screened in single precision with an error margin, and whatever may qualify is computed again in
float64 with the terms of every entry added in one order, so that equal rows give equal numbers wherever they
stand. Rows and columns are visited by descending length: by Cauchy-Schwarz whole tiles cannot qualify.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from threading import Lock
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..arguments import check, one_of, whole
from ..errors import SizeError
from ..workers import for_each
from .arrays import Array, frobenius
from .maps import LinearMap
from .operations import MAX_ENTRIES, is_narrow, svd, triangles, waist, wide
from .stream import Progress

Largest: TypeAlias = Literal["abs", "positive", "negative"]
Indices: TypeAlias = NDArray[np.intp]

BLOCK = 2**22
"""Entries computed or looked through at a time: 16 MB in single precision."""

TILE = 1536, 768
"""Rows and columns screened at a time: 4 MB in single precision, so that a tile is looked through in the cache."""

WELL_CONDITIONED = 1e3
"""Up to this condition the sides of a product are balanced by solving with their triangles."""


class Entries(NamedTuple):
    """Entries of a map, the best first: rows (k,), columns (k,), values (k,)."""

    rows: Indices
    columns: Indices
    values: Array


class _Found(NamedTuple):
    """Places that may qualify: rows (c,), columns (c,), and keys (c,) that are off by at most the margin."""

    rows: Indices
    columns: Indices
    keys: NDArray[Any]
    margin: float


class _Entrywise(Protocol):
    """A matrix whose entries can be screened block by block and computed one by one."""

    def values(self, rows: Indices, columns: Indices) -> Array: ...

    def screen(self, largest: Largest, best: _Best, progress: Progress) -> None: ...


def top_entries(
    map: LinearMap, k: int, largest: Largest = "abs", *, progress: Progress | None = None
) -> Entries:
    """Return the k entries that are largest in magnitude ("abs"), or the most "positive" or "negative".

    Sorted, the best first; exactly equal ones by row, then by column. All entries if there are fewer than k.
    `progress(rows done, of how many)` is called after every block of rows.
    Costs O(m n r) at most for an m × n map with a waist of r, and memory O((m + n) r) plus a block.
    Raises SizeError for k below 1 or above 2**25.

    >>> from pathexp.algebra import Dense, Space
    >>> W = Dense([[1, -5, 2], [0, 4, -5]], Space("out", 2), Space("in", 3))
    >>> top = top_entries(W, 3)
    >>> list(zip(top.rows.tolist(), top.columns.tolist(), top.values.tolist()))
    [(0, 1, -5.0), (1, 2, -5.0), (1, 1, 4.0)]
    """
    check("top_entries(), k", k, whole(), SizeError)
    check("top_entries(), largest", largest, one_of("abs", "positive", "negative"), SizeError)
    if not 1 <= k <= MAX_ENTRIES:
        raise SizeError(f"top_entries of {map.formula} asked for {k:,} entries; ask for 1 to {MAX_ENTRIES:,}")
    best = _Best(min(k, map.target.size * map.source.size), largest)
    matrix = _entrywise(map)
    matrix.screen(largest, best, progress or _silent)
    return best.entries


def _silent(done: int, rows: int) -> None:
    """Nobody asked."""


def _entrywise(map: LinearMap) -> _Entrywise:
    if not is_narrow(map):
        return _Whole(wide(map))
    return _Product.of(map) or _Nothing(map.shape)


class _Best:
    """The best entries so far, and what a further one must reach."""

    def __init__(self, k: int, largest: Largest) -> None:
        self.k, self.largest = k, largest
        nothing = np.empty(0, dtype=np.intp)
        self.entries = Entries(nothing, nothing, np.empty(0))
        self.one_at_a_time = Lock()

    @property
    def threshold(self) -> float:
        """The key that a further entry must reach."""
        full = len(self.entries.values) == self.k
        return float(_keys(self.entries.values[-1:], self.largest)[0]) if full else -np.inf

    def admit(self, found: _Found, matrix: _Entrywise) -> None:
        """Compute the found places that may qualify, a bounded number at a time, and keep the best."""
        keep = _may_qualify(found, self.k)
        rows, columns = found.rows[keep], found.columns[keep]
        step = max(1, BLOCK // 64)
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            values = matrix.values(rows[part], columns[part])
            with self.one_at_a_time:
                self._merge(rows[part], columns[part], values)

    def _merge(self, rows: Indices, columns: Indices, values: Array) -> None:
        old = self.entries
        rows, columns = np.concatenate([old.rows, rows]), np.concatenate([old.columns, columns])
        values = np.concatenate([old.values, values])
        order = np.lexsort((columns, rows, -_keys(values, self.largest)))[: self.k]
        self.entries = Entries(rows[order], columns[order], values[order])


def _keys(values: NDArray[Any], largest: Largest) -> NDArray[Any]:
    """Return what is to be large."""
    if largest == "abs":
        return np.asarray(np.abs(values))
    return values if largest == "positive" else np.negative(values)


def _may_qualify(found: _Found, k: int) -> Indices:
    """Return the places whose key, margin allowed, can be among the k best of those found."""
    if len(found.keys) <= k:
        return np.arange(len(found.keys))
    kth = float(np.partition(found.keys, -k)[-k])
    return np.flatnonzero(found.keys >= kth - 2 * found.margin)


@dataclass(frozen=True, eq=False)
class _Whole:
    """A matrix that is there as an array."""

    array: Array

    def values(self, rows: Indices, columns: Indices) -> Array:
        return self.array[rows, columns]

    def screen(self, largest: Largest, best: _Best, progress: Progress) -> None:
        m, n = self.array.shape
        step = max(1, BLOCK // n)
        for start in range(0, m, step):
            keys = _keys(self.array[start : start + step], largest)
            rows, columns = np.nonzero(keys >= best.threshold)
            best.admit(_Found(rows + start, columns, keys[rows, columns], 0.0), self)
            progress(min(start + step, m), m)


@dataclass(frozen=True, eq=False)
class _Nothing:
    """A matrix of zeros."""

    shape: tuple[int, int]

    def values(self, rows: Indices, columns: Indices) -> Array:
        return np.zeros(len(rows))

    def screen(self, largest: Largest, best: _Best, progress: Progress) -> None:
        rows, columns = np.divmod(np.arange(best.k), self.shape[1])
        best.admit(_Found(rows, columns, np.zeros(best.k), 0.0), self)
        progress(self.shape[0], self.shape[0])


@dataclass(frozen=True, eq=False)
class _Product:
    """A matrix left @ right in float64, and balanced single-precision sides of it over `scale` to screen with.

    An entry is screened with an error of at most relative · |row| |column| + absolute, in units of scale.
    """

    left: Array
    right: Array
    rows: NDArray[np.float32]
    columns: NDArray[np.float32]
    scale: float
    relative: float
    absolute: float

    @staticmethod
    def of(map: LinearMap) -> _Product | None:
        """Balance the sides of a map's waist; None for a map that is zero."""
        left, right = waist(map)
        if not left.size or not right.size:
            return None
        rows, columns, scale, condition = _balanced(map, left, right)
        if scale == 0.0:
            return None
        r = left.shape[1]
        size = frobenius(left) * frobenius(right)
        return _Product(
            left,
            np.ascontiguousarray(right.T),
            rows.astype(np.float32),
            columns.astype(np.float32),
            scale,
            (r + 8) * float(np.finfo(np.float32).eps),
            64 * r * condition * float(np.finfo(np.float64).eps) * size / scale
            + r * float(np.finfo(np.float32).tiny),
        )

    def values(self, rows: Indices, columns: Indices) -> Array:
        """Compute entries, every one with its terms added in the same order."""
        step = max(1, BLOCK // self.left.shape[1])
        parts = [
            (self.left[rows[i : i + step]] * self.right[columns[i : i + step]]).sum(axis=1)
            for i in range(0, len(rows), step)
        ]
        return np.concatenate(parts) if parts else np.empty(0)

    def screen(self, largest: Largest, best: _Best, progress: Progress) -> None:
        """Screen strips of rows, several at a time; what is kept does not depend on which comes first."""
        row_order, row_lengths = _by_length(self.rows)
        column_order, column_lengths = _by_length(self.columns)
        rows, columns = self.rows[row_order], self.columns[column_order]
        done = count(1)

        def strip(number: int) -> None:
            start = number * TILE[0]
            room = np.empty(TILE[0] * TILE[1], dtype=np.float32)
            for first in range(0, len(columns), TILE[1]):
                longest = float(row_lengths[start]) * float(column_lengths[first])
                margin = self.relative * longest + self.absolute
                wanted = best.threshold / self.scale - 2 * margin
                if longest < wanted:
                    break  # columns come by descending length: no later tile of these rows reaches further
                tile = _product(rows[start : start + TILE[0]], columns[first : first + TILE[1]], room)
                if _peak(tile, largest) >= wanted:
                    keys = _keys(tile, largest)
                    r, c = np.nonzero(keys >= wanted)
                    best.admit(
                        _Found(row_order[start + r], column_order[first + c], keys[r, c], margin), self
                    )
            with best.one_at_a_time:
                progress(min(next(done) * TILE[0], len(rows)), len(rows))

        for_each(strip, -(-len(rows) // TILE[0]))


def _product(rows: NDArray[np.float32], columns: NDArray[np.float32], room: NDArray[np.float32]) -> Any:
    """Multiply into memory that is used again and stays in the cache."""
    size = len(rows), len(columns)
    return np.matmul(rows, columns.T, out=room[: size[0] * size[1]].reshape(size))


def _peak(tile: NDArray[np.float32], largest: Largest) -> float:
    """The largest key of a tile."""
    highest = float(tile.max()) if largest != "negative" else -np.inf
    return highest if largest == "positive" else max(highest, -float(tile.min()))


def _balanced(map: LinearMap, left: Array, right: Array) -> tuple[Array, Array, float, float]:
    """Return sides of a map over its largest singular value, equally long in every direction.

    Their product is exact up to float64 rounding times the last number, a condition. Sides of a good condition
    are turned by their triangles; others by the singular value decomposition, which takes longer.
    """
    lower, upper = triangles(map)
    square = lower.shape[0] == lower.shape[1] and upper.shape[0] == upper.shape[1]
    condition = max(_condition(side) for side in (lower, upper)) if square else np.inf
    if condition > WELL_CONDITIONED:
        U, S, Vh = svd(map)
        root = np.sqrt(S / S[0]) if S[0] else S
        return U * root, Vh.T * root, float(S[0]), 1.0
    u, s, vh = np.linalg.svd(lower @ upper.T)
    root = np.sqrt(s / s[0])
    rows, columns = left @ np.linalg.solve(lower, u * root), right.T @ np.linalg.solve(upper, vh.T * root)
    return rows, columns, float(s[0]), 2 * condition


def _condition(triangle: Array) -> float:
    """The ratio of the largest singular value to the smallest; infinite for a singular matrix."""
    s = np.linalg.svd(triangle, compute_uv=False)
    return float(s[0] / s[-1]) if len(s) and s[-1] > 0 else np.inf


def _by_length(sides: NDArray[np.float32]) -> tuple[Indices, Array]:
    """Return the order of vectors by descending length, and the lengths in that order."""
    lengths = np.linalg.norm(sides.astype(np.float64), axis=1)
    order = np.argsort(-lengths, kind="stable")
    return order, lengths[order]
