"""The border at which arrays become maps: real, finite, of the right shape, wide enough to sum in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ..arguments import refuse_masked
from ..errors import SizeError, WeightsError

Array: TypeAlias = NDArray[np.float64]
"""Real numbers; float32 where a map was asked to stay in single precision."""


def real(values: ArrayLike, what: str, dtype: DTypeLike | None = None) -> Array:
    """Return values as float64, or as float32 if that is the dtype asked; half precision is upcast.

    Raises WeightsError for complex, boolean, object or text arrays, and for another dtype asked.
    """
    refuse_masked(what, values, WeightsError)
    array = np.asarray(values)
    if array.dtype.kind not in "fiu" and array.dtype.name != "bfloat16":
        raise WeightsError(
            f"{what} must hold real numbers, found dtype {array.dtype}; convert it to float64 first"
        )
    wanted = np.dtype(np.float64 if dtype is None else dtype)
    if wanted not in (np.float32, np.float64):
        raise WeightsError(f"{what} was asked for as {wanted}; sums need float64 (the default) or float32")
    return np.asarray(array, dtype=wanted)


@contextmanager
def within_range(what: str) -> Iterator[None]:
    """Raise SizeError instead of going on with infinity where a product leaves the range of floating point."""
    try:
        with np.errstate(over="raise", invalid="raise"):
            yield
    except FloatingPointError as error:
        raise SizeError(
            f"{what}: its numbers leave the range of floating point ({error}); divide its factors by powers of "
            "two, which rounds nothing"
        ) from error


def frobenius(array: Array) -> float:
    """Return the square root of the sum of squares, summed in float64, without over- or underflow."""
    values = array.astype(np.float64, copy=False)
    with np.errstate(over="ignore"):
        size = float(np.linalg.norm(values))
    if 1e-140 < size < 1e140:
        return size
    largest = float(np.max(np.abs(values), initial=0.0))
    return largest * float(np.linalg.norm(values / largest)) if largest else 0.0


def all_finite(array: Array) -> bool:
    """Return whether every number is finite: their sum is, or, where it alone overflows, each of them."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = array.sum()
    return bool(np.isfinite(total) or np.isfinite(array).all())


def checked(values: ArrayLike, shape: tuple[int, ...], what: str, dtype: DTypeLike | None = None) -> Array:
    """Return values as a read-only real array of the given shape, copied if somebody could still write to it.

    Raises WeightsError for a wrong shape or kind, and for the first entry that is not finite.
    """
    array = real(values, what, dtype)
    if array.shape != shape:
        raise WeightsError(
            f"{what} must have shape {shape}, found {array.shape}; the shape is (target, source)"
        )
    if not all_finite(array):
        finite = np.isfinite(array)
        place = tuple(int(i) for i in np.argwhere(~finite)[0])
        raise WeightsError(
            f"{what} is not finite: {array[place]} at {place}, {int((~finite).sum())} such entries in all"
        )
    if array.flags.writeable:
        array = array.copy()
        array.flags.writeable = False
    return array
