"""Pruning a flow to few edges that keep a chosen share of the target, measured by paths and not by flows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...model import Target
from .flow_edges import FlowEdge
from .flow_names import FlowNames
from .flow_sweep import FlowSweep
from .open_edges import Mask
from .wires import Wires


@dataclass(frozen=True, eq=False)
class Pruning:
    """The search for how many of the strongest edges keep a share of `value`, which all `edges` add."""

    wires: Wires
    target: Target
    edges: tuple[FlowEdge, ...]
    value: float
    share: float

    def fewest(self) -> int:
        """Return a number of edges that keeps the share although one fewer does not, by doubling and bisection."""
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

    def keeps(self, taken: int) -> bool:
        """Whether the paths along the first edges alone keep the share."""
        return abs(self.value - self.sweep(taken).value) <= self._tolerance

    @cached_property
    def _tolerance(self) -> float:
        """How far the kept paths may stay from the target; rounding of the flows themselves allowed."""
        rounding = 1e-12 * max((abs(edge.flow) for edge in self.edges), default=0.0)
        return (1.0 - self.share) * abs(self.value) + rounding

    def sweep(self, taken: int) -> FlowSweep:
        """Return the flows through the first edges alone."""
        return FlowSweep(self.wires, self.target, self._mask(self.edges[:taken]))

    def _mask(self, edges: tuple[FlowEdge, ...]) -> Mask:
        stream = np.zeros((len(self.wires.writers) * self.wires.copies, self.wires.columns), dtype=bool)
        direct = np.zeros((len(self.wires.directs), self.wires.copies), dtype=bool)
        for edge in edges:
            if edge.kind == "direct":
                direct[self._directs[edge.writer, edge.reader]] = True
            else:
                stream[self._rows[edge.writer], self._columns[edge.reader]] = True
        return Mask(stream, direct)

    @cached_property
    def _names(self) -> FlowNames:
        return FlowNames(self.wires, self.target.position)

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self._names.writers)}

    @cached_property
    def _columns(self) -> dict[str, int]:
        return {name: column for column, name in enumerate(self._names.readers)}

    @cached_property
    def _directs(self) -> dict[tuple[str, str], tuple[int, int]]:
        return {
            self._names.direct(number, k): (number, k)
            for number in range(len(self.wires.directs))
            for k in range(self.wires.copies)
        }
