"""Everything about a run and a query that a search reads, whatever its target and k: made once, kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ...budget import BUDGET
from ...graph import Array, ResidualGraph, Walk, WeakCache
from .below import Below
from .ellipsoids import factor
from .entries import SINK, Entries, all_entries
from .layout import Layout
from .norms import norms_fit, value_lengths
from .reach import Bounds, Reach
from .rounding import largest
from .sets import Reached, reachable_sets


@dataclass(frozen=True, eq=False)
class Tables:
    """Layout, direct readings and bounds of one walk."""

    walk: Walk

    @cached_property
    def layout(self) -> Layout:
        return Layout(self.walk)

    @cached_property
    def entries(self) -> tuple[Entries, ...]:
        """The prefixes kept one by one, in front of every block and of the sink."""
        self.entries_made(lambda b: False)
        return tuple(self._under_way[0])

    @cached_property
    def _under_way(self) -> tuple[list[Entries], Iterator[Entries]]:
        """The entries that are made, and what makes the others."""
        return [], all_entries(self.layout)

    def entries_made(self, stop: Callable[[int], bool]) -> bool:
        """Make the entries, going on where it was stopped; False if `stop` says so at a block before they are done."""
        depth = len(self.layout.skips)
        made, others = self._under_way
        for b in range(len(made), depth + 1):
            if b and stop(b):
                return False
            try:
                made.append(next(others))
            except BaseException:  # what raised cannot go on: the next call begins anew
                del self.__dict__["_under_way"]
                raise
        return True

    def link(self, b: int, row: int, s: int, early: int, early_s: int) -> Array:
        """Return the reader of one head times the writers of a stack of an earlier block, (r, C · r); kept within the budget."""
        key = "link", b, self._place(b, s, row), early, early_s
        heads = self.layout.heads
        return BUDGET.get(self, key, lambda: heads[b][s].read[row] @ heads[early][early_s].flat)

    def _place(self, b: int, s: int, row: int) -> int:
        return int(self.layout.heads[b][s].members[row])

    @cached_property
    def norm_bounds(self) -> Bounds | None:
        """Bounds from norms, for graphs of heads alone."""
        if not norms_fit(self.layout):
            return None
        known = list(value_lengths(self.layout, self.entries))
        blocks = [
            {
                int(member): {state: Reach(far[s][row]) for state, far in longest.values.items()}
                for s, heads in enumerate(self.layout.heads[b])
                for row, member in enumerate(heads.members)
            }
            for b, longest in enumerate(known[:-1])
        ]
        at_sink = {state: Reach(far[0][0]) for state, far in known[-1].values.items()}
        return Bounds((*blocks, {SINK: at_sink}), tuple(longest.stream for longest in known))

    @cached_property
    def _made(self) -> list[Bounds]:
        return []

    @cached_property
    def _below(self) -> list[Below]:
        """The last that was asked for."""
        return []

    def below(self, bounds: Bounds) -> Below:
        """What may stand in front of each component, for some bounds; kept until it is asked for others."""
        kept = self._below[0] if self._below else None
        if kept is None or kept.bounds is not bounds:
            kept = Below(self.layout, self.entries, bounds)
            self._below[:] = [kept]
        return kept

    @property
    def has_sets(self) -> bool:
        """Whether the reachable sets are made already."""
        return bool(self._made)

    def set_bounds(self, stop: Callable[[int], bool]) -> Bounds | None:
        """Bounds from reachable sets, made once; None if `stop` says so at a block before they are done.

        None as well where squares of the graph's numbers leave the range of floating point.
        """
        if not self._made and (found := self._bounds(stop)):
            self._made.append(found)
        return self._made[0] if self._made else None

    def recorded(self) -> tuple[Bounds, tuple[Mapping[int, Array], ...]] | None:
        """Bounds from reachable sets, with the triangles that they come from; None where there are none."""
        kept: list[Mapping[int, Array]] = []
        found = self._bounds(lambda b: False, kept)
        return None if found is None else (found, tuple(kept))

    def _bounds(
        self, stop: Callable[[int], bool], kept: list[Mapping[int, Array]] | None = None
    ) -> Bounds | None:
        blocks, streams, longest, most = [], [], [], []
        try:
            for reached in reachable_sets(self.layout, self.entries):
                if kept is not None:
                    kept.append(reached.factors)
                blocks.append(_by_component(_reaches(reached)))
                streams.append(_on_stream(reached))
                longest.append(reached.longest)
                most.append(reached.most)
                if stop(reached.b):
                    return None
        except np.linalg.LinAlgError:  # numbers left the range of floating point: no bounds
            return None
        return Bounds(tuple(blocks), tuple(longest), tuple(streams), tuple(most))


def _by_component(reaches: Iterator[tuple[int, int, Reach]]) -> Mapping[int, Mapping[int, Reach]]:
    found: dict[int, dict[int, Reach]] = {}
    for component, state, reach in reaches:
        found.setdefault(component, {})[state] = reach
    return found


def _reaches(reached: Reached) -> Iterator[tuple[int, int, Reach]]:
    """How far the sets reach at the values of heads, and at what other components make of them."""
    if reached.b == len(reached.layout.skips):
        yield from (
            (SINK, state, Reach.of(triangle, lower=True)) for state, triangle in reached.factors.items()
        )
        return
    for heads, by_state in zip(reached.layout.heads[reached.b], reached.at_values, strict=True):
        for state, shapes in by_state.items():
            lengths, factors = np.sqrt(largest(shapes)), factor(shapes)
            for row, member in enumerate(heads.members):
                yield int(member), state, Reach.of(factors[row], lengths[row])
    for (component, state), image in reached.images.items():
        yield component, state, Reach.of(image.factors, off=image.off)


def _on_stream(reached: Reached) -> Mapping[int, Reach]:
    """How far the sets reach on the stream, in front of blocks with components that are no heads."""
    last = reached.b == len(reached.layout.skips)
    if last or not reached.layout.singles[reached.b]:
        return {}
    return {state: Reach.of(triangle, lower=True) for state, triangle in reached.factors.items()}


TABLES: WeakCache[ResidualGraph, Tables] = WeakCache()
"""The tables of the graphs that are alive, by query: made on a copy of the graph, so that they keep none alive."""


def tables(walk: Walk) -> Tables:
    """Return the tables of a walk, kept for as long as its graph lives."""
    return TABLES.get(walk.graph, walk.query, lambda: Tables(replace(walk, graph=replace(walk.graph))))
