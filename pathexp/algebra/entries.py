"""Single entries, rows, columns and the diagonal of a map, read off its factors."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral

import numpy as np

from ..errors import SpaceError
from .arrays import Array, within_range
from .composites import Chain, Kron, Scaled, Sum
from .maps import Dense, Diagonal, LinearMap
from .operations import waist


def column(map: LinearMap, index: int) -> Array:
    """Return one column, shape (target,): the image of one source coordinate.

    Costs the chain's apply without its rightmost factor. Raises SpaceError if there is no such column.
    """
    j = _place(map, "column", index, map.source.size)
    match map:
        case Dense():
            return np.array(map.array[:, j])
        case Scaled():
            return map.factor * column(map.map, j)
        case Sum():
            return np.asarray(np.sum([column(term, j) for term in map.terms], axis=0))
        case Chain():
            return _through(map.factors[:-1], column(map.factors[-1], j))
        case Kron():
            left, right = divmod(j, map.right.source.size)
            return _kron(column(map.left, left), column(map.right, right))
    one_hot = np.zeros(map.source.size)
    one_hot[j] = 1.0
    return map.apply(one_hot)


def row(map: LinearMap, index: int) -> Array:
    """Return one row, shape (source,): how one target coordinate reads the source.

    Raises SpaceError if there is no such row.
    """
    return column(map.T, _place(map, "row", index, map.target.size))


def entry(map: LinearMap, i: int, j: int) -> float:
    """Return the entry of target coordinate i and source coordinate j; SpaceError if there is none."""
    _place(map, "row", i, map.target.size)
    _place(map, "column", j, map.source.size)
    match map:
        case Scaled():
            return map.factor * entry(map.map, i, j)
        case Sum():
            return sum(entry(term, i, j) for term in map.terms)
        case Kron():
            (a, b), (c, d) = divmod(i, map.right.target.size), divmod(j, map.right.source.size)
            return entry(map.left, a, c) * entry(map.right, b, d)
        case Chain() if len(map.factors) > 1:
            start = _through(map.factors[1:-1], column(map.factors[-1], j))
            with within_range(map.formula):
                return float(row(map.factors[0], i) @ start)
    return float(column(map, j)[i])


def diagonal(map: LinearMap) -> Array:
    """Return the diagonal of a square map, shape (size,), through the smallest waist.

    Raises SpaceError if target and source differ in size.
    """
    rows, columns = map.shape
    if rows != columns:
        raise SpaceError(f"diagonal asked of {map.formula}, which is {rows} × {columns}, not square")
    match map:
        case Dense():
            return np.array(np.diagonal(map.array))
        case Diagonal():
            return np.array(map.values)
        case Scaled():
            return map.factor * diagonal(map.map)
        case Sum():
            return np.asarray(np.sum([diagonal(term) for term in map.terms], axis=0))
        case Kron() if map.left.shape[0] == map.left.shape[1]:
            return _kron(diagonal(map.left), diagonal(map.right))
    left, right = waist(map)
    with within_range(map.formula):
        return np.asarray(np.einsum("ir,ri->i", left, right))


def _kron(left: Array, right: Array) -> Array:
    return np.asarray(np.kron(left, right), dtype=np.float64)


def _through(factors: Sequence[LinearMap], x: Array) -> Array:
    for factor in reversed(factors):
        x = factor.apply(x)
    return x


def _place(map: LinearMap, what: str, index: int, size: int) -> int:
    if not isinstance(index, Integral) or isinstance(index, bool) or not 0 <= index < size:
        raise SpaceError(f"{what} {index!r:.40} asked of {map!r}; its {what}s are 0 to {size - 1}")
    return int(index)
