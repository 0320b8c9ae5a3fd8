"""The largest paths with a certificate: a beam for a first threshold, then one exact sweep above it."""

from __future__ import annotations

from dataclasses import dataclass

from ...graph import Array, Walk
from .budget import Budget
from .found import Best, Suffixes
from .sweep import Sweep
from .tables import ROOM, Bounds, Tables, tables

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
    known = tables(walk)
    if norms := None if known.has_sets else known.norm_bounds:
        nodes = min(NORM_NODES, budget.nodes or NORM_NODES)
        narrow = Budget(budget.seconds, nodes, budget.memory, budget.progress, budget.started)
        found = _search(known, norms, k, field, narrow)
        if found.exact or budget.late() or nodes == budget.nodes:
            return found
    sets = known.set_bounds(lambda b: _stopped(budget, b))
    if sets is None:
        return found if norms else Found([], 0, False, float("inf"))
    return _search(known, sets, k, field, budget)


def _stopped(budget: Budget, b: int) -> bool:
    budget.say(f"reachable sets up to block {b}")
    return budget.late()


def _search(known: Tables, bounds: Bounds, k: int, field: Array, budget: Budget) -> Found:
    first = _sweep(known, bounds, k, field, budget, 0.0, max(BEAM, k // 64))
    threshold = first.best.threshold * (1 - ROOM)
    if budget.late():
        return _result(first, threshold, exact=False)
    exact = _sweep(known, bounds, k, field, budget, threshold, None)
    better = exact if exact.done or exact.best.threshold >= first.best.threshold else first
    return _result(better, threshold, exact.done, max(exact.best.missed, 0.0))


def _sweep(
    known: Tables, bounds: Bounds, k: int, field: Array, budget: Budget, floor: float, width: int | None
) -> Sweep:
    sweep = Sweep(known, bounds, Best(k, known.layout, Suffixes(), floor), budget, width)
    sweep.run(field)
    budget.say(f"{'exact' if width is None else 'beam'}: {len(sweep.best.suffixes):,} suffixes kept")
    return sweep


def _result(sweep: Sweep, threshold: float, exact: bool, missed: float | None = None) -> Found:
    bound = sweep.best.missed if missed is None else missed
    return Found(sweep.best.words(), sweep.best.examined, exact, bound)
