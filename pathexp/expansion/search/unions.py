"""The union of an ellipsoid with several more at one position, and how much rounding can have spoiled it.

All of it happens in coordinates in which the set so far is the unit ball. Write N = I + Z₊ (Λ − 1) Z₊ᵀ for the set grown by a
part R, with Rᵀ R = V Λ Vᵀ, Z = R V max(Λ, 1)^(−1/2) and Z₊ its columns with λ > 1. If Zᵀ Z were exactly diagonal, N would hold
R Rᵀ, and T = I − Z₊ (1 − Λ^(−1/2)) Z₊ᵀ would make N the unit ball again. By how much Zᵀ Z, V, the solve and the products are
off is computed, and `growth` and `off` make up for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from ...graph import Array
from .enclosing import Shell, enclosing
from .rounding import gamma, largest

WIDE = 256
"""From how many columns on a part is enclosed by a shell (`enclosing`) instead of by all of its axes."""

PANEL = 48
"""How many rows of a triangle are worked on at once."""

PAD = 2.0**-18
"""By which share a set grows so that what is lost need be added at its square only."""


@dataclass(frozen=True, eq=False)
class Union:
    """Columns C such that growth · (L Lᵀ + C Cᵀ) + (2 off)² / PAD · I holds L Lᵀ and all parts."""

    columns: Array
    growth: float
    off: float


def kind(part: Array) -> int:
    """Return in which order parts go in: the wide ones first, as only what comes first is enclosed by a shell, single points last."""
    width = part.shape[-1]
    return 0 if width >= WIDE else 2 if width == 1 else 1


def union(triangle: Array, parts: Sequence[Array]) -> Union:
    """The union of L Lᵀ, L (d, d), and every part B (d, r).

    A wide part is enclosed by a shell only while nothing has been turned: a shell's columns are in the coordinates it was
    guessed in. All others grow by combinations of their own columns, wherever those are.
    """
    rounded, off = solved(triangle, np.concatenate(parts, axis=-1))
    squares = np.einsum("dr,dr->r", rounded, rounded)
    grown, growth, turned = [], 1.0, False
    for part in parts:
        width = part.shape[-1]
        first, rounded = np.ascontiguousarray(rounded[:, :width]), rounded[:, width:]
        squares = squares[width:]
        around = 2 * sqrt(float(squares.sum()))
        shell = enclosing(first) if width >= WIDE and not turned and not np.vdot(first, first) <= 1 else None
        if shell is None:
            added = _by_axes(part, first, rounded, around)
        else:
            added = _by_shell(triangle, shell, rounded, around)
        turned = turned or added.columns.shape[1] > 0
        grown.append(added.columns)
        growth, off = growth * added.growth, off + added.off
    return Union(np.concatenate(grown, axis=-1), growth, off)


def _by_shell(triangle: Array, shell: Shell, rest: Array, around: float) -> Union:
    """The columns of a shell, in the coordinates of the set that all started from."""
    apart = shell.axes.T @ shell.axes
    apart[np.diag_indices(len(apart))] -= 1.0
    lost = _turn(shell.axes, shell.sizes, rest, around)
    growth = shell.growth * _over(1.0, _bent(apart, shell.sizes, len(triangle))) * lost
    off = gamma(len(triangle)) * _size(triangle) * _size(shell.columns)
    return Union(triangle @ shell.columns, growth, off)


def _by_axes(part: Array, first: Array, rest: Array, around: float) -> Union:
    """Combinations of a part's own columns, along its axes that exceed the ball: of B, where `first` is what B = L X is by now."""
    if np.vdot(first, first) <= 1:
        return _nothing(part)
    gram = first.T @ first
    if 1 < len(gram) < WIDE and largest(gram) + gamma(len(part)) * np.trace(gram) <= 1:
        return _nothing(part)
    sizes, vectors = np.linalg.eigh(gram)
    over = sizes > 1
    axes = first @ (vectors / np.sqrt(np.maximum(sizes, 1)))
    growth = _growth(first, sizes, vectors, axes)
    sizes, vectors, axes = sizes[over], vectors[:, over], axes[:, over]
    chosen = vectors * np.sqrt(1 - 1 / sizes)
    lost = _turn(axes, sizes, rest, around)
    off = gamma(len(part)) * part.shape[-1] ** 0.5 * _size(part)
    return Union(part @ chosen, growth * lost, off)


def _nothing(part: Array) -> Union:
    """What a part adds that is inside already."""
    return Union(np.zeros((len(part), 0)), 1 + PAD, 0.0)


def _turn(axes: Array, sizes: Array, rest: Array, around: float) -> float:
    """Bring later parts, in place, to where the ball grown along axes (d, m) to `sizes` is a ball again.

    Returns by how much to grow for rounding. No part gets longer by it: all of them are at most `around` long, in norm.
    """
    if not rest.shape[-1] or not len(sizes):
        return 1.0
    along = (1 - 1 / np.sqrt(sizes))[:, None] * (axes.T @ rest)
    rest -= axes @ along
    return _made_up(2 * gamma(len(axes) + len(sizes)) * (1 + float(np.vdot(axes, axes))) * around)


def _growth(first: Array, sizes: Array, vectors: Array, axes: Array) -> float:
    """By how much a set must grow because axes are not quite orthogonal: the part is in it, and T N T is the ball."""
    d, width = first.shape
    apart = axes.T @ axes
    apart[np.diag_indices(width)] -= np.minimum(np.maximum(sizes, 0.0), 1.0)
    turned = vectors.T @ vectors
    turned[np.diag_indices(width)] -= 1.0
    held = _size(apart) + gamma(d) * width
    unturned = _size(turned) + gamma(width) * width
    lost = 2 * gamma(width) * np.sqrt(width) * float(np.linalg.norm(first)) * (1 + unturned)
    return _over(_over(1 + held, unturned), _bent(apart, sizes, d)) * _made_up(lost)


def _bent(apart: Array, sizes: Array, d: int) -> float:
    """How far T N T is from the ball at most, in norm, if the products of axes are `apart` from what they should be."""
    held = _size(apart) + gamma(d) * len(apart)
    steep = np.where(sizes > 1, np.sqrt(np.maximum(sizes - 1, 0.0)), 0.0)
    tilt = _size(apart * steep) + gamma(d) * np.sqrt(len(apart)) * float(np.linalg.norm(steep))
    return float((held + 2 * tilt + tilt * tilt) * (1 + held))


def _size(matrix: Array) -> float:
    return sqrt(float(np.vdot(matrix, matrix)))


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
    found, squares, before = np.empty_like(columns), 0.0, 0.0
    for at in range(0, len(triangle), PANEL):
        rows = slice(at, at + PANEL)
        left, corner = triangle[rows, :at], triangle[rows, rows]
        rest = columns[rows] - left @ found[:at]
        inverse = np.asarray(np.linalg.inv(corner), dtype=np.float64)
        found[rows] = inverse @ rest
        subtracting = gamma(at + 2) * (_size(left) * sqrt(before) + _size(columns[rows]))
        off = _solving(corner, inverse) * _size(rest) + subtracting
        squares += off * off
        before += float(np.vdot(found[rows], found[rows]))
    return found, sqrt(squares) * (1 + 1e-9)


def _solving(corner: Array, inverse: Array) -> float:
    """How far L (L⁻¹ b) is from b at most, for a corner and its computed inverse, as a share of b."""
    wide = len(corner)
    apart = corner @ inverse
    apart[np.diag_indices(wide)] -= 1.0
    return _size(apart) + 2 * gamma(2 * wide) * _size(corner) * _size(inverse)
