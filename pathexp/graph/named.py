"""Maps and factors with the names that formulas use: W for weights, S̄ and Ā for means over two runs, κ and Λ for slopes."""

from __future__ import annotations

import numpy as np

from ..algebra import Dense, Diagonal, Identity, LinearMap, Space, add, scale
from .operators import Array, Factor, Operator, Step


def table(array: Array, target: str, source: str, name: str) -> Dense:
    """Return an array (target, source) as a map between spaces of these names."""
    return Dense(array, Space(target, array.shape[0]), Space(source, array.shape[1]), name)


def column(values: Array, space: str, name: str, source: str = "one") -> Dense:
    """Return a vector as the map that a single number is written by, (space, 1)."""
    return table(values[:, None], space, source, name)


def center(space: Space) -> LinearMap:
    """Return LayerNorm's centering, I − 1 1ᵀ / d, as identity plus rank one."""
    ones = column(np.ones(space.size), space.name, "1")
    return add(Identity(space), scale(-1.0 / space.size, ones @ ones.T))


def dense(name: str, array: Array, target: str, source: str) -> Factor:
    """Return a matrix by its name, (target, source)."""
    rows, columns = array.shape
    return Factor(name, rows, columns, table(array, target, source, name))


def diagonal(name: str, values: Array, space: str) -> Factor:
    """Return a diagonal matrix by its name."""
    size = len(values)
    return Factor(name, size, size, Diagonal(values, Space(space, size), name))


def feature(factor: Factor) -> Operator:
    """Return a map that treats every position alike."""
    return (Step((), (factor,)),)


def centering(space: Space, name: str = "C") -> Factor:
    """Return LayerNorm's centering by its name."""
    return Factor(name, space.size, space.size, center(space))


def multiplier(name: str, value: float, size: int, space: str) -> Operator:
    """Return a constant multiplier; nothing where it is one."""
    map: LinearMap = scale(value, Identity(Space(space, size)))
    return () if value == 1.0 else feature(Factor(name, size, size, map))
