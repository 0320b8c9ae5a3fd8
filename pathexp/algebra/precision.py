"""Maps in double precision: of what keeps single precision, the numbers themselves, which rounds nothing."""

from __future__ import annotations

import numpy as np

from .composites import Chain, Kron, Scaled, Sum
from .maps import Dense, Diagonal, LinearMap


def in_double(map: LinearMap) -> LinearMap:
    """Return a map whose products are in double precision: itself, unless a part of it keeps single precision.

    >>> from pathexp.algebra import Space
    >>> single = Dense(np.ones((1, 1), np.float32), Space("a", 1), Space("b", 1), "W", dtype=np.float32)
    >>> double = in_double(single)
    >>> double.dense().dtype, in_double(double) is double
    (dtype('float64'), True)
    """
    match map:
        case Dense(array=array) if array.dtype != np.float64:
            return Dense(array, map.target, map.source, map.name)
        case Diagonal(values=values) if values.dtype != np.float64:
            return Diagonal(values, map.space, map.name)
        case Scaled(factor=factor, map=inner) if (raised := in_double(inner)) is not inner:
            return Scaled(factor, raised)
        case Chain(factors=parts) if (all_raised := _all(parts)) is not parts:
            return Chain(all_raised)
        case Sum(terms=parts) if (all_raised := _all(parts)) is not parts:
            return Sum(all_raised)
        case Kron(left=left, right=right) if (sides := _all((left, right))) != (left, right):
            return Kron(sides[0], sides[1])
    return map


def _all(maps: tuple[LinearMap, ...]) -> tuple[LinearMap, ...]:
    """Maps in double precision; the same tuple where all are."""
    raised = tuple(in_double(map) for map in maps)
    return maps if all(one is other for one, other in zip(raised, maps, strict=True)) else raised
