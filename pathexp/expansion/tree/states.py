"""The two recurrences over blocks and states with everything on the way kept: one dictionary of states a depth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from ...graph import Array, Pullback, Walk
from ...graph.walk import stream_at

ByState: TypeAlias = Mapping[int, Array]


def streams_by_depth(walk: Walk, positions: int) -> tuple[ByState, ...]:
    """Return by depth and state what all beginnings bring to the first positions, (positions, d) each.

    Costs one forward pass a live state; positions may be left off at the end if none looks ahead.
    """
    kept: list[ByState] = []
    live: dict[int, Array] = {}
    for depth in range(len(walk.graph.blocks) + 1):
        for state, _, value in walk.arrivals(depth):
            stream_at(live, state, (1, positions, value.shape[-1]))[0] += value[:positions]
        kept.append({state: stream[0] for state, stream in live.items()})
        if depth < len(walk.graph.blocks):
            live = walk.cross(depth, walk.graph.kernels[depth], live, by_order=False)
    return tuple(kept)


def fields_by_depth(walk: Walk, reading: Array) -> tuple[ByState, ...]:
    """Return by depth and state the reading (n, d) of the final stream pulled back through all endings.

    Costs one backward pass a live state.
    """
    blocks = len(walk.graph.blocks)
    back = Pullback(walk, reading)
    live = {state: reading[None] for state in walk.live[blocks] if walk.finishes(state)}
    kept: list[ByState] = [{state: field[0] for state, field in live.items()}]
    for b in reversed(range(blocks)):
        live = back.cross(b, live)
        kept.append({state: field[0] for state, field in live.items()})
    return tuple(reversed(kept))
