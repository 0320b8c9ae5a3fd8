"""Reachable sets: per depth, state and position an ellipsoid that holds every prefix which passed a component.

What passed nothing yet is a finite list (`Layout.entries`) and stays exact, through its first hop as well. The sets
depend on the run and the query, never on the target.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ...graph import Array, push
from .ellipsoids import carried, factor, summed, united, with_points
from .layout import Heads, Layout

Sets = Mapping[int, Array]
"""By automaton state, ellipsoids P of shape (position, d, d)."""


def reachable_sets(layout: Layout) -> Iterator[Sets]:
    """Yield, for every depth from 0 on, the sets of all prefixes that passed at least one component.

    A state that no such prefix reaches has no set. Cost per depth: one factorization of a d × d matrix per
    position, and per head products with its r columns.
    """
    sets: Sets = {}
    yield sets
    for b in range(len(layout.skips)):
        sets = _Block(layout, b, sets).after()
        yield sets


def head_sets(heads: Heads, sets: Array) -> Array:
    """Ellipsoids (n, d, d) on the stream as each head's values see them, (C, n, r, r); the last answer is kept."""
    if heads.seen and heads.seen[-1][0] is sets:
        return heads.seen[-1][1]
    heads.seen[:] = [(sets, _seen(heads, sets))]
    return heads.seen[-1][1]


def _seen(heads: Heads, sets: Array) -> Array:
    count, r, d = heads.read.shape
    half = (heads.read.reshape(-1, d) @ sets).reshape(len(sets), count, r, d)
    return np.stack([half[:, row] @ heads.read[row].T for row in range(count)])


@dataclass(frozen=True, eq=False)
class _Block:
    layout: Layout
    b: int
    sets: Sets

    def after(self) -> Sets:
        """The sets behind the block: what went past it, and what its components make of all that reaches it."""
        parts: dict[int, list[Array]] = {}
        for state in range(len(self.layout.steps[self.b])):
            for after, part in self.outputs(state):
                parts.setdefault(after, []).append(part)
        return {
            state: united(self._past(state), parts.get(state, [])) for state in sorted({*self.sets, *parts})
        }

    def _past(self, state: int) -> Array:
        n, d = self.layout.size
        if state not in self.sets:
            return np.zeros((n, d, d))
        skip = self.layout.skips[self.b]
        if not skip:
            return self.sets[state]
        parts = carried(skip, self.sets[state])
        return parts @ parts.transpose(0, 2, 1)

    def outputs(self, state: int) -> Iterator[tuple[int, Array]]:
        """What every component makes of what is there in a state: (next state, factor B (n, d, r))."""
        entries, known = self.layout.entries[self.b], self.sets.get(state)
        points = entries.streams[entries.states == state]
        if known is None and not len(points):
            return
        steps = self.layout.steps[self.b][state]
        for heads in self.layout.heads[self.b]:
            if np.any(steps[heads.members] >= 0):
                values = _head_outputs(heads, known, points)
                for row, member in enumerate(heads.members):
                    if steps[member] >= 0:
                        yield int(steps[member]), heads.write[row] @ values[row]
        for index, operator in self.layout.singles[self.b]:
            if steps[index] >= 0:
                if known is not None:
                    yield int(steps[index]), carried(operator, known)
                for point in points:
                    yield int(steps[index]), push(operator, point)[:, :, None]


def _head_outputs(heads: Heads, known: Array | None, points: Array) -> Array:
    """What each head has moved, as factors in value space (C, n, r, r); listed prefixes move exactly."""
    count, n, r = len(heads.members), len(heads.patterns[0]), heads.width
    shape = np.zeros((count, n, r, r))
    if known is not None:
        metric = heads.write.transpose(0, 2, 1) @ heads.write
        shape = summed(head_sets(heads, known), heads.patterns, metric)
    moved = np.einsum("cij,cejr->ecir", heads.patterns, heads.values(points), optimize=True)
    return factor(with_points(shape, moved))
