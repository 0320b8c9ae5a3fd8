"""The largest products of two lists of vectors, found without forming all of them."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...errors import SizeError
from ...graph import Array, Indices, Walk
from ...model import Target
from ..search.rounding import finite, gamma, lengths, powers
from ..search.shadow import path_errors
from ..search.zeros import certain_zeros
from ..values import path_values

TILE = 512
"""Side of a tile of products that is formed at once."""

LISTING_LIMIT = 200_000
"""How many paths one side may have before `top` refuses."""


@dataclass(frozen=True, order=True)
class Product:
    """One product: its absolute value, its value, where its two vectors stand in their lists, and how far it may be off."""

    size: float
    value: float
    left: int
    right: int
    error: float


@dataclass(frozen=True, eq=False)
class Vectors:
    """What paths bring, (paths, d), a bound on the length of what rounding may have done to each, and which numbers are there.

    A number that is not there is zero whatever the rounding: products of vectors that share no number are exactly zero.
    """

    values: Array
    off: Array
    there: NDArray[np.bool_]

    @cached_property
    def long(self) -> Array:
        """Bounds on the lengths; 0 for zeros alone."""
        sizes = powers(self.values, (1,))
        found = lengths(self.values / sizes) * sizes[:, 0] * _UP + LEAST
        return np.asarray(np.where(self.values.any(axis=1), found, 0.0))

    def split(self, amounts: Sequence[int]) -> list[Vectors]:
        """Runs of so many, one after the other."""
        ends = np.cumsum([0, *amounts]).tolist()
        return [self.at(np.arange(*run)) for run in pairwise(ends)]

    def at(self, chosen: Indices) -> Vectors:
        """Some of them."""
        return Vectors(self.values[chosen], self.off[chosen], self.there[chosen])

    def turned(self, turn: Array | None, scale: float) -> Vectors:
        """The same times a number, after a map (d, d) if there is one; the number enlarges what underflows in the map."""
        d = self.values.shape[1]
        values, there, far, lost = self.values, self.there, 1.0, gamma(1)
        if turn is not None:
            absolute = np.abs(turn)
            far = float(np.sqrt(absolute.sum(axis=0).max() * absolute.sum(axis=1).max()))
            values, lost = values @ turn.T, gamma(d + 1)
            there = there @ (turn != 0).T
        off = far * (self.off + lost * self.long + LEAST * d * d) * abs(scale) * _UP + LEAST * d * d
        return Vectors(scale * values, np.where(there.any(axis=1), finite(off), 0.0), there)


def path_vectors(walk: Walk, position: int) -> Vectors:
    """Return what every path of a walk brings to its sink at one position, in the order of iteration.

    Raises SizeError above 200,000 paths. Cost: d_out evaluations of all paths, and a few more for what they lose.
    """
    count = sum(walk.count_by_order)
    if count > LISTING_LIMIT:
        raise SizeError(
            f"{count:,} paths into {walk.graph.sink.label} are too many to evaluate one by one "
            f"(limit {LISTING_LIMIT:,}); narrow them with where(query=..., key=...), rank one side against the "
            "whole of the other: top_keys(k), top_queries(k), or ask for totals: by_order(), by_kind(), value()"
        )
    width = int(walk.graph.d_out)
    units = [Target(position, unit, "logits", "one coordinate", 0.0) for unit in np.eye(width)]
    with np.errstate(all="ignore"):
        values = np.stack([path_values(walk, unit) for unit in units], axis=1)
        there = values != 0
        for at in np.flatnonzero(~there.all(axis=0)):
            there[:, at] |= certain_zeros(walk, units[at], path_values) == 0
        return Vectors(values, np.where(there.any(axis=1), _lost(walk, position), 0.0), there)


def _lost(walk: Walk, position: int) -> Array:
    """How far what each path brings may be off: no number by more than one of a direction of length one along all of them."""
    width = int(walk.graph.d_out)
    along = Target(position, np.full(width, width**-0.5), "logits", "all coordinates", 0.0)
    return np.asarray(path_errors(walk, along, path_values) * (width**0.5 * _UP))


_UP = 1 + 1e-9
"""More than the rounding of the few sums and products that make an error."""
LEAST = float(np.finfo(np.float64).smallest_subnormal)
"""More than what underflows in one product."""


def largest_products(left: Vectors, right: Vectors, k: int) -> tuple[list[Product], float, int]:
    """Return the k products left[i] · right[j] of largest absolute value, a bound on all others, and how many were formed.

    Tiles are visited by the largest product their lengths allow, |left| · |right|, until that is below the k-th best
    found. The bound holds for products without rounding, of vectors that are as far off as they may be.
    """
    best, beyond, formed = list[Product](), 0.0, 0
    for bound, rows, columns in _tiles(left, right):
        if len(best) == k and bound < best[0].size:
            beyond = max(beyond, bound)
            break
        found, others = _candidates(_Tile(left, right, rows, columns), k)
        beyond, formed = max(beyond, others), formed + len(rows) * len(columns)
        for product in found:
            heapq.heappush(best, product)
            if len(best) > k:
                least = heapq.heappop(best)
                beyond = max(beyond, least.size + least.error)
    return sorted(best, key=lambda p: (-p.size, p.left, p.right)), beyond, formed


def _tiles(left: Vectors, right: Vectors) -> list[tuple[float, Indices, Indices]]:
    """Runs of rows and of columns, those first whose products can be largest."""
    lost = 1 + gamma(left.values.shape[1] + 4)
    ends = [
        (float(finite(np.asarray(a * b * lost))) + LEAST, rows, columns)
        for a, rows in _by_length(left)
        for b, columns in _by_length(right)
    ]
    return sorted(ends, key=lambda tile: -tile[0])


def _by_length(vectors: Vectors) -> list[tuple[float, Indices]]:
    """Indices by descending length, in runs of TILE, each with an upper bound on its greatest length."""
    sizes = finite(vectors.long + vectors.off)
    order = np.argsort(-sizes, kind="stable")
    return [(float(sizes[order[at]]), order[at : at + TILE]) for at in range(0, len(order), TILE)]


@dataclass(frozen=True, eq=False)
class _Tile:
    """Some rows met with some columns."""

    left: Vectors
    right: Vectors
    rows: Indices
    columns: Indices

    def products(self) -> tuple[Array, Array]:
        """All products, and how far each may be off."""
        left, right = self.left.at(self.rows), self.right.at(self.columns)
        lost = gamma(left.values.shape[1] + 3)
        further = right.off + lost * right.long + LEAST
        with np.errstate(over="ignore", invalid="ignore"):
            values = left.values @ right.values.T
            off = np.outer(left.off, right.long + right.off) + np.outer(left.long, further)
        off = finite(off * _UP + LEAST * (left.values.shape[1] + 4))
        return values, np.where(left.there.astype(np.float64) @ right.there.T > 0, off, 0.0)


def _candidates(tile: _Tile, k: int) -> tuple[list[Product], float]:
    """The k largest products of a tile, and a bound on its others."""
    products, off = tile.products()
    flat, errors = finite(np.abs(products)).reshape(-1), off.reshape(-1)
    chosen = np.argpartition(-flat, k - 1)[:k] if k < len(flat) else np.arange(len(flat))
    found = []
    for place in map(int, chosen):
        i, j = divmod(place, len(tile.columns))
        value, where = float(products[i, j]), (int(tile.rows[i]), int(tile.columns[j]))
        found.append(Product(float(flat[place]), value, *where, float(errors[place])))
    most = flat + errors
    most[chosen] = 0.0
    return found, float(most.max(initial=0.0))
