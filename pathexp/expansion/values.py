"""The value of every path toward a target, as one array aligned with iteration.

Endings are pulled back from the target once and shared by all paths that end so; the first hop is pushed
forward from each source, so that the longest (most numerous) endings are never held.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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


def path_values(walk: Walk, target: Target) -> Array:
    """Return the value of every path of a walk toward a target, in the order of iteration.

    Raises SizeError if there are more than 2,000,000 paths, or if their endings do not fit in memory.
    """
    count = sum(walk.count_by_order)
    held = _endings_held(walk)
    n, d, _ = walk.graph.sizes
    numbers = held * n * d
    if count > LISTING_LIMIT or numbers > MEMORY_LIMIT:
        raise SizeError(
            f"{count:,} paths are too many to evaluate one by one (limit {LISTING_LIMIT:,} paths and "
            f"{MEMORY_LIMIT:,} numbers held; these need {numbers:,}); narrow them with where(), or ask for "
            "totals: logits(), by_order(), value()"
        )
    endings = _Endings(walk, target)
    pieces = [endings.of_order(order) for order, amount in enumerate(walk.count_by_order) if amount]
    return np.concatenate(pieces) if pieces else np.zeros(0)


def _endings_held(walk: Walk) -> int:
    """How many endings are pulled back and kept: all but those from the first block on."""
    return sum(sum(counts) for table in walk.completions[1:] for counts in table)


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

    def of_order(self, order: int) -> Array:
        """Values of the paths of one order, in their order of iteration."""
        walk = self.walk
        parts: list[Array] = []
        for source, state in walk.starts():
            if order == 0 and walk.straight(source, state):
                direct = start_value(source.start, source.into[walk.graph.sink.label])
                read = self.target.space == "logits"
                value = direct[self.target.position] @ self.target.direction if read else 0.0
                parts.append(np.array([value]))
            for labels, depth, after, used in walk.entries(source, state):
                if order >= used and walk.ways(depth, after, order - used):
                    operator = source.into[labels[0]] if labels else source.write
                    parts.append(
                        self._values(start_value(source.start, operator), depth, after, order - used)
                    )
        return np.concatenate(parts)

    def _values(self, x: Array, depth: int, state: int, order: int) -> Array:
        """Values of all endings from a stream x (n, d) that stands at a depth in a state."""
        if order == 0:
            return np.array([np.vdot(self._at(depth, state, 0)[0], x)])
        parts = []
        for b in range(depth, len(self._forward)):
            choices = self.walk.choices(b, state, order)
            outputs = self._forward[b].each(x[None], np.array([c for c, _ in choices], dtype=np.int64))
            for output, (_, after) in zip(outputs, choices, strict=True):
                fields = self._at(b + 1, after, order - 1)
                parts.append(fields.reshape(len(fields), -1) @ output.reshape(-1))
            x = push(self.walk.graph.blocks[b].skip, x)
        return np.concatenate(parts)

    def _at(self, depth: int, state: int, order: int) -> Array:
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
                fields = backward.each(self._at(b + 1, after, order - 1), np.array([c]))[0]
                parts.append(self._over_skips(fields, depth, b))
        return np.concatenate(parts)

    def _over_skips(self, fields: Array, depth: int, end: int) -> Array:
        for block in reversed(self.walk.graph.blocks[depth:end]):
            fields = pull(block.skip, fields)
        return fields
