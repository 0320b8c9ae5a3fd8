"""What a search is for: a target as covectors on the final stream, scaled to entries of at most one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import frexp, inf, ldexp

import numpy as np

from ...graph import Array, Operator, ResidualGraph, Source, start_value
from ...model import Target
from ..targets import on_stream, reads_output
from .ends import narrowed, starting_lost
from .rounding import finite, gamma, lengths, powers
from .sizes import underflow


@dataclass(frozen=True, eq=False)
class Goal:
    """Covectors (n, d) on the final stream; values that are read off them are times 2^`exponent`.

    `sizes` (n,) is how long the target's covectors are at the sink's results; zero if it reads the stream itself.
    `sink` is the way from there, of the rows that the target reads; `lost` is what underflows on it.
    """

    field: Array
    sizes: Array
    exponent: int
    sink: Operator = ()
    lost: float = 0.0

    @classmethod
    def of(cls, target: Target, graph: ResidualGraph) -> Goal:
        """The goal that a target is; raises TargetError as `on_stream` does."""
        large = float(powers(target.direction, (0,))[0])
        unit = replace(target, direction=target.direction / large, value=target.value / large)
        field = on_stream(unit, graph)
        scale = float(powers(field, (0, 1))[0, 0])
        if not reads_output(target, graph):
            return cls(field / scale, np.zeros(len(field)), _log(scale) + _log(large))
        sizes = np.zeros(len(field))
        sizes[target.position] = float(lengths(unit.direction)) / scale
        sink, _ = narrowed(graph.sink.operator, unit.direction)
        return cls(field / scale, sizes, _log(scale) + _log(large), sink, underflow(sink) / scale)

    def units(self, value: float) -> float:
        """A value in the target's units."""
        return _times_power(value, self.exponent)

    def scaled(self, value: float) -> float:
        """A value of the target's units in the search's."""
        return _times_power(value, -self.exponent)

    def most(self, bound: float) -> float:
        """A bound or an error in the target's units, no smaller for underflow."""
        return self.units(bound) + 4 * _LEAST if bound else 0.0


def _times_power(value: float, exponent: int) -> float:
    """A number times a power of two; infinite where that leaves the range."""
    try:
        return ldexp(value, exponent)
    except OverflowError:
        return inf if value > 0 else -inf


def _log(power: float) -> int:
    """The exponent of a power of two."""
    return frexp(power)[1] - 1


_LEAST = float(np.finfo(np.float64).smallest_subnormal)


def constant_lost(source: Source, graph: ResidualGraph, target: Target) -> float:
    """Return how far the value of a constant that goes straight into the sink is from exact."""
    if not reads_output(target, graph):
        return 0.0
    operator, (n, _, d_out) = source.into[graph.sink.label], graph.sizes
    off = starting_lost(source.start, operator, n)[target.position]
    direct = start_value(source.start, operator)[target.position]
    met = float(np.abs(target.direction) @ np.abs(direct))
    lost = lengths(target.direction) * off + 2 * gamma(int(np.count_nonzero(target.direction))) * met
    return float(finite(lost)) + 4 * d_out * _LEAST
