"""A target as the engine reads it: one covector field on the final stream."""

from __future__ import annotations

import numpy as np

from ..errors import TargetError
from ..graph import Array, ResidualGraph, pull
from ..model import Target


def on_stream(target: Target, graph: ResidualGraph) -> Array:
    """Return the covector field (position, d_model) that reads the target off the final stream."""
    n, d, d_out = graph.sizes
    if graph.before_cap and target.space == "logits":
        raise TargetError(
            f"target {target.label!r} is of capped logits, but this graph was frozen with cap='before' and adds "
            "up to the logits before the cap; freeze with cap='ratio', or take a direction in space 'residual'"
        )
    width = d_out if target.space == "logits" else d
    if target.direction.shape != (width,) or not target.position < n:
        raise TargetError(
            f"target {target.label!r} has {target.direction.shape[0]} numbers at position {target.position}, "
            f"but this graph has {n} positions of {width} {target.space} each; "
            "make the target from the same trace"
        )
    field = np.zeros((n, width))
    field[target.position] = target.direction
    return pull(graph.sink.operator, field) if target.space == "logits" else field
