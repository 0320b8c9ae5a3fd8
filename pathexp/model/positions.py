"""Positions that are not turned: sinusoids, slopes, and who may see whom."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


def sinusoids(n: int, d_model: int) -> Array:
    """Position vectors, (n, d_model): sines at even places, cosines at odd. Vaswani et al. 2017, section 3.5.

    >>> sinusoids(2, 4).round(4).tolist()
    [[0.0, 1.0, 0.0, 1.0], [0.8415, 0.5403, 0.01, 1.0]]
    """
    place = np.arange(d_model)
    angles = np.arange(n)[:, None] * 10000.0 ** (-(place - place % 2) / d_model)
    return np.where(place % 2 == 0, np.sin(angles), np.cos(angles))


def slopes(n_heads: int) -> Array:
    """ALiBi's slope of each head, (n_heads): powers of 2^(-8/H), and for other H the published filling.

    Press et al. 2022, "Train Short, Test Long", section 3 and its code.

    >>> slopes(4).tolist(), slopes(3).tolist()
    ([0.25, 0.0625, 0.015625, 0.00390625], [0.0625, 0.00390625, 0.25])
    """
    power = 2 ** math.floor(math.log2(n_heads))
    plain = _powers(power)
    return np.concatenate([plain, _powers(2 * power)[::2][: n_heads - power]])


def _powers(n: int) -> Array:
    powers: Array = np.exp2(-8 / n * np.arange(1, n + 1))
    return powers


def distances(queries: slice, keys: slice) -> Array:
    """How far each of some keys is from each of some queries, (query, key), never negative."""
    return np.abs(_places(queries)[:, None] - _places(keys)[None, :])


def _places(some: slice) -> Array:
    return np.arange(some.start, some.stop, dtype=np.float64)


def visible(queries: slice, keys: slice, causal: bool, window: int | None) -> Mask:
    """Whether some queries may look at some keys, (query, key): not later, if causal, and less than a window away.

    >>> visible(slice(3, 4), slice(0, 4), True, 2).tolist()
    [[False, False, True, True]]
    """
    rows, columns = queries.stop - queries.start, keys.stop - keys.start
    allowed = np.tri(rows, columns, queries.start - keys.start, dtype=bool)
    if not causal:
        allowed = np.ones((rows, columns), dtype=bool)
    return allowed if window is None else allowed & (distances(queries, keys) < window)
