"""What all paths together add to a target, summed from the side that costs less.

From the front, streams flow to the sink, are kept, and give any further target as an inner product. From the back,
the target's covector flows to the sources: no unembedding, and only the positions that the target can see. Streams
that are kept cost nothing; else one comes from the back as long as all positions pulled back so far are fewer than
those of one forward pass, so that many targets never cost twice what they have to.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from ..graph import Array, Pullback, Walk, positions_needed
from ..graph.kept_streams import fits, is_pulled, kept_until
from ..model import Target
from .targets import on_stream
from .values import straight_values

Side: TypeAlias = Literal["front", "back"]


@dataclass(frozen=True, eq=False)
class TargetTotals:
    """What all paths of a walk add to one target after another.

    `spent` counts the positions that were pulled back toward targets so far, times blocks, in all (False) and by order (True).
    """

    walk: Walk
    spent: Counter[bool] = field(default_factory=Counter)

    def total(self, target: Target, side: Side | None = None) -> float:
        """Return what all accepted paths add to a target; `side` forces one of the two recurrences."""
        return float(self._parts(target, False, side)[0])

    def by_order(self, target: Target, side: Side | None = None) -> Array:
        """Return what the accepted paths of each order add to a target, (blocks + 1,)."""
        return self._parts(target, True, side)

    def _parts(self, target: Target, by_order: bool, side: Side | None) -> Array:
        field = on_stream(target, self.walk.graph)
        side = side or self._cheaper(field, by_order)
        parts = (
            self._from_the_back(field, by_order) if side == "back" else self._from_the_front(field, by_order)
        )
        parts[0] += sum(value for value, _ in straight_values(self.walk, target))
        return parts

    def _from_the_back(self, field: Array, by_order: bool) -> Array:
        seen = positions_needed(self.walk, field)
        return Pullback(self.walk, field[:seen], by_order).totals()

    def _from_the_front(self, field: Array, by_order: bool) -> Array:
        stream, _ = self.walk.total_by_order if by_order else self.walk.total
        return np.tensordot(stream, field, axes=2)

    def _cheaper(self, field: Array, by_order: bool) -> Side:
        """The side on which fewer positions are left to take through blocks, what is kept for all queries left out."""
        if ("total_by_order" if by_order else "total") in vars(self.walk):
            return "front"
        graph, blocks = self.walk.graph, len(self.walk.graph.blocks)
        seen = positions_needed(self.walk, field)
        until, shared = self.walk.all_until[0], not by_order and fits(graph)
        free = self.walk.free_from[0] if shared else blocks
        front = len(field) * (blocks - kept_until(graph, until, "order" if by_order else "all"))
        passed = free if shared and is_pulled(graph, field[:seen], free) else blocks
        back = seen * (
            blocks // 2 if by_order else passed
        )  # by order, beginnings and endings meet in the middle
        spent = self.spent[by_order] + back
        if spent > front or (spent == front and free >= blocks - until):
            return "front"
        self.spent[by_order] = spent
        return "back"
