"""Pruning a flow to few edges that keep a chosen share of the target, with the exact remainder."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

from ..errors import PathexpError
from .flow import Edge, Names, check_flow, drawn
from .reach import Mask
from .sweep import Sweep
from .wires import Wires

if TYPE_CHECKING:
    import networkx as nx


def prune(flow: nx.MultiDiGraph, share: float = 0.9) -> nx.MultiDiGraph:
    """Return the strongest edges of a flow, as few as keep a share of the target, and what they leave over.

    Edges are taken in the order of |flow|. Kept is what all paths through kept edges alone add, computed
    exactly and not estimated from the flows; it must come within (1 - share) · |target| of the target. The
    number of edges is found by doubling and bisection, so that without its weakest edge the share is not kept.
    It is the smallest such beginning that the search met, not the smallest of all subgraphs, which would take
    a search over all sets of edges. Edges that no whole path is left for are dropped.

    Returns
    -------
    A flow like the given one, conserved among the kept paths, so each edge's `flow` is what kept paths carry
    and `whole` what it carried before. The graph carries `kept`, `remainder` (target - kept), `share` (as
    asked), `edges` (taken in order, dead ends included) and `of` (how many there were).

    Cost: O(log edges) evaluations, each about one backward and forward pass with an input of its own for every
    node. Raises PathexpError if share is not above 0 and at most 1, or if `flow` was not made by `px.flow`.

    >>> import pathexp as px
    >>> trace = px.random_model(layers=2, heads=3, seed=1).run([1, 2, 3])
    >>> whole = px.flow(trace, trace.logit(4))
    >>> small = px.prune(whole, share=0.8)
    >>> small.number_of_edges() < whole.number_of_edges()
    True
    >>> kept, left = small.graph["kept"], small.graph["remainder"]
    >>> abs(left) <= 0.2 * abs(whole.graph["value"]), abs(kept + left - whole.graph["value"]) < 1e-12
    (True, True)
    """
    check_flow(flow, "prune")
    if not isinstance(share, Real) or isinstance(share, bool) or not 0.0 < share <= 1.0:
        raise PathexpError(f"share is a part of the whole, above 0 and at most 1, not {share!r:.40}")
    search = _Search(flow, share)
    taken = search.fewest()
    return search.result(taken)


@dataclass(frozen=True, eq=False)
class _Search:
    flow: nx.MultiDiGraph
    share: float

    @cached_property
    def wires(self) -> Wires:
        return Wires(self.flow.graph["walk"], self.flow.graph["per_position"])

    @cached_property
    def edges(self) -> list[Edge]:
        """All edges, the strongest first, equal ones by name."""
        listed = [((a, b, key), amount) for a, b, key, amount in self.flow.edges(keys=True, data="flow")]
        return [edge for edge, _ in sorted(listed, key=lambda item: (-abs(item[1]), item[0]))]

    @cached_property
    def _tolerance(self) -> float:
        """How far the kept paths may stay from the target; rounding of the flows themselves allowed."""
        amounts = [abs(amount) for *_, amount in self.flow.edges(data="flow")]
        rounding = 1e-12 * max(amounts, default=0.0)
        return (1.0 - self.share) * abs(self.whole) + rounding

    @property
    def whole(self) -> float:
        return float(self.flow.graph["value"])

    def keeps(self, taken: int) -> bool:
        """Whether the first edges keep the share."""
        return abs(self.whole - self.sweep(taken).value) <= self._tolerance

    def fewest(self) -> int:
        """A number of edges that keeps the share although one fewer does not, found by doubling and bisection."""
        low, high, most = 0, 1, len(self.edges)
        if self.keeps(0):
            return 0
        while high < most and not self.keeps(high):
            low, high = high, 2 * high
        high = min(high, most)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.keeps(middle) else (middle, high)
        return high

    def sweep(self, taken: int) -> Sweep:
        """The flows through the first edges alone."""
        return Sweep(self.wires, self.flow.graph["target"], self._mask(self.edges[:taken]))

    def _mask(self, edges: list[Edge]) -> Mask:
        stream = np.zeros((len(self.wires.writers) * self.wires.copies, self.wires.columns), dtype=bool)
        direct = np.zeros((len(self.wires.directs), self.wires.copies), dtype=bool)
        for writer, reader, key in edges:
            if key == "direct":
                direct[self._directs[writer, reader]] = True
            else:
                stream[self._rows[writer], self._columns[reader]] = True
        return Mask(stream, direct)

    @cached_property
    def _names(self) -> Names:
        return Names(self.wires, self.flow.graph["target"].position)

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self._names.writers)}

    @cached_property
    def _columns(self) -> dict[str, int]:
        return {name: column for column, name in enumerate(self._names.readers)}

    @cached_property
    def _directs(self) -> dict[tuple[str, str], tuple[int, int]]:
        wires = self.wires
        return {
            self._names.direct(number, k): (number, k)
            for number in range(len(wires.directs))
            for k in range(wires.copies)
        }

    def result(self, taken: int) -> nx.MultiDiGraph:
        """The kept flow, with what it leaves over."""
        sweep = self.sweep(taken)
        kept = drawn(sweep)
        for writer, reader, key, attributes in kept.edges(keys=True, data=True):
            attributes["whole"] = self.flow.edges[writer, reader, key]["flow"]
        kept.graph.update(
            kept=sweep.value,
            remainder=self.whole - sweep.value,
            share=self.share,
            edges=taken,
            of=len(self.edges),
        )
        return kept
