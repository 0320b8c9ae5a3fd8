"""Lengths of vectors and norms of maps, without over- or underflow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..workers import one_thread

Array = NDArray[np.float64]


def lengths(x: Array) -> Array:
    """Return Euclidean lengths along the last axis, without over- or underflow."""
    with np.errstate(over="ignore", under="ignore"):
        squares = np.asarray(np.einsum("...i,...i->...", x, x))
    if _kept_all(squares, x, -1):
        return np.asarray(np.sqrt(squares))
    largest = np.max(np.abs(x), axis=-1, initial=0.0, keepdims=True)
    scaled = np.divide(x, largest, out=np.zeros_like(x), where=largest > 0)
    return np.asarray(largest[..., 0] * np.sqrt(np.sum(scaled * scaled, axis=-1)))


def lengths_along(array: Array, axis: int) -> Array:
    """Return the lengths of a matrix's columns (axis 0) or rows (axis 1)."""
    with np.errstate(over="ignore", under="ignore"):
        squares = np.einsum("ij,ij->j" if axis == 0 else "ij,ij->i", array, array)
    if _kept_all(squares, array, axis):
        return np.asarray(np.sqrt(squares))
    return lengths(array.T if axis == 0 else array)


def _kept_all(squares: Array, array: Array, axis: int) -> bool:
    """Whether sums of squares along an axis lost nothing at the ends of the range of double precision."""
    inside = in_range(squares)
    return bool(inside.all()) or bool((inside | (squares == 0) & ~array.any(axis)).all())


def in_range(squares: Array) -> Array:
    """Return which sums of squares are far from the ends of the range of double precision, and above zero."""
    return np.asarray((squares > _LEAST) & (squares < 1 / _LEAST))


_LEAST = 1e-200
"""Squares below this, or above its inverse, may have lost something at the ends of the range of double precision."""


def product_norm(left: Array, right: Array) -> Array:
    """Frobenius norms of products left · right, (..., d, r) and (..., r, d), by Gram matrices of their narrow sides.

    Extreme sizes are taken out first. Small by cancellation, a norm is known to 1e-8 of its factors' norms: enough
    for noise.
    """
    (left, size), (right, other) = _sized(left), _sized(right)
    with one_thread():  # threads of BLAS wait for each other in products as small as these
        outer, inner = np.swapaxes(left, -1, -2) @ left, right @ np.swapaxes(right, -1, -2)
    return np.asarray(size * other * np.sqrt(np.maximum(np.sum(outer * inner, axis=(-1, -2)), 0.0)))


def _sized(arrays: Array) -> tuple[Array, Array]:
    """Matrices over their largest entries, and these, where one is extreme; else as they are, and ones."""
    largest = np.maximum(arrays.max(axis=(-1, -2), initial=0.0), -arrays.min(axis=(-1, -2), initial=0.0))
    sizes = np.where((largest > 0) & ((largest < _EXTREME**-1) | (largest > _EXTREME)), largest, 1.0)
    return (arrays if (sizes == 1.0).all() else arrays / sizes[..., None, None]), sizes


_EXTREME = 1e50
