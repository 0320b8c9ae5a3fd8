"""The recurrence from the back: a covector field pulled through blocks × states, met with what sources bring.

Toward one target nobody needs the stream: its covector, pulled back through all accepted endings at once, is met
with every source where it enters. Nothing is unembedded, and where no position looks ahead a target needs the
positions up to its own only. Elhage et al. 2021, "Path Expansion of Logits", read from the logits down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .kept_streams import all_after, arrivals, fits
from .operators import Array
from .stack import Indices
from .walk import Walk, stream_at


@dataclass(frozen=True, eq=False)
class Pullback:
    """A covector field (first positions, d_model) on the final stream, pulled back through a walk's paths.

    The field may leave off positions at the end if no position looks ahead (`positions_needed`).

    >>> import numpy as np, pathexp as px
    >>> trace = px.random_model(layers=2, heads=2, positions="none", seed=1).run([1, 2, 3])
    >>> field = np.zeros((2, 24))
    >>> field[1] = trace.model.weights.W_U[4]  # the logit of token 4 at position 1
    >>> total = Pullback(px.expand(trace).walk, field).totals()[0]
    >>> bool(abs(total - trace.logits[1, 4]) < 1e-12)
    True
    """

    walk: Walk
    field: Array
    by_order: bool = False

    def totals(self) -> Array:
        """What the accepted paths on the stream add to the field's reading, (K,): by order, or K = 1 in all.

        Cost: one forward pass over the field's positions per live state, in all, where every ending is accepted, once for all
        queries. By order, beginnings and endings meet in the middle: of b blocks they take b²/4 passes of one block.
        """
        blocks = len(self.walk.graph.blocks)
        live: Mapping[int, Array] = {
            state: self.field[None] for state in self.walk.live[blocks] if self.walk.finishes(state)
        }
        if self.by_order:
            return self._by_order(live, blocks // 2)
        totals = np.zeros(1)
        self._meet(blocks, live, totals)
        free, state = self.walk.free_from if fits(self.walk.graph) else (blocks, -1)
        for b in reversed(range(blocks)):
            if b < free:
                live = self.cross(b, live)
            elif self._arrive(b) or b == free:
                live = {state: all_after(self.walk.graph, self.field, b)[None]}
            else:
                continue
            self._meet(b, live, totals)
        return totals

    def _by_order(self, live: Mapping[int, Array], middle: int) -> Array:
        """The totals by order: endings of each order pulled back to a depth, met there with beginnings of each order."""
        blocks = len(self.walk.graph.blocks)
        totals = np.zeros(blocks + 1)
        for depth in reversed(range(middle + 1, blocks + 1)):
            self._meet(depth, live, totals)
            live = self.cross(depth - 1, live)
        beginnings = self.walk.before(middle, by_order=True)
        for state in sorted(live.keys() & beginnings.keys()):
            streams = beginnings[state][: middle + 1, : len(self.field)]
            met = np.tensordot(streams, live[state], axes=([1, 2], [1, 2]))
            for order, row in enumerate(met):
                totals[order : order + len(row)] += row
        return totals

    def _arrive(self, depth: int) -> bool:
        return any(each.depth == depth for each in arrivals(self.walk.graph))

    def cross(self, b: int, live: Mapping[int, Array]) -> dict[int, Array]:
        """One block: fields at its results, by state and order of the ending, to fields at what it reads."""
        block, before = self.walk.graph.kernels[b].transposed, dict[int, Array]()
        orders = len(self.walk.graph.blocks) - b + 1 if self.by_order else 1
        for after, fields in live.items():
            shape = (orders, *self.field.shape)
            if after in self.walk.live[b]:
                stream_at(before, after, shape)[: len(fields)] += block.through_skip(fields)
            groups = self._groups(b, after)
            for state, total in zip(groups, block.sums(fields, list(groups.values())), strict=True):
                stream_at(before, state, shape)[int(self.by_order) :] += total
        return before

    def _groups(self, b: int, after: int) -> dict[int, Indices]:
        """The block's components that lead into a state, by the live state they lead from."""
        steps = self.walk.steps[b]
        found = {state: np.flatnonzero(steps[state] == after) for state in sorted(self.walk.live[b])}
        return {state: components for state, components in found.items() if len(components)}

    def _meet(self, depth: int, live: Mapping[int, Array], totals: Array) -> None:
        """Add what the sources that enter at a depth bring to each ending."""
        for state, order, value in self.walk.arrivals(depth):
            met = np.tensordot(live[state], value[: len(self.field)], axes=2)
            totals[order * self.by_order :][: len(met)] += met


def positions_needed(walk: Walk, field: Array) -> int:
    """Return how many first positions a field's value depends on: up to its last, or all where one looks ahead."""
    if walk.graph.looks_ahead:
        return len(field)
    read = np.flatnonzero(field.any(axis=-1))
    return int(read[-1]) + 1 if len(read) else 1
