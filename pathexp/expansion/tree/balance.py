"""The check that is printed with every tree: children add up to their parents, as far as rounding explains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ...answer import Check
from ...graph import lengths
from .frontier import ROOT
from .noise import allowed, final_noise

if TYPE_CHECKING:
    from .tree import Tree

BLIND = 1e-4
"""A tolerance above this share of the largest child says nothing."""


def balance(tree: Tree) -> Check:
    """Return the check of the opened node where children miss their parent most, relative to the tolerance there."""
    source = "rounding of both sides, 10 standard deviations"
    what = f"children add up to their parents at {tree.nodes:,} opened nodes"
    worst = max(_balances(tree), key=lambda each: each[0] / max(each[1], 1e-300), default=(0.0, 0.0, 0.0))
    error, tolerance, size = worst
    blind = tolerance > BLIND * size and error > 0
    reason = (
        f"the tolerance {tolerance:.2e} is not small beside the children (largest {size:.3g})"
        if blind
        else ""
    )
    return Check(what, error, tolerance, source, reason=reason, name="balance")


def _balances(tree: Tree) -> Iterator[tuple[float, float, float]]:
    """Yield error, tolerance and size of the largest child of every opened node."""
    openings = tree.growth.openings
    for (number, rank), index in tree.growth.at.items():
        opening = openings[index]
        if (number, rank) == ROOT:
            value, own = tree.value, root_deviation(tree)
        else:
            child = int(openings[number].order[rank])
            value, own = float(openings[number].values[child]), float(openings[number].noise[child])
        error = abs(float(opening.values.sum()) - value)
        size = float(np.abs(opening.values).max(initial=0.0))
        yield error, allowed(own, opening.noise, opening.values), max(size, abs(tree.value))


def root_deviation(tree: Tree) -> float:
    """Return the deviation of the rounding of the sum of all paths."""
    numbers = tree.growth.numbers
    noise = final_noise(numbers.graph, numbers.positions)
    return float(lengths(noise * lengths(numbers.reading)))
