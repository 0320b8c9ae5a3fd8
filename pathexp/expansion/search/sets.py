"""Reachable sets: per depth, state and position an ellipsoid that holds every prefix which passed a component.

Prefixes that are kept one by one (`entries`) are in no set; what components make of them goes in exactly, unless
it is an entry itself. The sets depend on the run and the query, never on the target.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...graph import Array, Operator
from ...workers import each, for_each
from .ellipsoids import carried, factor, factors, padded, summed, times_triangle, united, with_points
from .entries import Entries
from .layout import Heads, Layout
from .rounding import gamma, lengths
from .single import Single
from .sizes import frobenius, shed

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
    def longest(self) -> Array:
        """How long any prefix can be on the stream here, per position, entries included: (n,)."""
        found = [around(triangle) for triangle in self.factors.values()]
        return np.asarray(np.max([self.entries.longest, *found], axis=0))

    @cached_property
    def most(self) -> Array:
        """How large any number of a prefix can be on the stream here, entries included: (n, d)."""
        return np.asarray(np.max([self.entries.most, *map(rows, self.factors.values())], axis=0))

    @cached_property
    def at_values(self) -> tuple[Mapping[int, Array], ...]:
        """Per stack of heads and by state, the sets as the heads' values, rounding included: (C, n, r, r)."""
        return tuple(
            {state: _at_values(heads, triangle) for state, triangle in self.factors.items()}
            for heads in self.layout.heads[self.b]
        )

    @cached_property
    def images(self) -> Mapping[tuple[int, int], Image]:
        """By component that is no head and by state, what it makes of the sets: factors (n, d, r), each `off` by at most."""
        return {
            (single.index, state): Image.of(single, triangle)
            for single in self.layout.singles[self.b]
            for state, triangle in self.factors.items()
            if self.layout.steps[self.b][state, single.index] >= 0
        }

    def after(self) -> Sets:
        """The sets behind the block: what went past it, and what its components make of all that reaches it."""
        parts: dict[int, list[Image]] = {}
        for state in range(len(self.layout.steps[self.b])):
            for after, part in self._outputs(state):
                parts.setdefault(after, []).append(part)
        skip = self.layout.skips[self.b]
        return {
            state: self._joined(skip, state, parts.get(state, [])) for state in sorted({*self.sets, *parts})
        }

    def _joined(self, skip: Operator, state: int, images: list[Image]) -> Array:
        n, d = self.layout.size
        parts, off = [image.factors for image in images], [image.off for image in images]
        if state not in self.sets:
            return united(np.zeros((n, d, d)), parts, off=off)
        if not skip:
            return united(self.sets[state], parts, self.factors[state], off)
        moved = carried(skip, self.factors[state])
        lost_here = shed(skip, rows(self.factors[state]))
        return united(padded(moved @ moved.transpose(0, 2, 1), lost_here, d), parts, off=off)

    def _outputs(self, state: int) -> Iterator[tuple[int, Image]]:
        """What every component makes of what is there in a state, and the next state."""
        here, steps = self.entries.states == state, self.layout.steps[self.b][state]
        if not np.any(here) and state not in self.sets:
            return
        for s, heads in enumerate(self.layout.heads[self.b]):
            if np.any(steps[heads.members] >= 0):
                known = self.at_values[s].get(state)
                some = here & ~self.entries.listed[:, heads.members].all(axis=1)
                points = np.stack([self._unlisted(some, int(member)) for member in heads.members])
                misread = heads.amounts @ self.entries.misread(heads, self.entries.longest)
                values = _head_outputs(heads, known, points, misread)
                for row, member in enumerate(heads.members):
                    if steps[member] >= 0 and values is not None:
                        yield int(steps[member]), self._written(heads, row, values[row])
        for single in self.layout.singles[self.b]:
            if (after := int(steps[single.index])) >= 0:
                if (single.index, state) in self.images:
                    yield after, self.images[single.index, state]
                readings, off = self.entries.readings[single.index], self.entries.off[single.index]
                for at in np.flatnonzero(here & ~self.entries.listed[:, single.index]):
                    yield after, Image(readings[at, :, :, None], off[at])

    def _written(self, heads: Heads, row: int, values: Array) -> Image:
        """What a head writes of values B (n, r, r)."""
        write, width = heads.write[row], heads.width
        rounding = 2 * gamma(width) * frobenius(write) * around(values)
        found = np.empty((len(values), *write.shape))

        def work(at: int) -> None:
            np.matmul(write, values[at], out=found[at])

        each(work, len(values), found.size * width)
        return Image(found, rounding + heads.lost[row] * (heads.amounts[row] @ self.longest))

    def _unlisted(self, here: Array, component: int) -> Array:
        """What a head reads of some entries; 0 where what it writes of them is an entry itself."""
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


@dataclass(frozen=True, eq=False)
class Image:
    """Factors B (n, d, r) of what something makes of a set, and how far each may be from exact, `off` (n,), in norm."""

    factors: Array
    off: Array

    @classmethod
    def of(cls, single: Single, triangles: Array) -> Image:
        """What a component that is no head makes of sets L Lᵀ."""
        return cls(_image(single, triangles), shed(single.operator, rows(triangles)))


def rows(factors: Array) -> Array:
    """Bounds on how far sets B Bᵀ reach along each coordinate, B (n, d, r): (n, d)."""
    return lengths(factors)


def around(factors: Array) -> Array:
    """Bounds on the Frobenius norms of factors (..., d, r), none above which a set reaches."""
    return lengths(factors.reshape(*factors.shape[:-2], -1))


def _at_values(heads: Heads, triangles: Array) -> Array:
    """Sets as the heads' values; those that read alike see the same."""
    readers = heads.readers
    count, r, d = readers.shape
    found = np.empty((count, len(triangles), r, r))

    def work(at: int) -> None:
        half = times_triangle(readers.reshape(-1, d), triangles[at]).reshape(count, r, d)
        found[:, at] = half @ half.transpose(0, 2, 1)

    for_each(work, len(triangles))
    off = 2 * gamma(d) * r**0.5 * heads.stretch * around(triangles)
    return padded(found, off, d)[heads.reader]


def _image(single: Single, triangles: Array) -> Array:
    if not single.folded:
        return carried(single.operator, triangles)
    found, matrix = np.empty_like(triangles), single.matrix

    def work(at: int) -> None:
        found[at] = times_triangle(matrix(at).T, triangles[at])

    for_each(work, len(triangles))
    return found


def _head_outputs(heads: Heads, known: Array | None, points: Array, misread: Array) -> Array | None:
    """What each head has moved, as factors in value space (C, n, r, r); points may be off by `misread` (C, n)."""
    count, n, r = len(heads.members), len(heads.patterns[0]), heads.width
    if known is None and not points.size:
        return None
    shape = np.zeros((count, n, r, r))
    if known is not None:
        metric = heads.write.transpose(0, 2, 1) @ heads.write
        shape = summed(known, heads.patterns, metric)
    moved = np.einsum("cij,cejr->ecir", heads.patterns, points, optimize=True)
    off = misread if len(moved) else np.zeros((count, n))
    found = np.empty_like(shape)

    def work(row: int) -> None:
        found[row] = factor(padded(with_points(shape[row], moved[:, row]), off[row], r))

    each(work, count, shape.size * r)
    return found
