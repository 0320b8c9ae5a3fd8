"""Exact numbers of paths by order, as whole numbers of any size."""

from __future__ import annotations

from collections import Counter

from .stack import Indices

Counts = tuple[int, ...]
"""How many paths, by order: entry k counts those through k components."""


def added(a: Counts, b: Counts) -> Counts:
    """Return the sums, order by order."""
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    return tuple(x + y for x, y in zip(longer, shorter + (0,) * (len(longer) - len(shorter)), strict=True))


def through(steps: Indices, after: tuple[Counts, ...]) -> Counts:
    """Return the counts by order of going on through one component: by next state, how many lead there."""
    total: Counts = ()
    for target, ways in Counter(int(t) for t in steps if t >= 0).items():
        total = added(total, (0, *(ways * amount for amount in after[target])))
    return total
