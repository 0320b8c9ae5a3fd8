"""The largest paths with a certificate: a beam for a first threshold, then one exact sweep above it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ...errors import PathexpError
from ...graph import Walk
from ...model import Target
from ...workers import own_workers
from ..proof.certificate import Certificate
from .budget import Budget
from .entries import SINK
from .farthest import farthest
from .finds import threshold, valued
from .found import CONTENDERS, Best, Suffixes, Valued, by_size
from .goal import Goal
from .layout import Layout
from .reach import Bounds, Reach
from .sweep import Sweep
from .tables import Tables, tables

BEAM = 8
"""How many suffixes per block the narrowest beam keeps; wider ones keep one for every 64 paths asked for."""

ALL = sys.maxsize
"""How many paths a sweep looks for that lists none."""

NORM_NODES = 2_000
"""How many suffixes norms may keep before sets are made instead."""


@dataclass(frozen=True)
class Found:
    """Paths by |value|, how many values were computed, whether nothing was given up, and a bound on all others."""

    paths: list[Valued]
    examined: int
    exact: bool
    bound: float


def search(
    walk: Walk, k: int, target: Target, budget: Budget, known: Sequence[tuple[str, ...]] = ()
) -> Found:
    """Return the k paths of largest |value| toward a target.

    `known` are paths of the walk that are large for all that somebody knows; they are valued again, and set the first
    threshold. Paths that go straight into the sink are not among them, nor are those through what writes nothing. What is not
    listed is at most `bound` in absolute value, rounding included, and every value is within its `error`.
    """
    goal = Goal.of(target, walk.graph)
    with np.errstate(all="ignore"), own_workers():
        first = valued(tables(walk).layout, goal, known)
        found = _searched(walk, k, goal, budget, Found(first, len(first), False, float("inf")))
        found = _cut(k, replace(found, paths=_settled(tables(walk).layout, goal, found.paths)), 0)
    return replace(
        found,
        paths=[Valued(goal.units(path.value), path.word, goal.most(path.error)) for path in found.paths],
        bound=goal.most(found.bound),
    )


SETTLED = 2 * CONTENDERS
"""How many listed paths are evaluated once more, each by itself: what they do bounds their errors better than what any path may."""

BLUR = 2.0**-12
"""What a sweep may leave out of an ending in each component, as a share of its threshold, where all that it lists is settled."""


def _settled(layout: Layout, goal: Goal, paths: list[Valued]) -> list[Valued]:
    """Paths with the better known of the search's value and that of the path by itself, the largest first."""
    again = {path.word: path for path in valued(layout, goal, [path.word for path in paths[:SETTLED]])}
    return sorted((_surer(path, again.get(path.word, path)) for path in paths), key=by_size)


def _surer(path: Valued, other: Valued) -> Valued:
    return path if path.error <= other.error else other


def _searched(walk: Walk, k: int, goal: Goal, budget: Budget, first: Found) -> Found:
    known, found = tables(walk), first
    if not known.entries_made(partial(_overdue, budget)):
        return _joined(k, Found([], 0, False, farthest(known.layout, goal, quick=True)), first)
    if norms := None if known.has_sets else known.norm_bounds:
        nodes = NORM_NODES if budget.nodes is None else min(NORM_NODES, budget.nodes)
        found = _search(known, norms, k, goal, replace(budget, nodes=nodes), first)
        if found.exact or budget.late() or nodes == budget.nodes:
            return found
    sets = known.set_bounds(partial(_stopped, budget))
    if sets is not None:
        return _search(known, sets, k, goal, budget, found)
    return found if norms else _joined(k, _unbounded(known, k, goal, budget), found)


def _overdue(budget: Budget, b: int) -> bool:
    budget.say(f"beginnings kept one by one up to block {b}")
    return budget.overdue()


def _stopped(budget: Budget, b: int) -> bool:
    budget.say(f"reachable sets up to block {b}")
    return budget.late()


