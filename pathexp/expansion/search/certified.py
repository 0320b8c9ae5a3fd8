"""The largest paths with a certificate: a beam for a first threshold, then one exact sweep above it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...graph import Array, Walk
from .budget import Budget
from .entries import SINK
from .found import Best, Suffixes
from .reach import ROOM, Bounds, Reach
from .sweep import Sweep
from .tables import Tables, tables

BEAM = 8
"""How many suffixes per block the narrowest beam keeps; wider ones keep one for every 64 paths asked for."""

NORM_NODES = 2_000
"""How many suffixes norms may keep before sets are made instead."""


@dataclass(frozen=True)
class Found:
    """Paths by |value|, how many values were computed, whether that is proven, and a bound on all others."""

    paths: list[tuple[float, tuple[str, ...]]]
    examined: int
    exact: bool
    bound: float


def search(walk: Walk, k: int, field: Array, budget: Budget) -> Found:
    """Return the k paths of largest |value| toward a covector field (n, d) on the final stream.

    Paths that go straight into the sink are not among them.
    """
    known, found = tables(walk), None
    if norms := None if known.has_sets else known.norm_bounds:
        nodes = NORM_NODES if budget.nodes is None else min(NORM_NODES, budget.nodes)
        found = _search(known, norms, k, field, replace(budget, nodes=nodes))
        if found.exact or budget.late() or nodes == budget.nodes:
            return found
    sets = known.set_bounds(lambda b: _stopped(budget, b))
    if sets is not None:
        return _search(known, sets, k, field, budget)
    return found or _unbounded(known, k, field, budget)


def _stopped(budget: Budget, b: int) -> bool:
    budget.say(f"reachable sets up to block {b}")
    return budget.late()


def _unbounded(known: Tables, k: int, field: Array, budget: Budget) -> Found:
    """The best of the paths that take one component more than an entry; nothing bounds the others."""
    endless = Reach(np.full(known.layout.size[0], np.finfo(np.float32).max))
    at_sink = {SINK: dict.fromkeys(known.layout.final, endless)}
    blind = Bounds((*({} for _ in known.layout.skips), at_sink))
    sweep = _sweep(known, blind, k, field, Budget(progress=budget.progress), 0.0, None)
    return Found(sweep.best.words(), sweep.best.examined, False, float("inf"))


def _search(known: Tables, bounds: Bounds, k: int, field: Array, budget: Budget) -> Found:
    first = _sweep(known, bounds, k, field, budget, 0.0, max(BEAM, k // 64))
    found = first.best.words()
    if first.stopped:
        return Found(found, first.best.examined, False, first.best.missed)
    floor = abs(found[k - 1][0]) * (1 - ROOM) if len(found) == k else 0.0
    exact = _sweep(known, bounds, k, field, budget, floor, None)
    if exact.done:
        return Found(exact.best.words(), exact.best.examined, True, exact.best.missed)
    values = {word: value for value, word in [*found, *exact.best.words()]}
    both = sorted(
        ((value, word) for word, value in values.items()), key=lambda pair: (-abs(pair[0]), pair[1])
    )
    cut = max((abs(value) for value, _ in both[k:]), default=0.0)
    bound = max(min(first.best.missed, exact.best.missed), cut)
    return Found(both[:k], first.best.examined + exact.best.examined, False, bound)


def _sweep(
    known: Tables, bounds: Bounds, k: int, field: Array, budget: Budget, floor: float, width: int | None
) -> Sweep:
    sweep = Sweep(
        known,
        bounds,
        Best(k, known.entries[-1].words, known.walk.graph.sink.label, Suffixes(), floor),
        budget,
        width,
    )
    sweep.run(field)
    budget.say(f"{'exact' if width is None else 'beam'}: {len(sweep.best.suffixes):,} suffixes kept")
    return sweep
