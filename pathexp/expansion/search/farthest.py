"""A bound on every path by lengths alone, for a search that ends before its sets are made: finite, and rarely near."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...graph import Array, Operator, Start
from .ends import starting_size
from .goal import Goal
from .layout import Layout
from .losses import Losses
from .rounding import finite, lengths
from .sizes import spread, tight

_LEAST = float(np.finfo(np.float64).tiny)
_UP = 1 + 1e-9
"""More than the rounding of the sums of positive numbers that make a bound."""


def farthest(layout: Layout, goal: Goal, *, quick: bool = False) -> float:
    """Return a bound on |value| over all paths that go over the stream, whatever the query, in the goal's units.

    What is lost where the target is brought to the stream is in it: numbers that cancel there leave a field of roundings.
    Lengths of beginnings grow by the spectral norms of the factors that they pass; `quick` takes Frobenius norms, which cost
    nothing beside. Costs these norms.
    """
    far = np.zeros(layout.size[0])
    for b, block in enumerate(layout.walk.graph.blocks):
        far = np.maximum(far, _starting(layout, b))
        made = [
            spread(component.operator, far) if quick else layout.carry(b, at, far)
            for at, component in enumerate(block.components)
        ]
        over = (spread if quick else tight)(block.skip, far) if block.skip else far
        far = finite(np.max([over, *made], axis=0))
    far = np.maximum(far, _starting(layout, len(layout.walk.graph.blocks)))
    with np.errstate(over="ignore", invalid="ignore"):
        most = lengths(goal.field) @ far * _UP + Losses(layout, (), (far,), ()).at_start(goal)
    least = _LEAST if np.any(far > 0) else 0.0
    return float(finite(np.asarray(most))) + least


def _starting(layout: Layout, depth: int) -> Array:
    """How long what enters the stream at a depth can be, per position."""
    n = layout.size[0]
    found = [starting_size(start, operator, n) for start, operator in _entering(layout, depth)]
    return np.asarray(np.max([np.zeros(n), *found], axis=0))


def _entering(layout: Layout, depth: int) -> Iterator[tuple[Start, Operator]]:
    """What sources write at a depth, by themselves or inside a component of the block before it."""
    graph = layout.walk.graph
    for source in graph.sources:
        if source.depth == depth:
            yield source.start, source.write
        for label, operator in source.into.items():
            if label in graph.places and graph.places[label] + 1 == depth:
                yield source.start, operator
