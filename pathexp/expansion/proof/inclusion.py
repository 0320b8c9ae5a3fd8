"""Inclusions between ellipsoids, certified in floating point.

A symmetric matrix whose floating Cholesky factorization runs to the end after a shift by its rounding is positive
definite (Rump 2006, "Verification of Positive Definiteness"). It is brought to a unit diagonal by powers of two first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...graph import Array
from .evaluation import Sure, gamma

SHARES = tuple(2.0**-power for power in (17, 14, 11, 8, 5))
"""By which shares an inner set may be enlarged, so that what it may be off enters with its square: the smallest that does."""


def holds(outer: Array, inner: Array, off: Array) -> bool:
    """Return whether an ellipsoid L Lᵀ, L (d, d), holds all B z + e with ‖z‖ ≤ 1 and |e_i| ≤ off_i: proven.

    `inner` is B Bᵀ (d, d), computed from columns whose rows are as long as its diagonal says.
    """
    whole = outer @ outer.T
    if not np.isfinite(whole).all() or not np.isfinite(off).all():
        return False
    shares = SHARES if off.any() else SHARES[:1]
    return any(_holds(whole, inner, off, share) for share in shares)


def _holds(whole: Array, inner: Array, off: Array, share: float) -> bool:
    """The same for P = L Lᵀ: (B z + e)(B z + e)ᵀ is at most (1 + share) B Bᵀ + (1 + 1/share) e eᵀ."""
    d = len(whole)
    gap = whole - (1 + share) * inner
    lost = (1 + 1 / share) * (np.sum(off * off) if off.max(initial=0.0) < 2 * off.min() else d * off * off)
    gap[np.diag_indices(d)] -= lost
    rows = np.diag(whole) + (1 + share) * np.diag(inner) + lost
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
    inner = _shape(columns)
    off = np.sqrt(np.einsum("rnd,rnd->nd", columns.off, columns.off))
    return all(map(holds, outer, inner, off))


def _shape(columns: Sure) -> Array:
    """B Bᵀ at each position, of columns (r, n, d)."""
    return np.asarray(columns.value.transpose(1, 2, 0) @ columns.value.transpose(1, 0, 2))


def sizes_of(parts: Sequence[Sure]) -> Array:
    """Return how large parts of columns (r, n, d) are at each position: (parts, n)."""
    return np.sqrt([np.einsum("rnd,rnd->n", part.value, part.value) for part in parts])


def sum_held(outer: Array, parts: Sequence[Sure], sizes: Array) -> bool:
    """Return the same for Σ_j y_j, each y_j of columns (r, n, d): what is mixed between positions.

    The sum of ellipsoids is held by Σ_j B_j B_jᵀ / p_j for any p_j above 0 that add up to at most one; here they go with
    `sizes` (parts, n). What has no size must be nothing.
    """
    inner = list(map(_shape, parts))
    if any(np.any(part.value[:, size <= 0]) for part, size in zip(parts, sizes, strict=True)):
        return False
    total = sizes.sum(axis=0) * (1 + 1e-12)
    weights = np.divide(total, sizes, out=np.zeros_like(sizes), where=sizes > 0)
    sums = np.sum(
        [weight[:, None, None] * shape for weight, shape in zip(weights, inner, strict=True)], axis=0
    )
    off = np.sum([np.sqrt(np.einsum("rnd,rnd->nd", part.off, part.off)) for part in parts], axis=0)
    return all(map(holds, outer, sums, off * (1 + 1e-9)))
