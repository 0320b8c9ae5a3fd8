"""Matrices of files in double precision: some rows at a time, on all cores, each number looked at while it is in the cache."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ...budget import BUFFERS
from ...workers import for_each
from .checkpoint import Checkpoint, Shape

Array = npt.NDArray[np.float64]

AT_ONCE = 2**17
"""How many numbers are raised at a time; a matrix of no more is raised whole."""


def raised(checkpoint: Checkpoint, name: str, begin: int, end: int, row: Shape) -> tuple[Array, bool]:
    """Return some rows of a tensor, of a shape each, as float64, and whether every number is finite."""
    made = BUFFERS.array((end - begin, *row))
    step = max(1, AT_ONCE // max(1, math.prod(row)))
    finite: list[bool] = []

    def work(at: int) -> None:
        first = begin + at * step
        rows = checkpoint.rows(name, first, min(first + step, end))
        finite.append(bool(np.isfinite(rows).all()))
        made[at * step : at * step + len(rows)] = rows

    pieces = -(-len(made) // step)
    if pieces == 1:
        work(0)
    else:
        for_each(work, pieces)
    return made, all(finite)
