"""How far floating point may be from exact: a-priori bounds, and lengths and scales that no range breaks.

An inner product of n numbers in a precision of unit roundoff u is off by at most γ_n Σ|x||y|, γ_n = n u / (1 − n u),
whatever the order of its additions (Higham 2002, "Accuracy and Stability of Numerical Algorithms", §3.1). What
underflows is off by an absolute amount instead, which `FLOOR` covers.
"""

from __future__ import annotations

import numpy as np

from ...graph import Array

SINGLE = float(np.finfo(np.float32).eps) / 2
"""The unit roundoff of single precision."""

DOUBLE = float(np.finfo(np.float64).eps) / 2
"""The unit roundoff of double precision."""

FLOOR = 1e-150
"""More than the length of what is lost where squares of fewer than 10⁷ numbers underflow."""


def gamma(terms: int, unit: float = DOUBLE) -> float:
    """Return γ_n for n operations, a little larger; infinite where it says nothing.

    >>> gamma(1) > 2.0**-53, gamma(2**40, 2.0**-24)
    (True, inf)
    """
    product = (terms + 2) * unit
    return product / (1 - product) if product < 0.5 else float("inf")


def lengths(vectors: Array) -> Array:
    """Return upper bounds on Euclidean lengths along the last axis; infinite where a square overflows.

    >>> bool(lengths(np.array([3e-200, 4e-200])) > 5e-200), bool(np.isnan(lengths(np.array([np.inf, np.nan]))))
    (True, False)
    """
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.sqrt(np.einsum("...r,...r->...", vectors, vectors))
    return finite(found * (1 + gamma(vectors.shape[-1])) + FLOOR)


def sizes_met(fields: Array, sizes: Array) -> Array:
    """Return Σ |r| s for covectors (m, n, d) and numbers (n, d) from 0 up: (m,); some covectors at a time."""
    step, flat = max(1, 2**20 // max(1, sizes.size)), sizes.reshape(-1)
    parts = [
        np.abs(fields[at : at + step]).reshape(-1, len(flat)) @ flat for at in range(0, len(fields), step)
    ]
    return np.concatenate(parts) * (1 + gamma(sizes.size)) if parts else np.zeros(0)


def largest(shape: Array) -> Array:
    """A bound on the largest eigenvalue of P (..., d, d), at most d^(1/8) too large and never too small."""
    d = shape.shape[-1]
    scale = np.maximum(np.trace(shape, axis1=-2, axis2=-1), np.finfo(np.float64).tiny)
    square = shape / scale[..., None, None]
    square = square @ square
    square = square @ square
    fourth = np.sqrt(np.sum(square * square, axis=(-2, -1))) * (1 + gamma(d * d)) + 4 * gamma(d)
    return np.asarray(scale * (1 + gamma(d)) * fourth**0.25)


def finite(bounds: Array) -> Array:
    """Return bounds, infinite where they are no number: what is not known bounds nothing."""
    return np.asarray(np.where(np.isnan(bounds), np.inf, bounds))


def powers(arrays: Array, axes: tuple[int, ...]) -> Array:
    """Return the power of two just above the largest entry along some axes, kept as ones; 1 where all are zero.

    Division by it rounds nothing but what underflows.
    """
    above, below = (most(arrays, axis=axes, keepdims=True, initial=0.0) for most in (np.max, np.min))
    largest = np.maximum(above, -below)
    exponents = np.frexp(largest)[1]
    return np.asarray(np.where(largest > 0, np.ldexp(1.0, np.minimum(exponents, 1023)), 1.0))
