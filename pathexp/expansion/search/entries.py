"""Prefixes that a search keeps one by one: all that has only set out, and the largest that passed components.

What is an entry is known exactly wherever it is met, and does not make the sets of all others larger.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...graph import Array, Indices, Operator, push, start_value
from .ends import starting_lost
from .layout import Heads, Layout
from .rounding import gamma, lengths
from .sizes import shed, shed_alike, tight

SHARE = 0.1
"""From which share of the largest entry on, at some position, what a component makes of an entry is one itself."""

MOST = 96
"""How many prefixes that passed a component may be entries, if they fit."""

NUMBERS = 2**26
"""How many numbers such entries may hold in all that is read of them (512 MiB)."""

SINK = -1
"""The sink's place among the components of the last block."""

_ALL = slice(None)


@dataclass(frozen=True, eq=False)
class Entries:
    """The prefixes kept one by one in front of a block: states (E,), labels, and what is read of them.

    `readings` holds a head's values (E, n, r), what another component makes of them (E, n, d), and the streams
    themselves for the sink. `off` (E, n) says how far each of the latter two is from what it would be without
    rounding. `listed` (E, C) says whose outputs are entries behind the block. No number of an entry is larger than `most`
    (n, d), no entry longer than `longest` (n,), and none further than `lost` (n,) from what it would be without rounding.
    """

    states: Indices
    words: tuple[tuple[str, ...], ...]
    readings: Mapping[int, Array]
    off: Mapping[int, Array]
    listed: NDArray[np.bool_]
    most: Array
    longest: Array
    lost: Array

    def misread(self, heads: Heads, longest: Array) -> Array:
        """How far what heads read of vectors (n,) long, and move, is from exact, before patterns: (n,)."""
        (_, width, d), n = heads.read.shape, len(longest)
        rounding = gamma(d) * width**0.5 + gamma(n)
        return np.asarray(heads.stretch * (self.lost + 2 * rounding * longest))


@dataclass(frozen=True, eq=False)
class _Front:
    """Entries on their way: streams (E, n, d), states, labels, and how far each is from exact, (E, n)."""

    streams: Array
    states: Indices
    words: tuple[tuple[str, ...], ...]
    lost: Array

    def joined(self, *others: _Front) -> _Front:
        every = (self, *others)
        return _Front(
            np.concatenate([front.streams for front in every]),
            np.concatenate([front.states for front in every]),
            tuple(word for front in every for word in front.words),
            np.concatenate([front.lost for front in every]),
        )

    @property
    def lengths(self) -> Array:
        """Bounds on how long each is without rounding, (E, n)."""
        return np.asarray(lengths(self.streams) + self.lost)


