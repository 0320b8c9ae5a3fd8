"""Few paths added one by one: every path's own stream, made once, from beginnings that paths share.

Unlike a recurrence, which adds up streams at every block, each path stays apart until the sink.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np

from ..graph import Array, BlockKernel, Walk, lengths, push, spread, start_value

Held = dict[int, Array]
"""By state, the streams of beginnings, (K, n, d)."""

MOST = 1_000
"""Up to this many paths are added one by one."""

MOST_NUMBERS = 2**23
"""Up to this many numbers of their streams (64 MiB); beyond, a recurrence over all paths costs less."""


def is_small(walk: Walk) -> bool:
    """Return whether the paths of a walk are few, and their streams small, enough to be added one by one."""
    count = sum(walk.count_by_order)
    return count <= MOST and count * int(np.prod(walk.graph.sizes[:2])) <= MOST_NUMBERS


def sum_of_paths(walk: Walk) -> tuple[int, Array, float]:
    """Return how many paths were added, the sum of their logits (n, d_out), and how large what was added is.

    The size bounds, at any logit, the numbers that were rounded when they were added up: those of the streams,
    carried to the logits as independent noise is. Costs one component for every beginning of a path.
    """
    streams, straight = path_streams(walk), straight_logits(walk)
    total = push(walk.graph.sink.operator, streams.sum(axis=0)) + straight.sum(axis=0)
    sizes = lengths(np.abs(streams).sum(axis=0)) / np.sqrt(streams.shape[-1])
    size = spread(walk.graph.sink.operator, sizes) + np.abs(straight).sum(axis=0).max(axis=-1, initial=0.0)
    return len(streams) + len(straight), total, float(np.max(size, initial=0.0))


def path_streams(walk: Walk) -> Array:
    """Return what every path through the stream brings to the sink, (paths, n, d_model)."""
    kernels, held = walk.graph.kernels, Held()
    for depth in range(len(kernels) + 1):
        arrived = ((state, value[None]) for state, _, value in walk.arrivals(depth))
        held = _together([*held.items(), *arrived])
        if depth < len(kernels):
            held = _together(_crossed(walk, depth, kernels[depth], held))
    finals = [streams for state, streams in held.items() if walk.finishes(state)]
    return np.concatenate([np.zeros((0, *walk.graph.sizes[:2])), *finals])


def straight_logits(walk: Walk) -> Array:
    """Return what every constant that goes straight into the sink adds to the logits, (paths, n, d_out)."""
    n, _, d_out = walk.graph.sizes
    found = [
        start_value(source.start, source.into[walk.graph.sink.label])
        for source, state in walk.starts()
        if walk.straight(source, state)
    ]
    return np.stack(found) if found else np.zeros((0, n, d_out))


def _together(parts: Iterable[tuple[int, Array]]) -> Held:
    """Streams by state, side by side."""
    by_state: dict[int, list[Array]] = defaultdict(list)
    for state, streams in parts:
        by_state[state].append(streams)
    return {state: np.concatenate(streams) for state, streams in by_state.items()}


def _crossed(walk: Walk, depth: int, block: BlockKernel, held: Held) -> Iterator[tuple[int, Array]]:
    """Every beginning goes on over the skip edge, and through each component that leads to an end."""
    for state, streams in held.items():
        if walk.completions.leads(depth + 1, state):
            yield state, block.through_skip(streams)
        for after, members in walk.onward_by_state(depth, state).items():
            yield after, block.each(streams, members).reshape(-1, *streams.shape[1:])
