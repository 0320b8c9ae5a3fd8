"""Norm bounds: how long any prefix's values can be at each head and position. Cheap; enough for attention alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ...algebra import for_each
from ...graph import Array
from .ellipsoids import largest
from .entries import Entries
from .layout import Heads, Layout

Lengths = Mapping[int, list[Array]]
"""By automaton state, per stack of heads the greatest length of a value: (C, n)."""


SINGLE = 1e-4
"""By how much norms found in single precision are raised."""

_TINY = np.float32(1e-30)


def norms_fit(layout: Layout) -> bool:
    """Whether a graph is heads and identity skips alone, for which norms are made here."""
    return layout.straight_over and not any(layout.singles)


def value_lengths(layout: Layout, entries: Sequence[Entries]) -> Iterator[Lengths]:
    """Yield, for every block, how long the values of prefixes that passed a component can be; last, their streams.

    Lengths grow by the operator norms of the links between heads, bounded by their Schatten 8-norm.
    """
    before: list[_Outputs] = []
    for b, stacks in enumerate(layout.heads):
        lengths: dict[int, list[Array]] = {}
        links = [_all_link_norms(heads, before) for heads in stacks]
        for state in sorted({state for outputs in before for state in outputs.lengths}):
            lengths[state] = [
                _reached(heads, before, norms, state) for heads, norms in zip(stacks, links, strict=True)
            ]
        yield lengths
        before.extend(_outputs(layout, b, s, lengths, entries[b]) for s in range(len(stacks)))
    states = sorted({state for outputs in before for state in outputs.lengths})
    yield {state: [_on_stream(before, state)] for state in states}


def _on_stream(before: list[_Outputs], state: int) -> Array:
    """How long what any head wrote can be, (1, n)."""
    found = [
        np.max(outputs.growth[:, None] * outputs.lengths[state], axis=0)
        for outputs in before
        if state in outputs.lengths
    ]
    return np.asarray(np.max(found, axis=0))[None]


@dataclass(frozen=True, eq=False)
class _Outputs:
    """How long what heads have moved can be, by the state after them: (C, n); 0 where nothing leads there."""

    heads: Heads
    lengths: dict[int, Array] = field(default_factory=dict)

    @cached_property
    def growth(self) -> Array:
        """How much longer than a value what each head writes can be: a bound on the norms of its writer, (C,)."""
        flat = np.ascontiguousarray(self.heads.write.transpose(0, 2, 1))
        return np.asarray(np.sqrt(largest(flat @ flat.transpose(0, 2, 1))) * (1 + SINGLE))


def _all_link_norms(late: Heads, before: list[_Outputs]) -> list[Array]:
    found = [np.zeros(0)] * len(before)

    def work(at: int) -> None:
        found[at] = _link_norms(late, before[at].heads)

    for_each(work, len(before))
    return found


def _link_norms(late: Heads, early: Heads) -> Array:
    """A bound on the norm of every link read · write, (late, early)."""
    c, r, d = late.read.shape
    flat = late.read.reshape(-1, d).astype(np.float32) @ early.flat.astype(np.float32)
    links = flat.reshape(c, r, -1, early.width).transpose(0, 2, 1, 3)
    links = np.ascontiguousarray(links)
    squares = links @ links.transpose(0, 1, 3, 2)
    scale = np.trace(squares, axis1=-2, axis2=-1) + _TINY
    squares /= scale[..., None, None]
    fourth = squares @ squares
    eighth = np.einsum("...ab,...ab->...", fourth, fourth)
    return np.asarray(np.sqrt(scale.astype(np.float64) * eighth.astype(np.float64) ** 0.25) * (1 + SINGLE))


def _reached(heads: Heads, before: list[_Outputs], norms: list[Array], state: int) -> Array:
    found = np.zeros(heads.patterns.shape[:2])
    for outputs, links in zip(before, norms, strict=True):
        if state in outputs.lengths:
            found = np.maximum(found, np.max(links[:, :, None] * outputs.lengths[state], axis=1))
    return found


def _outputs(layout: Layout, b: int, s: int, lengths: Lengths, entries: Entries) -> _Outputs:
    heads = layout.heads[b][s]
    made = _Outputs(heads)
    values = np.stack([entries.readings[int(member)] for member in heads.members])
    outside = ~entries.listed.T[heads.members]
    for state, steps in enumerate(layout.steps[b]):
        here = entries.states == state
        moved = np.einsum("cij,cejr->ceir", heads.patterns, values[:, here], optimize=True)
        lengths_moved = np.linalg.norm(moved, axis=-1) * outside[:, here, None]
        longest = lengths_moved.max(axis=1, initial=0.0)
        if state in lengths:
            by_sum = np.einsum("cij,cj->ci", np.abs(heads.patterns), lengths[state][s])
            longest = np.maximum(longest, by_sum)
        if not np.any(longest):
            continue
        for after in {int(a) for a in steps[heads.members] if a >= 0}:
            rows = (steps[heads.members] == after)[:, None]
            known = made.lengths.get(after, np.zeros_like(longest))
            made.lengths[after] = np.maximum(known, np.where(rows, longest, 0.0))
    return made
