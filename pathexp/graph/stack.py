"""Heads of one block with one waist side by side: what they read, move between positions, and write, in three products."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..algebra import Dense, Diagonal, waist
from ..budget import BUDGET, BUFFERS
from ..workers import one_thread
from .measures import in_range, lengths, product_norm
from .mixing import OTHER_WAY, Seen, is_long, mix, mix_noise
from .operators import Array, Factor, Step, is_lower, word_map

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class HeadMaps:
    """Heads with one waist side by side: what they `read` with (C, r, d), and what they write with, `out` (C, r, d).

    Of weights alone: all runs of a model share them. Read backward, the two change places: none is copied.
    """

    read: Array
    out: Array

    @property
    def write(self) -> Array:
        """What the heads write with, (C, d, r)."""
        return self.out.transpose(0, 2, 1)

    @cached_property
    def norm(self) -> Array:
        """Frobenius norm of each head's map: (C,)."""
        return product_norm(self.write, self.read)


@dataclass(frozen=True, eq=False)
class Stack:
    """Heads of one block with one waist: the `maps` that they read and write with, and how they move between positions.

    How they move is `raw` (C, n, n), and where a norm scales the positions of all of them alike, `scale` (n,), before it (read backward,
    behind it): patterns of a long text are so held once.
    """

    members: Indices
    raw: Array
    maps: HeadMaps
    seen: Seen = "all"
    scale: Array | None = None
    backward: bool = False

    @property
    def patterns(self) -> Array:
        """What the heads move between positions, (C, n, n)."""
        if self.scale is None:
            return self.raw
        return self.raw * (self.scale[:, None] if self.backward else self.scale)

    @property
    def read(self) -> Array:
        """What the heads read with, (C, r, d)."""
        return self.maps.read

    @property
    def out(self) -> Array:
        """What the heads write with, (C, r, d)."""
        return self.maps.out

    @property
    def write(self) -> Array:
        """What the heads write with, (C, d, r)."""
        return self.maps.write

    @property
    def norm(self) -> Array:
        """Frobenius norm of each head's feature map: (C,)."""
        return self.maps.norm

    def pick(self, wanted: Indices) -> Indices:
        """Return where in this stack the wanted components of the block stand."""
        return np.flatnonzero(np.isin(self.members, wanted))

    def values(self, x: Array, rows: Indices) -> Array:
        """Streams (K, n, d) to moved values (K, n, len(rows), r)."""
        k, n, d = x.shape
        read = self.read if len(rows) == len(self.members) else self.read[rows]
        c, r = read.shape[:2]
        values = (x.reshape(k * n, d) @ read.reshape(c * r, d).T).reshape(k, n, c, r)
        moved = self._moved(values.transpose(2, 1, 0, 3).reshape(c, n, k * r), rows)
        return moved.reshape(c, n, k, r).transpose(2, 1, 0, 3)

    def _moved(self, values: Array, rows: Indices) -> Array:
        """Values (len(rows), n, m) of the first positions, moved by each chosen head."""
        n = values.shape[1]
        if self.scale is None:
            return mix(self._raw(rows, n), values, self.seen)
        scale = self.scale[:n, None]
        if self.backward:
            return scale * mix(self._raw(rows, n), values, self.seen)
        return mix(self._raw(rows, n), scale * values, self.seen)

    def _raw(self, rows: Indices, n: int) -> Array:
        """The chosen heads' `raw` on the first positions; not copied where all of them, or one, are chosen."""
        if len(rows) == len(self.members):
            return self.raw[:, :n, :n]
        some = slice(rows[0], rows[0] + 1) if len(rows) == 1 else rows
        return self.raw[some, :n, :n]

    def written(self, values: Array, rows: Indices) -> Array:
        """Moved values (K, n, len(rows), r) to the sum of what their heads write, (K, n, d)."""
        k, n, c, r = values.shape
        out = self.out if c == len(self.members) else self.out[rows]
        return (values.reshape(k * n, c * r) @ out.reshape(c * r, -1)).reshape(k, n, -1)

    def each(self, x: Array, rows: Indices, out: Array | None = None) -> Array:
        """Streams (K, n, d) to what each chosen head writes, (len(rows), K, n, d); `out` takes it, if given."""
        k, n, d = x.shape
        moved = self.values(x, rows).transpose(2, 0, 1, 3).reshape(len(rows), k * n, -1)
        written = self.out if len(rows) == len(self.members) else self.out[rows]
        if out is None:
            return (moved @ written).reshape(len(rows), k, n, d)
        np.matmul(moved, written, out=out.reshape(len(rows), k * n, d))
        return out

    def sizes(self, x: Array, rows: Indices) -> Array:
        """How long what each chosen head writes of streams (K, n, d) is, (len(rows), K, n); of few vectors they are made."""
        if x.shape[0] * x.shape[1] < self.out.shape[1]:
            return lengths(self.each(x, rows))
        moved = self.values(x, rows).transpose(2, 0, 1, 3)
        with one_thread():
            squares = self.out[rows] @ self.write[rows]
        with np.errstate(over="ignore", invalid="ignore"):  # what leaves the range is measured itself
            found = np.sum(moved @ squares[:, None] * moved, axis=-1)
        return np.sqrt(found) if in_range(found).all() else lengths(self.each(x, rows))

    def mix_noise(self, noise: Array, rows: Indices) -> Array:
        """Return the deviations (len(rows), n) of independent noise (n,) moved by each chosen head's pattern."""
        n = len(noise)
        scale = np.ones(n) if self.scale is None else np.abs(self.scale[:n])
        if self.backward:
            return scale * mix_noise(self._raw(rows, n), noise, self.seen)
        return mix_noise(self._raw(rows, n), scale * noise, self.seen)

    def transposed(self) -> Stack:
        """The same heads read backward: covectors at their outputs to covectors at their inputs."""
        return Stack(
            self.members,
            self.raw.transpose(0, 2, 1),
            HeadMaps(self.out, self.read),
            OTHER_WAY[self.seen],
            self.scale,
            not self.backward,
        )


