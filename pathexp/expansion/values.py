"""The value of every path toward a target, as one array aligned with iteration.

Paths are met in the middle: beginnings are pushed forward from the sources to one depth, endings pulled back from
the target to it, each once, and all their values are matrix products of the two.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..errors import SizeError
from ..graph import Array, BlockKernel, Walk, pull, push, start_value
from ..model import Target
from .targets import on_stream

LISTING_LIMIT = 2_000_000
"""How many paths are evaluated one by one before `values` and `top` refuse."""

MEMORY_LIMIT = 2**28
"""How many numbers the shared endings may hold (2 GiB of float64)."""

CHUNK = 2**23
"""How many numbers of beginnings are held before they are met with the endings."""

Key = tuple[int, int, int]
"""Which endings: depth, state, order."""


def path_values(walk: Walk, target: Target) -> Array:
    """Return the value of every path of a walk toward a target, in the order of iteration.

    Cost: one component per beginning and per ending (about the square root of the number of paths each), then
    n · d multiply-adds a path. Raises SizeError if there are more than 2,000,000 paths, or if the endings of the
    cheapest depth to meet at do not fit in memory.
    """
    count = sum(walk.count_by_order)
    middle = _middle(walk)
    n, d, _ = walk.graph.sizes
    numbers = _endings(walk, middle) * n * d
    if count > LISTING_LIMIT or numbers > MEMORY_LIMIT:
        raise SizeError(
            f"{count:,} paths are too many to evaluate one by one (limit {LISTING_LIMIT:,} paths and "
            f"{MEMORY_LIMIT:,} numbers held; these need {numbers:,}); narrow them with where(), or ask for "
            "totals: logits(), by_order(), value()"
        )
    return _Meeting(walk, middle, _Endings(walk, target)).values()


def _endings(walk: Walk, depth: int) -> int:
    """How many endings are held if paths meet at a depth: those from there on, and from all later depths."""
    return sum(sum(counts) for table in walk.completions[depth:] for counts in table)


def _middle(walk: Walk) -> int:
    """The depth at which about as many beginnings arrive as endings leave."""
    blocks = walk.graph.blocks
    beginnings, best, least = max(1, len(walk.graph.sources)), 0, None
    for depth in range(len(blocks) + 1):
        work = beginnings + _endings(walk, depth)
        if least is None or work < least:
            best, least = depth, work
        if depth < len(blocks):
            beginnings *= 1 + len(blocks[depth].components)
    return best


def straight_values(walk: Walk, target: Target) -> Iterator[tuple[float, tuple[str, str]]]:
    """Yield value and path of every constant that goes straight into the sink."""
    sink = walk.graph.sink.label
    for source, state in walk.starts():
        if walk.straight(source, state):
            direct = start_value(source.start, source.into[sink])
            read = target.space == "logits"
            yield (
                float(direct[target.position] @ target.direction) if read else 0.0,
                (source.label, sink),
            )


@dataclass(frozen=True)
class _Meeting:
    """Beginnings walked to the middle in the order of iteration, and met there with the endings."""

    walk: Walk
    middle: int
    endings: _Endings
    _waiting: dict[Key, list[tuple[Array, int]]] = field(default_factory=lambda: defaultdict(list))

    @cached_property
    def _out(self) -> Array:
        return np.zeros(sum(self.walk.count_by_order))

    @cached_property
    def _next(self) -> list[int]:
        """Per order, where its next value belongs."""
        return [0, *np.cumsum(self.walk.count_by_order).tolist()]

    def values(self) -> Array:
        straight = {word[0]: value for value, word in straight_values(self.walk, self.endings.target)}
        for source, state in self.walk.starts():
            if source.label in straight:
                self._out[self._next[0]] = straight[source.label]
                self._next[0] += 1
            for labels, depth, after, used in self.walk.entries(source, state):
                operator = source.into[labels[0]] if labels else source.write
                self._begin(start_value(source.start, operator), depth, after, used)
        self._meet()
        return self._out

    def _begin(self, x: Array, depth: int, state: int, used: int) -> None:
        """Go on from a stream x (n, d) through the components before the middle, then leave it to be met."""
        walk = self.walk
        for b in range(depth, self.middle):
            choices = [
                (c, after) for c, after in walk.onward(b, state) if any(walk.completions[b + 1][after])
            ]
            if choices:
                outputs = walk.graph.kernels[b].each(x[None], np.array([c for c, _ in choices]))
                for output, (_, after) in zip(outputs, choices, strict=True):
                    self._begin(output[0], b + 1, after, used + 1)
            x = push(walk.graph.blocks[b].skip, x)
        depth = max(depth, self.middle)
        for order, ways in enumerate(walk.completions[depth][state]):
            if ways:
                self._waiting[depth, state, order].append((x, self._next[used + order]))
                self._next[used + order] += ways
        if sum(map(len, self._waiting.values())) * x.size > CHUNK:
            self._meet()

    def _meet(self) -> None:
        """All values of the beginnings that wait."""
        for (depth, state, order), waiting in self._waiting.items():
            endings = self.endings.at(depth, state, order)
            flat = np.stack([x.reshape(-1) for x, _ in waiting])
            values = flat @ endings.reshape(len(endings), -1).T
            for row, (_, place) in zip(values, waiting, strict=True):
                self._out[place : place + len(row)] = row
        self._waiting.clear()


@dataclass(frozen=True)
class _Endings:
    walk: Walk
    target: Target

    @cached_property
    def _forward(self) -> tuple[BlockKernel, ...]:
        return self.walk.graph.kernels

    @cached_property
    def _field(self) -> Array:
        return on_stream(self.target, self.walk.graph)

    @cached_property
    def _held(self) -> dict[tuple[int, int, int], Array]:
        return {}

    def at(self, depth: int, state: int, order: int) -> Array:
        """The target pulled back through every ending: covector fields (endings, n, d)."""
        key = (depth, state, order)
        if key not in self._held:
            self._held[key] = self._pulled(depth, state, order)
        return self._held[key]

    def _pulled(self, depth: int, state: int, order: int) -> Array:
        if order == 0:
            return self._over_skips(self._field[None], depth, len(self._forward))
        parts = []
        for b in range(depth, len(self._forward)):
            backward = self._forward[b].transposed
            for c, after in self.walk.choices(b, state, order):
                fields = backward.each(self.at(b + 1, after, order - 1), np.array([c]))[0]
                parts.append(self._over_skips(fields, depth, b))
        return np.concatenate(parts)

    def _over_skips(self, fields: Array, depth: int, end: int) -> Array:
        for block in reversed(self.walk.graph.blocks[depth:end]):
            fields = pull(block.skip, fields)
        return fields
