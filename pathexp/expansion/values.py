"""The value of every path toward a target, as one array aligned with iteration.

Paths are met in the middle: beginnings are pushed forward from the sources to one depth, endings pulled back from
the target to it, each once, and all their values are matrix products of the two.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

import numpy as np

from ..errors import SizeError
from ..graph import Array, BlockKernel, Walk, pull, push, start_value
from ..model import Target
from .targets import on_stream, reads_output

LISTING_LIMIT = 2_000_000
"""How many paths are evaluated one by one before `values` and `top` refuse."""

MEMORY_LIMIT = 2**28
"""How many numbers the shared endings may hold (2 GiB of float64)."""

CHUNK = 2**23
"""How many numbers of beginnings are held before they are met with the endings."""

Place = tuple[int, int]
"""Where a beginning ends: depth and state."""


def path_values(walk: Walk, target: Target) -> Array:
    """Return the value of every path of a walk toward a target, in the order of iteration.

    Cost: one component per beginning and per ending (about the square root of the number of paths each), then
    n · d multiply-adds a path; where endings would not fit in memory, paths meet later, at more beginnings.
    Raises SizeError if there are more than 2,000,000 paths, or if not even the shortest endings fit.
    """
    count = sum(walk.count_by_order)
    middle = _middle(walk)
    if count > LISTING_LIMIT or middle is None:
        n, d, _ = walk.graph.sizes
        raise SizeError(
            f"{count:,} paths are too many to evaluate one by one (limit {LISTING_LIMIT:,} paths and "
            f"{MEMORY_LIMIT:,} numbers held; every ending is {n} positions × {d} of them); narrow them with "
            "where(), or ask for totals: logits(), by_order(), value()"
        )
    return _Meeting(walk, middle, _Endings(walk, target)).values()


def _middle(walk: Walk) -> int | None:
    """The cheapest depth for paths to meet at, of those from which all endings fit in memory; None without any."""
    n, d, _ = walk.graph.sizes
    live = _beginnings(walk)
    best, least, endings = None, 0, 0
    for depth in reversed(range(len(live))):
        endings += sum(walk.completions.amount(depth, state) for state in live[depth])
        work = endings + sum(live[depth].values())
        if endings * n * d <= MEMORY_LIMIT and (best is None or work < least):
            best, least = depth, work
    return best


def _beginnings(walk: Walk) -> list[Counter[int]]:
    """Per depth, how many beginnings arrive in each state that can still be completed."""
    live = [Counter[int]() for _ in range(len(walk.completions))]
    for source, start in walk.starts():
        for _, depth, state, _ in walk.entries(source, start):
            live[depth][state] += walk.completions.leads(depth, state)
    for depth, here in enumerate(live[:-1]):
        for state, amount in here.items() if any(here.values()) else ():
            for after in (state, *(after for _, after in walk.onward(depth, state))):
                if walk.completions.leads(depth + 1, after):
                    live[depth + 1][after] += amount
    return live


def straight_values(walk: Walk, target: Target) -> Iterator[tuple[float, tuple[str, str]]]:
    """Yield value and path of every constant that goes straight into the sink."""
    sink = walk.graph.sink.label
    for source, state in walk.starts():
        if walk.straight(source, state):
            direct = start_value(source.start, source.into[sink])
            read = reads_output(target, walk.graph)
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
    _waiting: dict[Place, list[tuple[Array, list[int]]]] = field(default_factory=lambda: defaultdict(list))

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
                (c, after) for c, after in walk.onward(b, state) if walk.completions.leads(b + 1, after)
            ]
            if choices:
                outputs = walk.graph.kernels[b].each(x[None], np.array([c for c, _ in choices]))
                for output, (_, after) in zip(outputs, choices, strict=True):
                    self._begin(output[0], b + 1, after, used + 1)
            x = push(walk.graph.blocks[b].skip, x)
        self._wait(x, max(depth, self.middle), state, used)

    def _wait(self, x: Array, depth: int, state: int, used: int) -> None:
        """Leave a stream to be met, and keep the places of its values: one run of them for every order."""
        completions = self.walk.completions.by_order(depth, state)
        if not completions:
            return
        self._waiting[depth, state].append((x, self._next[used : used + len(completions)]))
        for order, ways in enumerate(completions):
            self._next[used + order] += ways
        if sum(map(len, self._waiting.values())) * x.size > CHUNK:
            self._meet()

    def _meet(self) -> None:
        """All values of the beginnings that wait."""
        for (depth, state), waiting in self._waiting.items():
            flat = np.concatenate([x.reshape(1, -1) for x, _ in waiting])
            for order, ways in enumerate(self.walk.completions.by_order(depth, state)):
                if ways:
                    endings = self.endings.at(depth, state, order)
                    values = flat @ endings.reshape(ways, -1).T
                    for row, (_, places) in zip(values, waiting, strict=True):
                        self._out[places[order] : places[order] + ways] = row
        self._waiting.clear()


@dataclass(frozen=True)
class _Endings:
    walk: Walk
    target: Target

    @cached_property
    def _forward(self) -> Sequence[BlockKernel]:
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
            for after, run in groupby(self.walk.choices(b, state, order), key=lambda choice: choice[1]):
                fields = self._through(b, [c for c, _ in run], self.at(b + 1, after, order - 1))
                parts.append(self._over_skips(fields, depth, b))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _through(self, depth: int, components: list[int], fields: Array) -> Array:
        """Fields (K, n, d) pulled back through each of some components: (components · K, n, d)."""
        pulled = self._forward[depth].transposed.each(fields, np.array(components))
        return pulled.reshape(-1, *fields.shape[1:])

    def _over_skips(self, fields: Array, depth: int, end: int) -> Array:
        for block in reversed(self.walk.graph.blocks[depth:end]):
            fields = pull(block.skip, fields)
        return fields
