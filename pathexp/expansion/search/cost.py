"""About what a search will cost, before it begins: operations counted from shapes, at the rate of this machine.

What is counted is the making of the reachable sets, which most of a search's time goes into where there are MLPs. How many
endings of paths a search keeps depends on the run's numbers, so that no count of shapes can say how long it takes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from ...graph import Walk, cost
from .layout import Heads, Layout
from .norms import norms_fit
from .single import Single
from .tables import tables

EIGEN = 10
"""Operations of a symmetric eigendecomposition of a w × w matrix over w³, at the rate of products: it runs at a fraction of it."""

SPREAD = 2.0
"""By which factor a machine that does other things as well may miss an estimate, either way."""

CALLS = 0.5e-3
"""Seconds that one block takes at one position whatever its size."""


@dataclass(frozen=True)
class SearchCost:
    """An estimate: `operations` that sets take at `places` (blocks × positions), and `rate`, operations per second.

    `norms`: whether norms are tried first, which may do without sets. `kept` says that the sets are there already, from an earlier search.
    """

    operations: float
    places: int
    rate: float
    norms: bool
    kept: bool

    @property
    def seconds(self) -> tuple[float, float]:
        """Between what times the sets will likely be made."""
        middle = self.operations / self.rate + CALLS * self.places
        return middle / SPREAD, middle * SPREAD

    def __str__(self) -> str:
        after = "the search itself takes seconds to many minutes, depending on the run's numbers"
        if self.kept:
            return f"the reachable sets are there from before; {after}"
        first = "norms alone may prove it in seconds; else " if self.norms else ""
        counted = f"{self.operations:.1e} operations at {self.rate / 1e9:.0f} per ns"
        return f"{first}reachable sets take {self._between()} (an estimate: {counted}); then {after}"

    def _between(self) -> str:
        low, high = self.seconds
        return "less than a second" if high < 1 else f"about {_rounded(low)} to {_rounded(high)} s"


def _rounded(seconds: float) -> str:
    return f"{seconds:.1f}" if seconds < 10 else f"{float(f'{seconds:.2g}'):,.0f}"


def search_cost(walk: Walk) -> SearchCost:
    """Return about what a search among a walk's paths will cost. Measures the rate of products for some hundredths of a second."""
    known = tables(walk)
    operations = 0.0 if known.has_sets else sets_operations(known.layout)
    places = len(walk.graph.blocks) * walk.graph.sizes[0]
    return SearchCost(operations, places, rate(walk.graph.sizes[1]), norms_fit(known.layout), known.has_sets)


def rate(width: int) -> float:
    """Return how many operations per second products of width × width matrices run at, in double precision."""
    matrix, times = np.ones((width, width)), []
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(repeats := max(1, 10**7 // width**3)):
            matrix @ matrix
        times.append((time.perf_counter() - start) / repeats)
    return 2 * width**3 / min(times)


def sets_operations(layout: Layout) -> float:
    """Return about how many operations the reachable sets take: those of every block, at each position and live state."""
    n, d = layout.size
    blocks = zip(layout.heads, layout.singles, layout.walk.live[1:], strict=True)
    return n * sum(len(states) * _block(d, heads, singles) for heads, singles, states in blocks)


def _block(d: int, stacks: tuple[Heads, ...], singles: tuple[Single, ...]) -> float:
    """Operations of one block at one position: triangles, images, and the union with every part of a width."""
    widths = [heads.width for heads in stacks for _ in heads.members] + [d] * len(singles)
    images = sum(2 * d * heads.width * (d + 4 * heads.width) * len(heads.members) for heads in stacks)
    images += sum(2 * d * cost(single.operator) + d**3 for single in singles)
    return d**3 / 3 + images + sum(_union(d, width, sum(widths[at:])) for at, width in enumerate(widths))


def _union(d: int, width: int, left: int) -> float:
    """Operations of the union with one part: solve, Gram matrices, eigenvectors, the parts that are left, the ball."""
    return 3 * d * d * width + 6 * d * width**2 + EIGEN * width**3 + 4 * d * width * left