def _unbounded(known: Tables, k: int, goal: Goal, budget: Budget) -> Found:
    """The best of the paths that take one component more than an entry; lengths alone bound the others."""
    positions, blocks = known.layout.size[0], known.layout.skips
    endless = Reach(np.full(positions, np.finfo(np.float32).max))
    at_sink = {SINK: dict.fromkeys(known.layout.final, endless)}
    longest = tuple(entries.longest for entries in known.entries)
    most = tuple(entries.most for entries in known.entries)
    blind = Bounds((*({} for _ in blocks), at_sink), longest, most=most)
    rest = Budget(budget.grace, progress=budget.progress)
    sweep = _sweep(known, blind, k, goal, rest, 0.0, None)
    return Found(sweep.best.words(), sweep.best.examined, False, farthest(known.layout, goal))


def _search(known: Tables, bounds: Bounds, k: int, goal: Goal, budget: Budget, before: Found) -> Found:
    """A beam above the threshold of what was found before, and an exact sweep above that of both."""
    first = _sweep(known, bounds, k, goal, budget, threshold(before.paths, k), max(BEAM, k // 64))
    best = _joined(k, Found(first.best.words(), first.best.examined, False, first.best.missed), before)
    if first.stopped:
        return best
    exact = _sweep(known, bounds, k, goal, budget, max(first.best.threshold, threshold(best.paths, k)), None)
    if exact.done:
        _check_nothing_lost(best.paths, exact)
    return _joined(k, Found(exact.best.words(), exact.best.examined, exact.done, exact.best.missed), best)


def certify(walk: Walk, target: Target, bound: float) -> Certificate | None:
    """Return what proves that no path but those listed has an absolute value above a bound; None where nothing bounds.

    Everything that may exceed the bound is opened, everything else cut, by reachable sets alone.
    """
    goal, known = Goal.of(target, walk.graph), tables(walk)
    with np.errstate(all="ignore"), own_workers():
        if (recorded := known.recorded()) is None:
            return None
        bounds, sets = recorded
        sweep = _sweep(known, bounds, ALL, goal, Budget(), goal.scaled(bound), None)
    suffixes = sweep.best.suffixes
    return Certificate(
        tuple(frozenset(entries.words) for entries in known.entries),
        sets,
        frozenset(suffixes.word(ending) for ending in range(1, len(suffixes))),
    )


def _check_nothing_lost(first: list[Valued], exact: Sweep) -> None:
    """An exact sweep finds what a beam found above its threshold; else the search itself is wrong."""
    listed = {path.word for path in exact.best.words()}
    for path in first:
        if path.word not in listed and abs(path.value) - path.error > exact.best.missed:
            raise PathexpError(
                f"the search contradicts itself: it found {' '.join(path.word)} at {path.value:.6g} and then lost it, "
                f"with {exact.best.missed:.6g} as its bound on what is not listed; this is a fault of pathexp, please report it"
            )


def _joined(k: int, found: Found, other: Found) -> Found:
    """One answer from two over the same paths: what either found, and the better bound on what neither did."""
    values = {path.word: path for path in other.paths}
    values |= {path.word: _surer(path, values.get(path.word, path)) for path in found.paths}
    both = Found(
        sorted(values.values(), key=by_size),
        found.examined + other.examined,
        found.exact or other.exact,
        min(found.bound, other.bound),
    )
    return _cut(k, both, CONTENDERS)


def _cut(k: int, found: Found, room: int) -> Found:
    """The first k paths, and at most so many more that may belong to them; the bound holds for all others."""
    line = threshold(found.paths[:k], k)
    close = [path for path in found.paths[k:] if abs(path.value) + path.error > line][:room]
    kept = {path.word for path in (*found.paths[:k], *close)}
    left = (abs(path.value) + path.error for path in found.paths if path.word not in kept)
    return replace(found, paths=[*found.paths[:k], *close], bound=max(found.bound, max(left, default=0.0)))


def _sweep(
    known: Tables, bounds: Bounds, k: int, goal: Goal, budget: Budget, floor: float, width: int | None
) -> Sweep:
    best = Best(k, known.entries[-1].words, known.walk.graph.sink.label, Suffixes(), floor)
    blur = BLUR if k <= SETTLED - CONTENDERS or k == ALL else 0.0
    sweep = Sweep(known, bounds, best, budget, width, blur)
    sweep.run(goal)
    budget.say(f"{'exact' if width is None else 'beam'}: {len(sweep.best.suffixes):,} suffixes kept")
    return sweep
