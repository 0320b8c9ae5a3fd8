"""Inclusions between ellipsoids, certified in floating point.

A symmetric matrix whose floating Cholesky factorization runs to the end after a shift by its rounding is positive
definite (Rump 2006, "Verification of Positive Definiteness"). It is brought to a unit diagonal by powers of two first.
"""

from __future__ import annotations

import numpy as np

from ...graph import Array
from .evaluation import Sure, gamma

SHARE = 2.0**-20
"""By which share an inner set is enlarged, so that what it may be off enters with its square."""


def holds(outer: Array, inner: Array, off: Array) -> bool:
    """Return whether an ellipsoid L Lᵀ, L (d, d), holds all B z + e with ‖z‖ ≤ 1 and |e_i| ≤ off_i: proven.

    `inner` is B Bᵀ (d, d), computed from columns whose rows are as long as its diagonal says.
    """
    d = len(outer)
    whole = outer @ outer.T
    gap = whole - (1 + SHARE) * inner
    gap[np.diag_indices(d)] -= (1 + 1 / SHARE) * d * off * off
    rows = np.diag(whole) + (1 + SHARE) * np.diag(inner) + (1 + 1 / SHARE) * d * off * off
    if not np.isfinite(gap).all() or not (rows > 0).all():
        return False
    scale = 2.0 ** -np.round(np.log2(rows) / 2)
    gap *= scale[:, None] * scale
    shift = 2 * gamma(6 * d + 1024) * float(np.sum(rows * scale * scale))
    gap[np.diag_indices(d)] -= shift
    return _positive(gap)


def _positive(matrix: Array) -> bool:
    """Whether a Cholesky factorization runs to the end."""
    try:
        return bool(np.isfinite(np.linalg.cholesky(matrix)).all())
    except np.linalg.LinAlgError:
        return False


def held(outer: Array, columns: Sure) -> bool:
    """Return whether sets L Lᵀ (n, d, d) hold, at each position, all points that columns (r, n, d) make with ‖z‖ ≤ 1."""
    inner = np.einsum("rnd,rne->nde", columns.value, columns.value)
    off = np.sqrt(np.einsum("rnd,rnd->nd", columns.off, columns.off))
    return all(map(holds, outer, inner, off))


def mixed_held(outer: Array, columns: Sure, moves: Array, moves_off: Array) -> bool:
    """Return the same for what is mixed between positions: Σ_j A_ij y_j, each y_j of columns (r, n, d) at position j.

    The sum of ellipsoids is held by Σ_j A_ij² / p_j · B_j B_jᵀ for any p_j from 0 up that add up to at most one.
    """
    inner = np.einsum("rnd,rne->nde", columns.value, columns.value)
    long = np.sqrt(np.maximum(np.einsum("ndd->n", inner), 1e-300))
    shares = np.abs(moves) * long
    weights = np.abs(moves) * shares.sum(axis=1, keepdims=True) / long * (1 + 1e-12)
    sums = np.tensordot(weights, inner, axes=1)
    rows = np.sqrt(np.einsum("rnd,rnd->nd", columns.value, columns.value))
    rows_off = np.sqrt(np.einsum("rnd,rnd->nd", columns.off, columns.off))
    off = (np.abs(moves) + moves_off) @ rows_off + moves_off @ rows
    return all(map(holds, outer, sums, off * (1 + 1e-9)))
