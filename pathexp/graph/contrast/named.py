"""Factors with the names that formulas use: W for weights, S̄ and Ā for means over two runs, κ and Λ for slopes."""

from __future__ import annotations

import numpy as np

from ...algebra import Dense, Diagonal, Identity, LinearMap, Space, add, scale
from ..factors import column
from ..operators import Array, Factor, Operator, Step


def dense(name: str, array: Array, target: str, source: str) -> Factor:
    """Return a matrix by its name, (target, source)."""
    rows, columns = array.shape
    return Factor(name, rows, columns, Dense(array, Space(target, rows), Space(source, columns), name))


def diagonal(name: str, values: Array, space: str) -> Factor:
    """Return a diagonal matrix by its name."""
    size = len(values)
    return Factor(name, size, size, Diagonal(values, Space(space, size), name))


def feature(factor: Factor) -> Operator:
    """Return a map that treats every position alike."""
    return (Step((), (factor,)),)


def centering(d: int) -> Factor:
    """Return LayerNorm's centering, I − 1 1ᵀ / d, as identity plus rank one."""
    ones = column(np.ones(d), "model", "1")
    return Factor("C", d, d, add(Identity(Space("model", d)), scale(-1.0 / d, ones @ ones.T)))


def multiplier(name: str, value: float, size: int, space: str) -> Operator:
    """Return a constant multiplier; nothing where it is one."""
    map: LinearMap = scale(value, Identity(Space(space, size)))
    return () if value == 1.0 else feature(Factor(name, size, size, map))