def room_for(layout: Layout) -> int:
    """How many prefixes that passed a component may be entries; none where heads alone are bounded by norms."""
    n, d = layout.size
    if not any(layout.singles):
        return 0
    return min(MOST, NUMBERS // (n * d * len(layout.skips)))


def all_entries(layout: Layout, room: int | None = None) -> Iterator[Entries]:
    """Yield the entries in front of every block, and in front of the sink.

    `room` limits those that passed a component (`room_for` unless given). Cost: one application of every component
    to every entry.
    """
    room = room_for(layout) if room is None else room
    front = _starting(layout, 0)
    for b, skip in enumerate(layout.skips):
        layout.prepare(b)
        readings = _read(layout, b, front.streams)
        off = {single.index: _off(layout, b, single.index, front) for single in layout.singles[b]}
        listed = _largest(_sizes(layout, b, front, readings), room)
        room -= int(listed.sum())
        yield Entries(front.states, front.words, readings, off, listed, *_worst(front))
        fresh = _made(layout, b, front, readings, off, listed)
        passed = _over(skip, front) if skip else front
        front = passed.joined(*fresh, _starting(layout, b + 1))
    nothing = np.zeros((len(front.words), 0), dtype=bool)
    yield Entries(
        front.states, front.words, {SINK: front.streams}, {SINK: front.lost}, nothing, *_worst(front)
    )


def _worst(front: _Front) -> tuple[Array, Array, Array]:
    """The greatest number, the greatest length and the greatest loss of any entry, per position."""
    most = np.abs(front.streams) + front.lost[..., None]
    worst = (part.max(axis=0, initial=0.0) for part in (most, front.lengths, front.lost))
    return next(worst), next(worst), next(worst)


def _off(layout: Layout, b: int, component: int, front: _Front, chosen: Indices | slice = _ALL) -> Array:
    """How far what a component makes of entries is from exact, (E, n)."""
    operator = layout.walk.graph.blocks[b].components[component].operator
    return shed_alike(operator, front.streams[chosen]) + layout.carry(b, component, front.lost[chosen])


def _over(skip: Operator, front: _Front) -> _Front:
    """Entries carried over a skip edge."""
    off = shed(skip, front.streams) + tight(skip, front.lost)
    return _Front(push(skip, front.streams), front.states, front.words, off)


def _starting(layout: Layout, at: int) -> _Front:
    walk = layout.walk
    streams, states, words = [np.zeros((0, *layout.size))], [], []
    off = [np.zeros((0, layout.size[0]))]
    for source, state in walk.starts():
        for labels, depth, after, _ in walk.entries(source, state):
            if depth == at and walk.completions.leads(depth, after):
                operator = source.into[labels[0]] if labels else source.write
                streams.append(start_value(source.start, operator)[None])
                off.append(starting_lost(source.start, operator, layout.size[0])[None])
                states.append(after)
                words.append((source.label, *labels))
    return _Front(
        np.concatenate(streams), np.array(states, dtype=np.int64), tuple(words), np.concatenate(off)
    )


def _read(layout: Layout, b: int, streams: Array) -> dict[int, Array]:
    found = {single.index: single.push(streams) for single in layout.singles[b]}
    for heads in layout.heads[b]:
        found |= dict(zip(heads.members.tolist(), heads.values(streams), strict=True))
    return found


def _sizes(layout: Layout, b: int, front: _Front, readings: Mapping[int, Array]) -> Array:
    """How large what a component makes of an entry is, as a share of the largest entry, at the position of most."""
    scale = np.linalg.norm(front.streams, axis=-1).max(axis=0, initial=np.finfo(np.float64).tiny)
    sizes = np.zeros((len(front.words), layout.steps[b].shape[1]))
    for heads in layout.heads[b]:
        for row, member in enumerate(heads.members):
            moved = _moved(heads, row, readings[int(member)])
            square = np.sum((moved @ (heads.write[row].T @ heads.write[row])) * moved, axis=-1)
            sizes[:, member] = (np.sqrt(np.maximum(square, 0.0)) / scale).max(axis=-1, initial=0.0)
    for single in layout.singles[b]:
        made = np.linalg.norm(readings[single.index], axis=-1)
        sizes[:, single.index] = (made / scale).max(axis=-1, initial=0.0)
    return np.where(layout.steps[b][front.states] >= 0, sizes, 0.0)


def _moved(heads: Heads, row: int, values: Array) -> Array:
    return np.asarray(heads.patterns[row] @ values)


def _largest(sizes: Array, room: int) -> NDArray[np.bool_]:
    """The places of at most `room` sizes, none below the least share."""
    order = np.argsort(-sizes, axis=None, kind="stable")[: max(room, 0)]
    listed = np.zeros(sizes.size, dtype=bool)
    listed[order] = True
    return listed.reshape(sizes.shape) & (sizes >= SHARE)


def _made(
    layout: Layout,
    b: int,
    front: _Front,
    readings: Mapping[int, Array],
    off: Mapping[int, Array],
    listed: NDArray[np.bool_],
) -> Iterator[_Front]:
    """The outputs of a block that are entries behind it."""
    for heads in layout.heads[b]:
        for member in heads.members:
            chosen = np.flatnonzero(listed[:, member])
            if len(chosen):
                operator = layout.walk.graph.blocks[b].components[member].operator
                outputs = push(operator, front.streams[chosen])
                lost = _off(layout, b, int(member), front, chosen)
                yield _behind(layout, b, front, int(member), chosen, outputs, lost)
    for single in layout.singles[b]:
        chosen = np.flatnonzero(listed[:, single.index])
        if len(chosen):
            outputs, lost = readings[single.index][chosen], off[single.index][chosen]
            yield _behind(layout, b, front, single.index, chosen, outputs, lost)


def _behind(
    layout: Layout, b: int, front: _Front, component: int, chosen: Indices, outputs: Array, off: Array
) -> _Front:
    label = layout.walk.graph.blocks[b].components[component].label
    states = layout.steps[b][front.states[chosen], component]
    words = tuple((*front.words[at], label) for at in chosen)
    return _Front(outputs, states, words, off)
