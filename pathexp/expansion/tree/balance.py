"""The check that is printed with every tree: children add up to their parents, as far as rounding explains."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np

from ...answer import Check
from ...graph import Array, everything, lengths
from ...graph.kept_streams import fits
from ..header import counted
from ..tolerance import follow, following
from .frontier import ROOT
from .growth import Growth
from .noise import allowed, final_noise
from .numbers import Numbers

BLIND = 1e-4
"""A tolerance above this share of the largest child says nothing."""


def balance(growth: Growth, value: float) -> Check:
    """Return the check of the opened node where children miss their parent most, relative to the tolerance there.

    `value` is the root's.
    """
    source = "rounding of both sides, 10 standard deviations"
    what = f"children add up to their parents at {counted(len(growth.openings), 'opened node')}"
    worst = max(
        _balances(growth, value), key=lambda each: each[0] / max(each[1], 1e-300), default=(0.0, 0.0, 0.0)
    )
    error, tolerance, size = worst
    blind = tolerance > BLIND * size and error > 0
    reason = (
        f"the tolerance {tolerance:.2e} is not small beside the children (largest {size:.3g})"
        if blind
        else ""
    )
    return Check(what, error, tolerance, source, reason=reason, name="balance")


def _balances(growth: Growth, whole: float) -> Iterator[tuple[float, float, float]]:
    """Yield error, tolerance and size of the largest child of every opened node."""
    openings = growth.openings
    for (number, rank), index in growth.at.items():
        opening = openings[index]
        if (number, rank) == ROOT:
            value, own = whole, root_deviation(growth.numbers)
        else:
            child = int(openings[number].order[rank])
            value, own = float(openings[number].values[child]), float(openings[number].noise[child])
        error = abs(float(opening.values.sum()) - value)
        size = float(np.abs(opening.values).max(initial=0.0))
        yield error, allowed(own, opening.noise, opening.values), max(size, abs(whole))


def prepare(numbers: Numbers) -> None:
    """Make the rows of the root, and find the noise of the stream and what all paths add, where the check needs them, beside them.

    What blocks are made of is then made once for both. Nothing is done where streams are kept, or the sum is known.
    """
    walk = numbers.walk
    if "total" in vars(walk) or fits(walk.graph) or not _reads_all(numbers) or numbers.words.count < 2:
        return
    beside = following(walk)
    next(beside, None)
    numbers.rows(numbers.words.root.group, beside)
    deque(beside, maxlen=0)


def _reads_all(numbers: Numbers) -> bool:
    """Whether a tree is of all paths, and its target depends on all positions."""
    return numbers.walk.query == everything and numbers.positions == numbers.graph.sizes[0]


def root_deviation(numbers: Numbers) -> float:
    """Return the deviation of the rounding of the sum of all paths; of a verdict or a flow of these paths, what was found there."""
    return float(lengths(_final_noise(numbers) * lengths(numbers.reading)))


def _final_noise(numbers: Numbers) -> Array:
    walk = numbers.walk
    if _reads_all(numbers):
        found = follow(walk)
        if found is not None:
            return found.depths[-1]
    return final_noise(walk.graph, numbers.positions)
