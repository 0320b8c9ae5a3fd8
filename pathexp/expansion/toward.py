"""What all paths together add to a target, summed from the side that costs less.

From the front, streams flow to the sink, are kept, and give any further target as an inner product. From the back,
the target's covector flows to the sources: no unembedding, and only the positions that the target can see. Streams
that are kept cost nothing; else one comes from the back as long as all positions pulled back so far are fewer than
those of one forward pass, so that many targets never cost twice what they have to.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from ..graph import Array, Pullback, Walk, positions_needed
from ..model import Target
from .targets import on_stream
from .values import straight_values

Side: TypeAlias = Literal["front", "back"]


def total_toward(walk: Walk, target: Target, side: Side | None = None) -> float:
    """Return what all accepted paths add to a target; `side` forces one of the two recurrences."""
    return float(_parts(walk, target, False, side)[0])


def totals_toward(walk: Walk, target: Target, side: Side | None = None) -> Array:
    """Return what the accepted paths of each order add to a target, (blocks + 1,)."""
    return _parts(walk, target, True, side)


def _parts(walk: Walk, target: Target, by_order: bool, side: Side | None) -> Array:
    field = on_stream(target, walk.graph)
    if (side or _cheaper(walk, field, by_order)) == "back":
        seen = positions_needed(walk, field)
        parts = Pullback(walk, field[:seen], by_order).totals()
    else:
        stream, _ = walk.total_by_order if by_order else walk.total
        parts = np.tensordot(stream, field, axes=2)
    parts[0] += sum(value for value, _ in straight_values(walk, target))
    return parts


def _cheaper(walk: Walk, field: Array, by_order: bool) -> Side:
    """Either side crosses the same blocks in the same states: what differs is for how many positions."""
    if ("total_by_order" if by_order else "total") in vars(walk):
        return "front"
    spent = walk.pulled_back[by_order] + positions_needed(walk, field)
    if spent >= len(field):
        return "front"
    walk.pulled_back[by_order] = spent
    return "back"
