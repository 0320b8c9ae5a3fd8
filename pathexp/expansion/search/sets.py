"""Reachable sets: per depth, state and position an ellipsoid that holds every prefix which passed a component.

Prefixes that are kept one by one (`entries`) are in no set; what components make of them goes in exactly, unless
it is an entry itself. The sets depend on the run and the query, never on the target.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...algebra import for_each
from ...graph import Array, Operator
from .ellipsoids import carried, factor, factors, summed, times_triangle, united, with_points
from .entries import Entries
from .layout import Heads, Layout
from .single import Single

Sets = Mapping[int, Array]
"""By automaton state, ellipsoids P of shape (position, d, d)."""


@dataclass(frozen=True, eq=False)
class Reached:
    """The sets in front of one block (or of the sink), and how its components see them."""

    layout: Layout
    b: int
    entries: Entries
    sets: Sets

    @cached_property
    def factors(self) -> Mapping[int, Array]:
        """By state, triangles L (n, d, d) with L Lᵀ the sets, a sliver thicker."""
        return {state: factors(shape) for state, shape in self.sets.items()}

    @cached_property
    def at_values(self) -> tuple[Mapping[int, Array], ...]:
        """Per stack of heads and by state, the sets as the heads' values: (C, n, r, r)."""
        return tuple(
            {state: _at_values(heads, triangle) for state, triangle in self.factors.items()}
            for heads in self.layout.heads[self.b]
        )

    @cached_property
    def images(self) -> Mapping[tuple[int, int], Array]:
        """By component that is no head and by state, what it makes of the sets: factors (n, d, r)."""
        return {
            (single.index, state): _image(single, triangle)
            for single in self.layout.singles[self.b]
            for state, triangle in self.factors.items()
            if self.layout.steps[self.b][state, single.index] >= 0
        }

    def after(self) -> Sets:
        """The sets behind the block: what went past it, and what its components make of all that reaches it."""
        parts: dict[int, list[Array]] = {}
        for state in range(len(self.layout.steps[self.b])):
            for after, part in self._outputs(state):
                parts.setdefault(after, []).append(part)
        skip = self.layout.skips[self.b]
        return {
            state: self._joined(skip, state, parts.get(state, [])) for state in sorted({*self.sets, *parts})
        }

    def _joined(self, skip: Operator, state: int, parts: list[Array]) -> Array:
        n, d = self.layout.size
        if state not in self.sets:
            return united(np.zeros((n, d, d)), parts)
        if not skip:
            return united(self.sets[state], parts, self.factors[state])
        moved = carried(skip, self.factors[state])
        return united(moved @ moved.transpose(0, 2, 1), parts)

    def _outputs(self, state: int) -> Iterator[tuple[int, Array]]:
        """What every component makes of what is there in a state: (next state, factor B (n, d, r))."""
        here, steps = self.entries.states == state, self.layout.steps[self.b][state]
        if not np.any(here) and state not in self.sets:
            return
        for s, heads in enumerate(self.layout.heads[self.b]):
            if np.any(steps[heads.members] >= 0):
                known = self.at_values[s].get(state)
                points = np.stack([self._unlisted(here, int(member)) for member in heads.members])
                values = _head_outputs(heads, known, points)
                for row, member in enumerate(heads.members):
                    if steps[member] >= 0 and values is not None:
                        yield int(steps[member]), heads.write[row] @ values[row]
        for single in self.layout.singles[self.b]:
            if (after := int(steps[single.index])) >= 0:
                if (single.index, state) in self.images:
                    yield after, self.images[single.index, state]
                for point in self._unlisted(here, single.index):
                    if point.any():
                        yield after, point[:, :, None]

    def _unlisted(self, here: Array, component: int) -> Array:
        """What a component reads (a head) or makes (another) of the entries in a state; 0 where that is an entry."""
        outside = ~self.entries.listed[here, component]
        return np.asarray(self.entries.readings[component][here] * outside[:, None, None])


def reachable_sets(layout: Layout, entries: Sequence[Entries]) -> Iterator[Reached]:
    """Yield, for every depth from 0 on, the sets of all prefixes that passed a component and are no entries.

    A state that no such prefix reaches has no set. Cost per depth: one factorization of a d × d matrix per
    position, and per head products with its r columns.
    """
    sets: Sets = {}
    for b, known in enumerate(entries):
        reached = Reached(layout, b, known, sets)
        yield reached
        if b < len(layout.skips):
            sets = reached.after()


def _at_values(heads: Heads, triangles: Array) -> Array:
    count, r, d = heads.read.shape
    found = np.empty((count, len(triangles), r, r))

    def work(at: int) -> None:
        half = times_triangle(heads.read.reshape(-1, d), triangles[at]).reshape(count, r, d)
        found[:, at] = half @ half.transpose(0, 2, 1)

    for_each(work, len(triangles))
    return found


def _image(single: Single, triangles: Array) -> Array:
    if not single.dense:
        return carried(single.operator, triangles)
    found = np.empty_like(triangles)

    def work(at: int) -> None:
        found[at] = times_triangle(single.matrices[at].T, triangles[at])

    for_each(work, len(triangles))
    return found


def _head_outputs(heads: Heads, known: Array | None, points: Array) -> Array | None:
    """What each head has moved, as factors in value space (C, n, r, r); listed prefixes move exactly."""
    count, n, r = len(heads.members), len(heads.patterns[0]), heads.width
    points = points[:, points.any(axis=(0, 2, 3))]
    if known is None and not points.size:
        return None
    shape = np.zeros((count, n, r, r))
    if known is not None:
        metric = heads.write.transpose(0, 2, 1) @ heads.write
        shape = summed(known, heads.patterns, metric)
    moved = np.einsum("cij,cejr->ecir", heads.patterns, points, optimize=True)
    return factor(with_points(shape, moved))
