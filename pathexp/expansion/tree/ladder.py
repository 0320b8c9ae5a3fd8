"""Depths between which nothing happens on the skip edge: fields that meet many rows there do so at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...graph import Array, Indices, ResidualGraph, lengths
from ...graph.mixing import is_long
from .spots import Choices


@dataclass(frozen=True, eq=False)
class Rows:
    """What choices bring, (choices, n · d), and the deviations of its rounding by position, (choices, n)."""

    values: Array
    noise: Array


@dataclass(frozen=True)
class Ladder:
    """The skip edges of a graph, read backward (covectors to the sources) or forward (streams to the sink)."""

    graph: ResidualGraph
    backward: bool

    def cross(self, b: int, fields: Array) -> Array:
        """Fields (K, n, d) over the skip edge of one block."""
        block = self.graph.kernels[b]
        return (block.transposed if self.backward else block).through_skip(fields)

    def carry(self, field: Array, start: int, end: int) -> Array:
        """One field (n, d) from a depth to another, over all skip edges between."""
        for b in reversed(range(end, start)) if self.backward else range(start, end):
            if self.graph.blocks[b].skip:
                field = self.cross(b, field[None])[0]
        return field

    @cached_property
    def segments(self) -> tuple[tuple[int, int], ...]:
        """First and last depth of every stretch without a map on the skip edge, in the order of reading."""
        edges = [b + 1 for b, block in enumerate(self.graph.blocks) if block.skip]
        found = list(zip([0, *edges], [*(edge - 1 for edge in edges), len(self.graph.blocks)], strict=True))
        return tuple(reversed(found) if self.backward else found)

    def met(self, fields: Array, depths: Indices, choices: Choices, rows: Rows) -> tuple[Array, Array]:
        """Fields (K, n, d) at depths (K,), met with rows at the depths of choices: values and deviations, (K, W).

        Only what is reached from a field's depth is meant; what lies on its other side holds anything.
        """
        values, noise = (np.zeros((len(fields), len(rows.values))) for _ in range(2))
        for segment in self.segments:
            active = np.flatnonzero(depths >= segment[0] if self.backward else depths <= segment[1])
            if not len(active):
                continue
            where = self._columns(segment, depths[active], choices)
            every = len(active) == len(fields)
            here, place = (fields, slice(None)) if every else (fields[active], active)
            values[place, where] = products(here, rows.values[where])
            noise[place, where] = _met_noise(lengths(here), rows.noise[where])
            fields = self._onward(segment, fields, active)
        return values, noise

    def _columns(self, segment: tuple[int, int], depths: Indices, choices: Choices) -> slice:
        """The choices of a segment that some field reaches."""
        low, high = segment
        if self.backward:
            return slice(choices.onward(low).start, choices.up_to(min(high, int(depths.max()))).stop)
        return slice(choices.onward(max(low, int(depths.min()))).start, choices.up_to(high).stop)

    def _onward(self, segment: tuple[int, int], fields: Array, active: Indices) -> Array:
        """The fields at the end of a segment, over the skip edge to the next one, if there is one."""
        b = segment[0] - 1 if self.backward else segment[1]
        if not 0 <= b < len(self.graph.blocks):
            return fields
        after = fields.copy()
        after[active] = self.cross(b, fields[active])
        return after


def products(fields: Array, rows: Array) -> Array:
    """Return inner products of fields (K, n, d) with rows (W, n · d): (K, W).

    Fields of a long text that are zero at most positions read only the others' numbers.

    >>> fields, rows = np.zeros((1, 300, 2)), np.ones((1, 600))
    >>> fields[0, 7] = 1.0
    >>> products(fields, rows)
    array([[2.]])
    """
    (k, n, d), met = fields.shape, np.empty((len(fields), len(rows)))
    seen = np.asarray(fields.any(axis=-1)) if is_long(n) else np.ones((k, n), dtype=bool)
    narrow = 2 * seen.sum(axis=-1) <= n
    for which in (np.flatnonzero(narrow), np.flatnonzero(~narrow)):
        places = np.flatnonzero(seen[which].any(axis=0))
        if 2 * len(places) <= n:
            size, apart = len(places) * d, rows.reshape(len(rows), n, d)
            some = fields[which][:, places].reshape(len(which), size)
            met[which] = some @ apart[:, places].reshape(len(rows), size).T
        else:
            every = fields if len(which) == k else fields[which]
            met[which] = every.reshape(len(which), n * d) @ rows.T
    return met


def _met_noise(sizes: Array, noise: Array) -> Array:
    """Deviations (K, W) of products of fields of some lengths (K, n) with rows of some noise (W, n).

    Both are scaled before they are squared, so that neither huge nor tiny weights over- or underflow.
    """
    (sizes, largest), (noise, loudest) = _scaled(sizes), _scaled(noise)
    return np.asarray(largest * np.sqrt(sizes**2 @ (noise**2).T) * loudest.T)


def _scaled(x: Array) -> tuple[Array, Array]:
    """Rows (K, n) with their largest entry at 1, and how large it was, (K, 1); rows of zeros stay."""
    largest = np.max(np.abs(x), axis=-1, initial=0.0, keepdims=True)
    return np.divide(x, largest, out=np.zeros_like(x), where=largest > 0), largest
