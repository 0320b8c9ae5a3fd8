"""What may stand in front of a component: which beginnings it reads one by one, how far all others reach there, and what steps lose.

All of it depends on a run, a query and their bounds, on no target: made once, and kept with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ...graph import Array, Indices
from .entries import SINK, Entries
from .layout import Layout
from .losses import Losses
from .reach import Bounds, States
from .rounding import lengths

Place = tuple[int, int, States]
"""A component of a block, and the states of the query that lead on from it."""


@dataclass(frozen=True, eq=False)
class Below:
    """Entries, bounds on all other beginnings, and losses."""

    layout: Layout
    known: Sequence[Entries]
    bounds: Bounds
    _taken: dict[Place, Indices] = field(default_factory=dict)
    _reaches: dict[Place, Array] = field(default_factory=dict)

    @cached_property
    def losses(self) -> Losses:
        """How much every step loses at most."""
        return Losses(self.layout, self.known, self.bounds.longest, self.bounds.most)

    def entries(self, b: int, component: int, states: States) -> Indices:
        """The entries a component takes up, without those for which what it makes is an entry as well."""
        place = b, component, states
        if place not in self._taken:
            known = self.known[b]
            taken = np.isin(known.states, sorted(states))
            self._taken[place] = np.flatnonzero(
                taken if component == SINK else taken & ~known.listed[:, component]
            )
        return self._taken[place]

    def reach(self, b: int, s: int, component: int, states: States) -> Array:
        """How far anything that may precede a head reaches at its values, per position."""
        place = b, component, states
        if place not in self._reaches:
            read = self.known[b].readings[component][self.entries(b, component, states)]
            direct = lengths(read).max(axis=0, initial=0.0) + self.losses.direct(b, s)
            most = self.bounds.lengths(b, component, states, self.layout.size[0])
            self._reaches[place] = np.maximum(direct, most) * (1 + 1e-9)
        return self._reaches[place]
