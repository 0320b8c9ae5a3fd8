"""How far a covector can be off after every step back, by what that can do to any prefix that arrives there.

A covector r̂ is pulled back through a component as r̂' = Cᵀ r̂ + η. What η adds to the value of a path is ⟨η, y⟩, y the path's
beginning in front of the component without any rounding, so at most Σ_i ‖η_i‖ · longest_i. Each method returns a
vector g (n,) such that a step loses at most Σ_i ‖r̂_i‖ g_i, with ‖η_i‖ bounded as in `sizes.lost`; or, for components that are
no heads, numbers g (n, d) such that it loses at most Σ |r̂| g: |η| ≤ γ |C|ᵀ|r̂|, so that g = γ |C| most, with `most` at
least |y|. Outliers in few coordinates make norms a thousand times as large as that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...graph import Array
from .entries import SINK, Entries
from .goal import Goal
from .layout import Layout
from .rounding import finite, gamma, lengths
from .sizes import frobenius, lost, shed_each

ABSOLUTE = 1e-140
"""More than what underflows in any step, of a target with entries of at most one."""


@dataclass(frozen=True, eq=False)
class Losses:
    """What the steps of one graph lose at most; `longest` (n,) and `most` (n, d) by block, and at the sink."""

    layout: Layout
    entries: Sequence[Entries]
    longest: Sequence[Array]
    most: Sequence[Array]

    def at_start(self, goal: Goal) -> float:
        """What it loses to bring a target to the final stream."""
        longest = self.longest[-1]
        rounding = float(goal.sizes @ lost(goal.sink, longest)) if goal.sizes.any() else 0.0
        return rounding + (goal.lost + ABSOLUTE) * float(longest.sum())

    @cached_property
    def _kept(self) -> dict[tuple[str, int, int], Array]:
        return {}

    def into_heads(self, b: int, s: int) -> Array:
        """One more head: covectors behind block b to the values of every head of a stack, (C, n)."""
        key = ("heads", b, s)
        if key not in self._kept:
            heads = self.layout.heads[b][s]
            (_, d, r), n = heads.write.shape, heads.patterns.shape[-1]
            sizes = np.array([frobenius(write) for write in heads.write])
            wide = max(r, self._widest) ** 0.5
            rounding = 2 * gamma(2 * d + n) * wide * sizes * heads.stretch**2 + heads.lost
            self._kept[key] = finite(rounding[:, None] * (heads.amounts @ self.longest[b]))
        return self._kept[key]

    @cached_property
    def _widest(self) -> int:
        return max((heads.width for stacks in self.layout.heads for heads in stacks), default=1)

    def through(self, b: int, component: int) -> Array:
        """One more component that is no head: covectors behind block b to the stream in front of it; (n, d)."""
        key = ("single", b, component)
        if key not in self._kept:
            operator = self.layout.walk.graph.blocks[b].components[component].operator
            self._kept[key] = shed_each(operator, self.most[b])
        return self._kept[key]

    def over(self, b: int) -> Array:
        """The skip edge of a block."""
        return lost(self.layout.skips[b], self.longest[b])

    def to_stream(self, b: int, s: int) -> Array:
        """Covectors at the values of a head, brought to the stream."""
        heads = self.layout.heads[b][s]
        return np.asarray(2 * gamma(heads.width) * heads.width**0.5 * heads.stretch * self.longest[b])

    def direct(self, b: int, s: int) -> Array:
        """What is lost where covectors at the values of a head meet the entries in front of block b."""
        heads = self.layout.heads[b][s]
        n, width = len(self.longest[b]), heads.width
        meeting = 2 * gamma(n * width) * heads.stretch * self.longest[b]
        return np.asarray(self.entries[b].misread(heads, self.longest[b]) + meeting)

    def read(self, b: int, component: int) -> Array:
        """What is lost where covectors meet the entries that a component of block b reads; SINK for the sink."""
        for s, heads in enumerate(self.layout.heads[b] if component != SINK else ()):
            if component in heads.members:
                return self.direct(b, s)
        off, read = self.entries[b].off[component], self.entries[b].readings[component]
        return self.met(off.max(axis=0, initial=0.0), lengths(read).max(axis=0, initial=0.0))

    def met(self, off: Array, longest: Array) -> Array:
        """What is lost where covectors meet prefixes `longest` (n,) long that are `off` (n,) by at most."""
        n, d = self.layout.size
        return np.asarray(2 * (off + gamma(n * d) * longest))
