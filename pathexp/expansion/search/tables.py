"""Everything about a run and a query that a search reads, whatever its target and k: made once, kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...graph import Array, Walk
from .ellipsoids import factor, largest
from .layout import Layout
from .norms import norms_fit, value_lengths
from .sets import Sets, head_sets, reachable_sets

ROOM = 1e-6
"""The share by which every bound is raised, to leave room for rounding in the sets and in what is met with them."""

States = frozenset[int]


@dataclass(frozen=True, eq=False)
class Reach:
    """Bounds at one reader: lengths (n,) and, if there are ellipsoids, factors (n, r, r)."""

    lengths: Array
    factors: Array | None = None

    def bound(self, fields: Array) -> Array:
        """Bounds on |value| over all prefixes in the set, for covectors (m, n, r): (m,)."""
        if self.factors is None:
            return np.asarray(np.linalg.norm(fields, axis=-1) @ self.lengths)
        met = fields.transpose(1, 0, 2) @ self.factors
        return np.asarray(np.linalg.norm(met, axis=-1).sum(axis=0))


@dataclass(frozen=True, eq=False)
class Bounds:
    """By block and component, per automaton state, how far prefixes reach; the sink's block comes last."""

    blocks: tuple[Mapping[int, Mapping[int, Reach]], ...]

    def bound(self, b: int, component: int, states: States, fields: Array) -> Array:
        """Bounds on any longer path through a component: covectors (m, n, r) at its values: (m,)."""
        known = self.blocks[b].get(component, {})
        found = [known[state].bound(fields) for state in sorted(states) if state in known]
        return np.max(found, axis=0) * (1 + ROOM) if found else np.zeros(len(fields))

    def lengths(self, b: int, component: int, states: States, n: int) -> Array:
        """The greatest length of a prefix at a component's values, per position."""
        known = self.blocks[b].get(component, {})
        found = [known[state].lengths for state in sorted(states) if state in known]
        return np.max(found, axis=0) * (1 + ROOM) if found else np.zeros(n)


SINK = -1
"""The sink's place among the components of the last `Bounds` block."""


@dataclass(frozen=True, eq=False)
class Tables:
    """Layout, direct readings and bounds of one walk."""

    walk: Walk

    @cached_property
    def layout(self) -> Layout:
        return Layout(self.walk)

    @cached_property
    def readings(self) -> tuple[Mapping[int, Array], ...]:
        """What each component's values read of every entry: (E, n, r); the sink's block comes last."""
        layout, found = self.layout, []
        for b, entries in enumerate(layout.entries):
            if b == len(layout.skips):
                found.append({SINK: entries.streams})
                break
            known = {index: entries.streams for index, _ in layout.singles[b]}
            for heads in layout.heads[b]:
                known |= dict(zip(heads.members.tolist(), heads.values(entries.streams), strict=True))
            found.append(known)
        return tuple(found)

    @cached_property
    def links(self) -> dict[tuple[int, int, int, int], Array]:
        """Links from a head's reader to all writers of an earlier stack, (r, C · r), made when first asked for."""
        return {}

    def link(self, b: int, row: int, s: int, early: int, early_s: int) -> Array:
        """Reader of one head times the writers of a stack of an earlier block."""
        key = (b, self._place(b, s, row), early, early_s)
        if key not in self.links:
            self.links[key] = self.layout.heads[b][s].read[row] @ self.layout.heads[early][early_s].flat
        return self.links[key]

    def _place(self, b: int, s: int, row: int) -> int:
        return int(self.layout.heads[b][s].members[row])

    @cached_property
    def norm_bounds(self) -> Bounds | None:
        """Bounds from norms, for graphs of heads alone."""
        if not norms_fit(self.layout):
            return None
        blocks = [
            {
                int(member): {state: Reach(lengths[state][s][row]) for state in lengths}
                for s, heads in enumerate(self.layout.heads[b])
                for row, member in enumerate(heads.members)
            }
            for b, lengths in enumerate(value_lengths(self.layout))
        ]
        return Bounds((*blocks, {}))

    @cached_property
    def _made(self) -> list[Bounds]:
        return []

    @property
    def has_sets(self) -> bool:
        """Whether the reachable sets are made already."""
        return bool(self._made)

    def set_bounds(self, stop: Callable[[int], bool]) -> Bounds | None:
        """Bounds from reachable sets, made once; None if `stop` says so at a block before they are done."""
        if not self._made:
            blocks = []
            for b, sets in enumerate(reachable_sets(self.layout)):
                blocks.append(self._at(b, sets))
                if stop(b):
                    return None
            for heads in (each for stacks in self.layout.heads for each in stacks):
                heads.seen.clear()
            self._made.append(Bounds(tuple(blocks)))
        return self._made[0]

    def _at(self, b: int, sets: Sets) -> Mapping[int, Mapping[int, Reach]]:
        found: dict[int, dict[int, Reach]] = {}
        for component, state, reach in self._reaches(b, sets):
            found.setdefault(component, {})[state] = reach
        return found

    def _reaches(self, b: int, sets: Sets) -> Iterator[tuple[int, int, Reach]]:
        for state, shapes in sets.items():
            whole: Iterable[int] = (SINK,)
            if b < len(self.layout.skips):
                whole = [index for index, _ in self.layout.singles[b]]
                for heads in self.layout.heads[b]:
                    seen = head_sets(heads, shapes)
                    lengths, factors = np.sqrt(largest(seen)), factor(seen)
                    for row, member in enumerate(heads.members):
                        yield int(member), state, Reach(lengths[row], factors[row])
            if whole := list(whole):
                reach = Reach(np.sqrt(largest(shapes)), factor(shapes))
                yield from ((index, state, reach) for index in whole)


def tables(walk: Walk) -> Tables:
    """Return the tables of a walk, kept with its graph."""
    kept = walk.graph.kept
    key = ("search tables", walk.query)
    if key not in kept:
        kept[key] = Tables(walk)
    found = kept[key]
    assert isinstance(found, Tables)
    return found
