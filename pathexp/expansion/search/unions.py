"""The union of an ellipsoid with several more at one position, and how much rounding can have spoiled it.

All of it happens in coordinates in which the set so far is the unit ball. Write N = I + Z₊ (Λ − 1) Z₊ᵀ for the set grown by a
part R, with Rᵀ R = V Λ Vᵀ, Z = R V max(Λ, 1)^(−1/2) and Z₊ its columns with λ > 1. If Zᵀ Z were exactly diagonal, N would hold
R Rᵀ, and T = I − Z₊ (1 − Λ^(−1/2)) Z₊ᵀ would make N the unit ball again. By how much Zᵀ Z, V, the solve and the products are
off is computed, and `growth` and `off` make up for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...graph import Array
from .rounding import gamma

PANEL = 64
"""How many rows of a triangle are worked on at once."""

PAD = 2.0**-18
"""By which share a set grows so that what is lost need be added at its square only."""


@dataclass(frozen=True, eq=False)
class Union:
    """Columns C such that growth · (L Lᵀ + C Cᵀ) + (2 off)² / PAD · I holds L Lᵀ and all parts."""

    columns: Array
    growth: float
    off: float


def union(triangle: Array, parts: Sequence[Array]) -> Union:
    """The union of L Lᵀ, L (d, d), and every part B (d, r)."""
    rounded, off = solved(triangle, np.concatenate(parts, axis=-1))
    grown, growth = [], 1.0
    for part in parts:
        chosen, rounded, worse = _taken(rounded, part.shape[-1])
        grown.append(part @ chosen)
        growth *= worse
    columns = np.concatenate(grown, axis=-1)
    lost = gamma(len(triangle)) * sum(part.shape[-1] ** 0.5 * _size(part) for part in parts)
    return Union(columns, growth, off + lost)


def _taken(rounded: Array, width: int) -> tuple[Array, Array, float]:
    """What of the first part must be added, as combinations of its columns; the others as they are then; the growth."""
    first, rest = np.ascontiguousarray(rounded[:, :width]), rounded[:, width:]
    if np.vdot(first, first) <= 1:
        return np.zeros((width, 0)), rest, 1 + PAD
    sizes, vectors = np.linalg.eigh(first.T @ first)
    over = sizes > 1
    axes = first @ (vectors / np.sqrt(np.maximum(sizes, 1)))
    growth = _growth(first, sizes, vectors, axes)
    sizes, vectors, axes = sizes[over], vectors[:, over], axes[:, over]
    chosen = vectors * np.sqrt(1 - 1 / sizes)
    if not rest.shape[-1] or not len(sizes):
        return chosen, rest, growth
    along = (1 - 1 / np.sqrt(sizes))[:, None] * (axes.T @ rest)
    lost = 2 * gamma(len(axes) + len(sizes)) * (1 + float(np.vdot(axes, axes))) * float(np.linalg.norm(rest))
    return chosen, rest - axes @ along, growth * _made_up(lost)


def _growth(first: Array, sizes: Array, vectors: Array, axes: Array) -> float:
    """By how much a set must grow because axes are not quite orthogonal: the part is in it, and T N T is the ball."""
    d, width = first.shape
    apart = axes.T @ axes
    apart[np.diag_indices(width)] -= np.minimum(np.maximum(sizes, 0.0), 1.0)
    turned = vectors.T @ vectors
    turned[np.diag_indices(width)] -= 1.0
    rounding = gamma(d) * width
    held = _size(apart) + rounding
    unturned = _size(turned) + gamma(width) * width
    steep = np.where(sizes > 1, np.sqrt(np.maximum(sizes - 1, 0.0)), 0.0)
    tilt = _size(apart * steep) + gamma(d) * np.sqrt(width) * float(np.linalg.norm(steep))
    bent = (held + 2 * tilt + tilt * tilt) * (1 + held)
    lost = 2 * gamma(width) * np.sqrt(width) * float(np.linalg.norm(first)) * (1 + unturned)
    return _over(_over(1 + held, unturned), bent) * _made_up(lost)


def _size(matrix: Array) -> float:
    return float(np.linalg.norm(matrix))


def _over(size: float, lost: float) -> float:
    """A size over what is left of one after a loss: infinite if too much is lost, or nobody knows how much."""
    return size / (1 - lost) if lost < 0.5 else float("inf")


def _made_up(lost: float) -> float:
    """By how much a set that holds the unit ball must grow if columns are off by at most `lost`, in three places."""
    square = lost * lost / PAD
    more = 1 + PAD + 2 * square
    return _over(more * more, PAD + square)


def solved(triangle: Array, columns: Array) -> tuple[Array, float]:
    """L⁻¹ B for a lower triangle L (d, d) and B (d, r), and a bound on ‖B − L X‖ for what was computed.

    Panel by panel: products, and small inverses.
    """
    found, squares = np.empty_like(columns), 0.0
    for at in range(0, len(triangle), PANEL):
        rows = slice(at, at + PANEL)
        rest = columns[rows] - triangle[rows, :at] @ found[:at]
        corner = triangle[rows, rows]
        inverse = np.asarray(np.linalg.inv(corner), dtype=np.float64)
        found[rows] = inverse @ rest
        off = _residual(corner, inverse, rest, triangle[rows, :at], found[:at], columns[rows])
        squares += off * off
    return found, float(np.sqrt(squares)) * (1 + 1e-9)


def _residual(corner: Array, inverse: Array, rest: Array, left: Array, found: Array, columns: Array) -> float:
    """How far one panel's rows of L X are from those of B, at most."""
    wide = len(corner)
    around = _size(corner) * _size(inverse)
    solving = (_size(corner @ inverse - np.eye(wide)) + 2 * gamma(2 * wide) * around) * _size(rest)
    return float(solving + gamma(left.shape[1] + 2) * (_size(left) * _size(found) + _size(columns)))
