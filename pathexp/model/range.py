"""Numbers in range: soft-caps, and an error, with the place, where a run overflows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..errors import WeightsError

Array = npt.NDArray[np.float64]


def capped(x: Array, cap: float | None) -> Array:
    """cap · tanh(x / cap), or x where there is no cap. Gemma 2, section 2, "Logit soft-capping".

    >>> round(float(capped(np.array(124.0), 30.0)), 3)
    29.985
    """
    return x if cap is None else cap * np.tanh(x / cap)


def check_finite(array: Array, what: str, axes: str, begin: tuple[int, ...] = ()) -> None:
    """Raise WeightsError, with the place, for a number that is not finite; `begin`: the place of the array's first number."""
    if not np.isfinite(array).all():
        first = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        place = tuple(np.add(first, begin or 0).tolist())
        raise WeightsError(
            f"The run overflowed: {what} is {array[first]}, at ({axes}) = {place}. "
            "The weights are too large for double precision; rescale them."
        )
