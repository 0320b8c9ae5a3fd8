"""The largest products of two lists of vectors, found without forming all of them."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...errors import SizeError
from ...graph import Array, Indices, Walk
from ...model import Target
from ..search.rounding import gamma, lengths
from ..values import path_values

TILE = 512
"""Side of a tile of products that is formed at once."""

LISTING_LIMIT = 200_000
"""How many paths one side may have before `top` refuses."""


@dataclass(frozen=True, order=True)
class Product:
    """One product: its absolute value, its value, and where its two vectors stand in their lists."""

    size: float
    value: float
    left: int
    right: int


def path_vectors(walk: Walk, position: int) -> list[Array]:
    """Return what every path of a walk brings to its sink at one position: per order, (paths, d_out).

    Raises SizeError above 200,000 paths. Cost: d_out evaluations of all paths.
    """
    count = sum(walk.count_by_order)
    if count > LISTING_LIMIT:
        raise SizeError(
            f"{count:,} paths into {walk.graph.sink.label} are too many to evaluate one by one "
            f"(limit {LISTING_LIMIT:,}); narrow them with where(query=..., key=...), rank one side against the "
            "whole of the other: top_keys(k), top_queries(k), or ask for totals: by_order(), by_kind(), value()"
        )
    width = int(walk.graph.d_out)
    units = (Target(position, unit, "logits", "one coordinate", 0.0) for unit in np.eye(width))
    flat = np.stack([path_values(walk, unit) for unit in units], axis=1)
    return np.split(flat, np.cumsum(walk.count_by_order)[:-1])


def largest_products(left: Array, right: Array, k: int) -> tuple[list[Product], int]:
    """Return the k products left[i] · right[j] of largest absolute value, and how many products were formed.

    Exact: tiles are visited by the largest product their lengths allow, |left| · |right|, until that is below
    the k-th best found.
    """
    tiles, best, formed = _Tiles(left, right), list[Product](), 0
    for bound, rows, columns in tiles:
        if len(best) == k and bound < best[0].size:
            break
        products = left[rows] @ right[columns].T
        formed += products.size
        for product in _candidates(products, rows, columns, k):
            heapq.heappush(best, product)
            if len(best) > k:
                heapq.heappop(best)
    return sorted(best, key=lambda p: (-p.size, p.left, p.right)), formed


@dataclass(frozen=True)
class _Tiles:
    left: Array
    right: Array

    def __iter__(self) -> Iterator[tuple[float, Indices, Indices]]:
        rows, columns = _by_length(self.left), _by_length(self.right)
        rounded = 1 + gamma(
            self.left.shape[1] + 1
        )  # a product as computed is at most so much above |left| |right|
        ends = [(a * b * rounded, r, c) for a, r in rows for b, c in columns]
        return iter(sorted(ends, key=lambda tile: -tile[0]))


def _by_length(vectors: Array) -> list[tuple[float, Indices]]:
    """Indices by descending length, in runs of TILE, each with an upper bound on its greatest length."""
    sizes = lengths(vectors)
    order = np.argsort(-sizes, kind="stable")
    return [(float(sizes[order[at]]), order[at : at + TILE]) for at in range(0, len(order), TILE)]


def _candidates(products: Array, rows: Indices, columns: Indices, k: int) -> Iterator[Product]:
    flat = np.abs(products).reshape(-1)
    chosen = np.argpartition(-flat, k - 1)[:k] if k < len(flat) else np.arange(len(flat))
    for place in chosen:
        i, j = divmod(int(place), len(columns))
        value = float(products[i, j])
        yield Product(abs(value), value, int(rows[i]), int(columns[j]))
