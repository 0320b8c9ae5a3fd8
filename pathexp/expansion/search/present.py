"""Covectors where they are not zero: an ending that passed no head is there at one position alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ...graph import Array, Indices
from ...workers import for_each

Present = NDArray[np.bool_]


def present(fields: Array) -> Present:
    """Return where covectors (m, n, d) are not all zeros: (m, n)."""
    return np.asarray(fields.any(axis=-1))


def at_each_position(work: Callable[[int, Indices], None], there: Present, numbers: int) -> None:
    """Call `work` with every position and the rows that are there, on all cores if `numbers` a row make it worth that."""
    positions = np.flatnonzero(there.any(axis=0))

    def at(place: int) -> None:
        position = int(positions[place])
        work(position, np.flatnonzero(there[:, position]))

    each(at, len(positions), there.size * numbers)


def by_rows(work: Callable[[Array, Indices], Array], fields: Array, width: int) -> Array:
    """Return what `work` makes of all rows (R, d) that are not zero, and of their positions (R,), in place: (m, n, width).

    `work` must make zeros of zeros.
    """
    there = present(fields)
    rows, positions = np.nonzero(there)
    found = np.zeros((*fields.shape[:2], width))

    def some(place: int) -> None:
        part = slice(place * ROWS, (place + 1) * ROWS)
        found[rows[part], positions[part]] = work(fields[rows[part], positions[part]], positions[part])

    each(some, -(-len(rows) // ROWS), len(rows) * fields.shape[2] * width)
    return found


def each(work: Callable[[int], None], count: int, cost: int) -> None:
    """Call `work` with every number below `count`, on all cores if so many multiplications are worth it."""
    if cost > WORTH:
        for_each(work, count)
        return
    for at in range(count):
        work(at)


ROWS = 512
"""How many rows one worker takes at once."""

WORTH = 2**26
"""How many multiplications are worth more than the start of a worker."""
