"""Subspaces that maps write and read, as orthonormal bases; and how far they lie in each other, all pairs at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from ...algebra import Dense, LinearMap, compose
from ...graph import Array, frobenius_norm
from ...workers import for_each
from ..composition.gram import Flags, squared_products
from ..composition.sides import BLOCK, Side

TINY = 1e-10
"""Singular values below this share of the largest do not count as a dimension."""

ENOUGH = 4
"""So many times the stream's width of columns show that a wide map fills the stream, if it does."""


def written_basis(map: LinearMap) -> Array:
    """Return an orthonormal basis of what a map writes, (d_model, rank).

    Of a map that fills the stream it is the identity, found in O(d_model³); else that of its singular vectors.
    """
    if fills(map):
        return np.eye(map.target.size)
    vectors, values, _ = map.svd()
    return np.asarray(vectors[:, values > TINY * values.max(initial=0.0)])


def read_basis(map: LinearMap) -> Array:
    """Return an orthonormal basis of what a map reads, (d_model, rank)."""
    return written_basis(map.T)


def fills(map: LinearMap) -> bool:
    """Whether a map is shown to write in all dimensions, by a part of its columns; False says nothing.

    If the smallest singular value of some columns is above `TINY` of the norm of all, that of all is so too. It is if the Gram
    matrix minus that share has a Cholesky factor, which rounding lets appear below (d + 1) u tr (Higham 2002, §10.1).
    """
    *before, last = map.word
    d, wide = map.shape
    if not isinstance(last, Dense) or map.rank_bound < d or wide < d:
        return False
    some = compose(*before, _columns(last, ENOUGH * d)).dense()
    square = some @ some.T
    whole = frobenius_norm(compose(*map.word))
    lost = 10 * d * np.finfo(np.float64).eps * float(np.trace(square))
    if not np.isfinite(square).all():
        return False
    try:
        np.linalg.cholesky(square - (lost + (TINY * whole) ** 2) * np.eye(d))
    except np.linalg.LinAlgError:
        return False
    return True


def _columns(map: Dense, count: int) -> Dense:
    """The first columns of a matrix."""
    array = map.array[:, :count]
    return Dense(array, map.target, type(map.source)(map.source.name, array.shape[1]), map.name)


def shared(written: Mapping[str, Array], read: Mapping[str, Array], allowed: Flags) -> Array:
    """Return ‖Rᵀ W‖² of orthonormal bases W (d, r) and R (d, r) where allowed, (readers, writers); elsewhere 0.

    It is the smaller rank where one of the two fills the stream, and 0 where one is empty.
    """
    ranks = [[basis.shape[1] for basis in bases.values()] for bases in (read, written)]
    found = np.minimum(np.array(ranks[0])[:, None], np.array(ranks[1])[None, :]) * 1.0
    (rows, readers), (columns, writers) = (_sides(bases) for bases in (read, written))
    if rows and columns:
        part = np.ix_(rows, columns)
        found[part] = squared_products(readers, writers, allowed[part])
    return np.where(allowed, found, 0.0)


def given_back(writes: Array, reads: Array, bases: Mapping[str, Array]) -> Array:
    """Return tr(Uᵀ M U) / r of maps M = Wᵀ R along the subspaces of orthonormal bases U (d, r): (maps, bases).

    `writes`, `reads`: W and R of each map, (maps, h, d). NaN for an empty subspace. Only the symmetric part of M
    counts, which meets the projectors U Uᵀ entry by entry, a block of rows and columns at a time, on all cores:
    O(maps · bases · d²) beside the making of the blocks.
    """
    ranks = np.array([basis.shape[1] for basis in bases.values()], dtype=np.float64)
    found = np.repeat(np.sum(writes * reads, axis=(1, 2))[:, None], len(bases), axis=1)
    for columns, side in zip(*_grouped(bases), strict=True):
        found[:, columns] = _met(writes, reads, side.thin)
    with np.errstate(invalid="ignore"):
        return np.asarray(found / np.where(ranks > 0, ranks, np.nan))


def _met(writes: Array, reads: Array, thin: Array) -> Array:
    """tr(Uᵀ Wᵀ R U) of bases Uᵀ (bases, r, d): (maps, bases)."""
    starts = range(0, thin.shape[-1], BLOCK)[::-1]
    parts = [np.zeros((len(writes), len(thin))) for _ in starts]

    def add(at: int) -> None:
        last = slice(starts[at], starts[at] + BLOCK)
        for begin in range(0, starts[at] + 1, BLOCK):
            first = slice(begin, begin + BLOCK)
            both = _block(writes, first, reads, last) + _block(reads, first, writes, last)
            parts[at] += (0.5 if begin == starts[at] else 1.0) * (both @ _block(thin, first, thin, last).T)

    for_each(add, len(starts))
    return sum(parts[1:], start=parts[0])


def _block(left: Array, first: slice, right: Array, last: slice) -> Array:
    """Blocks of leftᵀ right as rows, (maps, block · block)."""
    made = np.swapaxes(left[:, :, first], 1, 2) @ right[:, :, last]
    return made.reshape(len(left), made.shape[1] * made.shape[2])


def _sides(bases: Mapping[str, Array]) -> tuple[list[int], list[Side]]:
    """Bases that neither fill the stream nor are empty, and where they stand among all."""
    places, sides = _grouped(bases)
    return [at for some in places for at in some], sides


def _grouped(bases: Mapping[str, Array]) -> tuple[list[list[int]], list[Side]]:
    """The same by their ranks: the places and the bases of each."""
    by_rank: dict[int, list[tuple[int, str, Array]]] = defaultdict(list)
    for at, (label, basis) in enumerate(bases.items()):
        if 0 < basis.shape[1] < basis.shape[0]:
            by_rank[basis.shape[1]].append((at, label, basis.T))
    sides = [
        Side(tuple(label for _, label, _ in some), np.stack([basis for *_, basis in some]))
        for some in by_rank.values()
    ]
    return [[at for at, *_ in some] for some in by_rank.values()], sides
