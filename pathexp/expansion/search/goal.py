"""What a search is for: a target as covectors on the final stream, scaled to entries of at most one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...graph import Array, ResidualGraph, Source, start_value
from ...model import Target
from ..targets import on_stream
from .rounding import gamma, lengths, powers
from .sizes import starting_lost


@dataclass(frozen=True, eq=False)
class Goal:
    """Covectors (n, d) on the final stream; values that are read off them are times `scale`, a power of two.

    `sizes` (n,) is how long the target's covectors are at the sink's results; zero if it reads the stream itself.
    """

    field: Array
    sizes: Array
    scale: float

    @classmethod
    def of(cls, target: Target, graph: ResidualGraph) -> Goal:
        """The goal that a target is; raises TargetError as `on_stream` does."""
        field = on_stream(target, graph)
        scale = float(powers(field, (0, 1))[0, 0])
        sizes = np.zeros(len(field))
        if target.space == "logits":
            sizes[target.position] = float(lengths(target.direction / scale))
        return cls(field / scale, sizes, scale)


def constant_lost(source: Source, graph: ResidualGraph, target: Target) -> float:
    """Return how far the value of a constant that goes straight into the sink is from exact."""
    if target.space != "logits":
        return 0.0
    operator, (n, _, d_out) = source.into[graph.sink.label], graph.sizes
    off = starting_lost(source.start, operator, n)[target.position]
    direct = start_value(source.start, operator)[target.position]
    return float(lengths(target.direction) * (off + 2 * gamma(d_out) * lengths(direct)))
