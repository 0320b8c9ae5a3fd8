"""What states of the stream make of a target of logits: only the logits that the target reads are computed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...graph import Array, Indices, ResidualGraph, start_value
from ...graph.operators import act_at
from ...model import Target, Trace
from ...model.parts import unembedded

FEW = 256
"""Targets that read more outputs than this are read off whole logits."""

AT_ONCE = 64
"""Positions whose covectors are pulled back together; each takes as many numbers as there are outputs on the way."""


def own_values(trace: Trace, states: Array, direction: Array) -> Array:
    """Return a direction of logits at states of the stream (S, n, d), normalized by their own statistics: (S, n)."""
    outputs = np.flatnonzero(direction)
    if len(outputs) > FEW:
        return np.stack([unembedded(trace.model, state) @ direction for state in states])
    read = direction[outputs]
    return np.stack([unembedded(trace.model, state, outputs=outputs) @ read for state in states])


def frozen_values(graph: ResidualGraph, states: Array, direction: Array) -> Array:
    """Return a direction of logits at states of the stream (S, n, d), through the frozen sink of a graph: (S, n)."""
    n = states.shape[1]
    found = np.zeros(states.shape[:2])
    for begin in range(0, n, AT_ONCE):
        some = np.arange(begin, min(begin + AT_ONCE, n))
        found[:, some] = np.sum(states[:, some] * covectors(graph, direction, some), axis=-1)
    return found + sum((value @ direction for _, value in straight(graph)), np.zeros(n))


def covectors(graph: ResidualGraph, direction: Array, positions: Indices) -> Array:
    """Return what a direction of logits at some positions reads of the final stream there, (positions, d_model)."""
    each = np.broadcast_to(direction, (len(positions), len(direction)))
    return act_at(graph.sink.operator, positions, each, backward=True)


def straight(graph: ResidualGraph) -> Iterator[tuple[str, Array]]:
    """Yield the constants that the sink alone reads, and what they add to the logits, (n, d_out)."""
    for source in graph.sources:
        if graph.sink.label in source.into:
            yield source.label, start_value(source.start, source.into[graph.sink.label])


def target_parts(
    graph: ResidualGraph, target: Target, entries: Iterator[tuple[str, Array]]
) -> dict[str, float]:
    """Return what entries of the final stream, (n, d_model) each, and the sink's own constants add to a target."""
    place = target.position
    (covector,) = covectors(graph, target.direction, np.array([place]))
    found = {label: float(entry[place] @ covector) for label, entry in entries}
    return found | {label: float(value[place] @ target.direction) for label, value in straight(graph)}