def stacked(members: Sequence[int], steps: Sequence[Step], maps: HeadMaps, positions: int) -> Stack:
    """Return the stack of heads: their numbers, their steps, and what they read and write with."""
    seen: Seen = "earlier" if all(is_lower(step.position) for step in steps) else "all"
    raw, scale = _patterns([step.position for step in steps], positions)
    return Stack(np.array(members), raw, maps, seen, scale)


def head_maps(steps: Sequence[Step]) -> tuple[tuple[Indices, HeadMaps], ...]:
    """Return what heads read and write with, those of one waist side by side: which they are, and their maps.

    Where all of it is made of the weights of one model, it is kept for all of its runs, within the budget.
    """
    words = [step.feature for step in steps]
    origins = {tuple(map(id, factor.origin or ())): factor.origin for word in words for factor in word}
    (origin, *others) = origins.values()
    if origin is None or others:
        return tuple(_by_waist(steps))
    names = tuple(tuple(factor.name for factor in word) for word in words)
    return BUDGET.get(origin[0], ("head maps", origin[1], names), lambda: tuple(_by_waist(steps)))


def _by_waist(steps: Sequence[Step]) -> Iterator[tuple[Indices, HeadMaps]]:
    found: dict[int, list[tuple[int, Array, Array]]] = defaultdict(list)
    for at, step in enumerate(steps):
        feature = word_map(step.feature)
        assert feature is not None, "heads have feature words"
        write, read = waist(feature)
        found[read.shape[0]].append((at, read, write.T))
    for heads in found.values():
        places, reads, outs = zip(*heads, strict=True)
        yield np.array(places), HeadMaps(_stack(reads), _stack(outs))


def _stack(arrays: Sequence[Array]) -> Array:
    """Arrays side by side, in memory that others let go."""
    return np.stack(arrays, out=BUFFERS.array((len(arrays), *arrays[0].shape)))


def _patterns(words: Sequence[tuple[Factor, ...]], positions: int) -> tuple[Array, Array | None]:
    """Words of position factors as arrays side by side (C, n, n), and of a long text their common scale (n,), apart.

    Long patterns are not copied where they are parts of one array, side by side.
    """
    if is_long(positions) and (apart := _apart(words)) is not None:
        arrays, scale = apart
        return _side_by_side(arrays), scale
    return np.stack([_dense(word) for word in words]), None


def _apart(words: Sequence[tuple[Factor, ...]]) -> tuple[list[Array], Array | None] | None:
    """Patterns and the scale that follows each, where that is all, and one for all."""
    maps = [[factor.numbers() for factor in word] for word in words]
    if not all(isinstance(first, Dense) and len(rest) <= 1 for first, *rest in maps):
        return None
    scales = [rest[0] for _, *rest in maps if rest]
    if len(scales) not in (0, len(maps)) or not all(isinstance(scale, Diagonal) for scale in scales):
        return None
    values = [scale.values for scale in scales if isinstance(scale, Diagonal)]
    if any(not np.array_equal(each, values[0]) for each in values):
        return None
    return [first.array for first, *_ in maps if isinstance(first, Dense)], values[0] if values else None


def _side_by_side(arrays: Sequence[Array]) -> Array:
    """Arrays (n, n) stacked; a part of the array that they are cut from, if they lie in it one after another."""
    whole, first = arrays[0].base, arrays[0]
    if not isinstance(whole, np.ndarray) or whole.dtype != np.float64 or not whole.flags.c_contiguous:
        return np.stack(arrays)
    begin = _address(first)
    for at, array in enumerate(arrays):  # a turned one begins at the same place
        lies = array.base is whole and array.flags.c_contiguous and array.shape == first.shape
        if not lies or _address(array) != begin + at * first.nbytes:
            return np.stack(arrays)
    offset = (begin - _address(whole)) // first.itemsize
    return whole.reshape(-1)[offset : offset + len(arrays) * first.size].reshape(len(arrays), *first.shape)


def _address(array: Array) -> int:
    return int(array.ctypes.data)


def _dense(word: tuple[Factor, ...]) -> Array:
    pattern = word_map(word)
    assert pattern is not None, "heads move between positions"
    return pattern.array if isinstance(pattern, Dense) else pattern.dense()
