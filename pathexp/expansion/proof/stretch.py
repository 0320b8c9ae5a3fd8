"""How much longer an operator can make vectors: norms of whole products, where absolute values of their factors say too much.

In a trained model what is lost before twenty components grows a thousand times as fast by absolute values as it can: each factor's
numbers are of either sign. ‖M‖⁸ is at most the sum of the eighth powers of all singular values (Schatten's 8-norm), which is
the square of (M Mᵀ)² in Frobenius' norm: two products of a matrix.
"""

from __future__ import annotations

import numpy as np

from ...graph import Array, Gate, Operator, Step, is_local
from .evaluation import UP, absolute, applied, bounding, gamma, long, lost
from .images import compressed, factors_of


def stretch(operator: Operator, positions: int, width: int) -> Array | None:
    """Return how much longer vectors can be behind an operator, (positions behind, positions before); None if only its parts are known.

    Costs its matrix at every position and two products of that; of an operator that mixes positions a matrix as narrow as it.
    """
    if is_local(operator) and all(isinstance(part, Step | Gate) for part in operator):
        eyes = np.broadcast_to(np.eye(width)[:, None], (width, positions, width))
        matrices = applied(operator, eyes).transpose(1, 0, 2)
        return np.diag(bounding(_norms(matrices) + _off(operator, positions, width)))
    if len(operator) == 1 and isinstance(step := operator[0], Step):
        alone = (Step((), step.feature),)
        norm = bounding(_norms(_narrow(step, width)) + _off(alone, 1, width)[0])
        return np.asarray(_amounts(step, positions) * norm * UP)
    return None


def _off(operator: Operator, positions: int, width: int) -> Array:
    """How far the matrices of a product, as computed, are from it, in Frobenius' norm: (positions,)."""
    return long(lost(operator, np.ones((positions, width))))


def _narrow(step: Step, width: int) -> Array:
    """Rows that are at least as long as the feature word of a step makes any vector."""
    rows = np.eye(width)
    for factor in reversed(step.feature):
        for map in reversed(factors_of(factor.numbers())):
            rows = compressed(np.asarray(map.apply(rows)))
    return rows


def _amounts(step: Step, positions: int) -> Array:
    """How much a step takes of every position at most, (n, n)."""
    sized = np.eye(positions)
    for factor in reversed(step.position):
        sized = absolute(factor.numbers()) @ sized
    return sized * UP


def _norms(matrices: Array) -> Array:
    """Bounds on the norms of matrices (..., m, d)."""
    whole = long(matrices.reshape(*matrices.shape[:-2], -1))
    unit = matrices / np.where(whole > 0, whole, 1.0)[..., None, None]
    if unit.shape[-2] > unit.shape[-1]:
        unit = np.swapaxes(unit, -1, -2)
    square = unit @ np.swapaxes(unit, -1, -2)
    fourth = square @ np.swapaxes(square, -1, -2)
    size, wide = unit.shape[-2:]
    eighth = np.sqrt(np.einsum("...ij,...ij->...", fourth, fourth)) * UP + gamma(size)
    return bounding(np.asarray(whole * np.sqrt(np.sqrt(eighth) + gamma(wide)) * UP))
