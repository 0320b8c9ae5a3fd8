"""What all beginnings bring to the stream at a depth, and all endings to a target: found once, for all queries.

Most queries leave open how a path begins or how it ends. Up to the first component that a query names, the paths it
accepts are all there are, in every graph that begins alike: those of the logits, and of any head's queries and keys. Behind the last
one, a target is pulled back through all endings, whatever the query. Kept within the budget of bytes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

import numpy as np

from ..budget import BUDGET
from .graph import ResidualGraph
from .nodes import Block, Start, start_value
from .operators import Array, Operator

SHARE = 8
"""Streams of all depths are kept if they take at most one in so many bytes of the budget."""


@dataclass(frozen=True, eq=False)
class Arrival:
    """A source where it comes to the stream: straight, or through the component that reads it (order 1)."""

    depth: int
    labels: tuple[str, ...]
    start: Start
    operator: Operator

    @property
    def order(self) -> int:
        """How many components its paths have passed."""
        return len(self.labels) - 1

    def value(self) -> Array:
        """What it brings, (n, d)."""
        return start_value(self.start, self.operator)


def arrivals(graph: ResidualGraph) -> tuple[Arrival, ...]:
    """Return where each source of a graph comes to the stream, in the order of sources.

    >>> import pathexp as px
    >>> [each.labels for each in arrivals(px.freeze(px.random_model(layers=1).run([1, 2])))]
    [('E',), ('P',)]
    """
    return BUDGET.get(graph, "arrivals", lambda: tuple(_arrivals(graph)))


def _arrivals(graph: ResidualGraph) -> list[Arrival]:
    found = []
    for source in graph.sources:
        if source.depth is not None:
            found.append(Arrival(source.depth, (source.label,), source.start, source.write))
        for label in (label for label in graph.places if label in source.into):
            into = source.into[label]
            found.append(Arrival(graph.places[label] + 1, (source.label, label), source.start, into))
    return found


class _Beginning:
    """What a stream was made of; the block before it, which owns it, left out."""

    def __init__(self, graph: ResidualGraph, depth: int) -> None:
        self.blocks: tuple[Block, ...] = graph.blocks[: depth - 1]
        self.arrivals = [each for each in arrivals(graph) if each.depth <= depth]

    def same(self, other: _Beginning) -> bool:
        """Whether another is made of the very same parts."""
        return (
            len(self.arrivals) == len(other.arrivals)
            and all(a is b for a, b in zip(self.blocks, other.blocks, strict=True))
            and all(map(_same, self.arrivals, other.arrivals))
        )


def _same(a: Arrival, b: Arrival) -> bool:
    return (a.depth, a.order) == (b.depth, b.order) and a.start is b.start and a.operator is b.operator


By = Literal["all", "order", "position"]
"""What is kept apart of a stream: nothing, the orders of its paths, or the positions at which they set out."""


def all_before(graph: ResidualGraph, depth: int, by: By = "all") -> Array:
    """Return what all beginnings bring to the stream before a block, (K, n, d), K being 1, depth + 1 orders or n positions.

    Costs one forward pass up to there, times what is kept apart, once for all graphs that begin alike.

    >>> import pathexp as px
    >>> trace = px.random_model(layers=2).run([1, 2, 3])
    >>> [bool(np.allclose(all_before(px.freeze(trace), 1, by).sum(axis=0), trace.residuals["L0.out"])) for by in ("all", "order", "position")]
    [True, True, True]
    """
    kept = fits(graph, by)
    begin = kept_until(graph, depth, by) if kept else 0
    stream = kept_before(graph, begin, by) if begin else None
    if stream is None:
        first = graph.sizes[0] if by == "position" else 1
        stream = _arrived(np.zeros((first, *graph.sizes[:2])), graph, 0, by)
    for b in range(begin, depth):
        stream = _arrived(_crossed(stream, graph, b, by == "order"), graph, b + 1, by)
        if kept:
            keep_before(graph, b + 1, by, stream)
    return stream


def all_along(graph: ResidualGraph) -> Iterator[Array]:
    """Yield what all beginnings bring to the stream before every block, and to the sink, (n, d) each.

    One forward pass in all, also where no stream is kept; what each block is read for can be done before the next.

    >>> import pathexp as px
    >>> trace = px.random_model(layers=2).run([1, 2, 3])
    >>> *_, final = all_along(px.freeze(trace))
    >>> bool(np.allclose(final, trace.residuals["final_in"]))
    True
    """
    kept = fits(graph)
    stream = _arrived(np.zeros((1, *graph.sizes[:2])), graph, 0, "all")
    for depth in range(len(graph.blocks) + 1):
        if depth:
            stream = (
                all_before(graph, depth)
                if kept
                else _arrived(_crossed(stream, graph, depth - 1, False), graph, depth, "all")
            )
        yield stream[0]


def _crossed(stream: Array, graph: ResidualGraph, b: int, by_order: bool) -> Array:
    """A stream behind a block: past it, and through all of its components."""
    block = graph.kernels[b]
    (total,) = block.sums(stream, [np.arange(len(graph.blocks[b].components))])
    after = np.zeros((len(stream) + by_order, *stream.shape[1:]))
    after[: len(stream)] += block.through_skip(stream)
    after[int(by_order) :] += total
    return after


def _arrived(stream: Array, graph: ResidualGraph, depth: int, by: By) -> Array:
    """A stream with what sources bring to it at a depth."""
    every = np.arange(graph.sizes[0])
    for each in arrivals(graph):
        if each.depth == depth and by == "position":
            stream[every, every] += each.value()
        elif each.depth == depth:
            stream[each.order if by == "order" and depth else 0] += each.value()
    return stream


def kept_until(graph: ResidualGraph, depth: int, by: By = "all") -> int:
    """Return the largest depth, at most this one, whose stream of all beginnings is kept; 0 for none."""
    return next((d for d in range(depth, 0, -1) if kept_before(graph, d, by) is not None), 0)


def kept_before(graph: ResidualGraph, depth: int, name: Hashable) -> Array | None:
    """Return what was kept by a name before a block, from 1 up, for graphs that begin alike; None where nothing was."""
    found = BUDGET.find(graph.blocks[depth - 1], ("all before", graph.sizes[0], name))
    if not isinstance(found, tuple) or not found[0].same(_Beginning(graph, depth)):
        return None
    kept: Array = found[1]
    return kept


def keep_before(graph: ResidualGraph, depth: int, name: Hashable, array: Array) -> None:
    """Keep what depends on the beginning of a graph alone: on its blocks before `depth`, and what sources bring up to there."""
    made = _Beginning(graph, depth), array.copy()
    made[1].setflags(write=False)
    BUDGET.get(graph.blocks[depth - 1], ("all before", graph.sizes[0], name), lambda: made)


def fits(graph: ResidualGraph, by: By = "all") -> bool:
    """Return whether streams of all depths are kept."""
    n, d, _ = graph.sizes
    depths = len(graph.blocks) + 1
    streams = {"all": depths, "order": depths * (depths + 1) // 2, "position": depths * n}[by]
    return bool(8 * n * d * streams * SHARE <= BUDGET.limit)


def all_after(graph: ResidualGraph, field: Array, depth: int) -> Array:
    """Return a covector field (first positions, d) on the final stream pulled back through all endings, to a depth.

    Costs one forward pass over its positions back to there, once for a field. Field and result have the same shape.
    """
    last, mark = len(graph.blocks), _mark(field)
    begin = next((d for d in range(depth, last) if _pulled(graph, mark, d) is not None), last)
    found = field if begin == last else _pulled(graph, mark, begin)
    assert found is not None, "it was there a moment ago, or is the field itself"
    for b in reversed(range(depth, begin)):
        block = graph.kernels[b].transposed
        (total,) = block.sums(found[None], [np.arange(len(graph.blocks[b].components))])
        found = (block.through_skip(found[None]) + total)[0]
        if fits(graph):
            _keep_pulled(graph, mark, b, found)
    return found


def is_pulled(graph: ResidualGraph, field: Array, depth: int) -> bool:
    """Whether a field pulled back to a depth is kept."""
    return depth == len(graph.blocks) or _pulled(graph, _mark(field), depth) is not None


def _mark(field: Array) -> bytes:
    return sha256(np.ascontiguousarray(field).data).digest()


def _pulled(graph: ResidualGraph, mark: bytes, depth: int) -> Array | None:
    found = BUDGET.find(graph, ("all after", mark, depth))
    return found if isinstance(found, np.ndarray) else None


def _keep_pulled(graph: ResidualGraph, mark: bytes, depth: int, found: Array) -> None:
    found.setflags(write=False)
    BUDGET.get(graph, ("all after", mark, depth), lambda: found)
