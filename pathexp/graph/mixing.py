"""Patterns on positions a few rows at a time, where nothing is taken from later positions: half of the numbers are zeros."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..workers import for_each

Array = NDArray[np.float64]

Seen = Literal["all", "earlier", "later"]
"""Which positions one may take something from: its own and earlier ones, its own and later ones, or all."""

OTHER_WAY: dict[Seen, Seen] = {"all": "all", "earlier": "later", "later": "earlier"}
"""What the transpose of a pattern sees."""

ROWS = 128
"""How many positions are mixed at a time."""


def is_long(positions: int) -> bool:
    """Return whether positions are mixed some at a time."""
    return positions > ROWS


def mix(patterns: Array, values: Array, seen: Seen) -> Array:
    """Return patterns (C, n, n) times values (C, n, m), on all cores where there are many rows.

    >>> pattern, values = np.tri(300)[None], np.ones((1, 300, 2))
    >>> bool((mix(pattern, values, "earlier") == pattern @ values).all())
    True
    """
    n = values.shape[1]
    if seen == "all" or not is_long(n):
        return np.asarray(patterns @ values)
    made = np.empty((len(patterns), n, values.shape[2]))

    def work(at: int) -> None:
        for rows, columns in blocks(n, seen):
            np.matmul(patterns[at, rows, columns], values[at, columns], out=made[at, rows])

    for_each(work, len(patterns))
    return made


def mix_noise(patterns: Array, noise: Array, seen: Seen = "all") -> Array:
    """Return the deviations (..., n) of independent noise (n,) mixed by patterns (..., n, n)."""
    largest = float(np.max(noise, initial=0.0)) or 1.0
    variance = (noise / largest) ** 2
    made = np.empty(patterns.shape[:-1])
    for rows, columns in blocks(len(noise), seen):
        made[..., rows] = patterns[..., rows, columns] ** 2 @ variance[columns]
    return np.asarray(largest * np.sqrt(made))


def blocks(n: int, seen: Seen) -> Iterator[tuple[slice, slice]]:
    """Yield some rows of a pattern at a time, and the columns that they see."""
    for begin in range(0, n, ROWS):
        end = min(begin + ROWS, n)
        yield slice(begin, end), slice(begin if seen == "later" else 0, end if seen == "earlier" else n)
