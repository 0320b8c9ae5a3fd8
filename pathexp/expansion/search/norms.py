"""Norm bounds: how long any prefix's values can be at each head and position. Cheap; enough for attention alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...graph import Array
from ...workers import for_each
from .entries import Entries
from .layout import Heads, Layout
from .rounding import DOUBLE, SINGLE, gamma, lengths

Lengths = Mapping[int, list[Array]]
"""By automaton state, per stack of heads the greatest length of a value: (C, n)."""


@dataclass(frozen=True, eq=False)
class Longest:
    """How long prefixes can be in front of a block: at the values of heads, and on the stream per position (n,)."""

    values: Lengths
    stream: Array


_UP = 1 + 1e-9
"""More than the rounding of the few additions of positive numbers that make a length."""


def norms_fit(layout: Layout) -> bool:
    """Whether a graph is heads and identity skips alone, for which norms are made here."""
    return layout.straight_over and not any(layout.singles)


def value_lengths(layout: Layout, entries: Sequence[Entries]) -> Iterator[Longest]:
    """Yield, for every block, how long the values of prefixes that passed a component can be; last, their streams.

    Lengths grow by the operator norms of the links between heads, bounded by their Schatten 8-norm.
    """
    before: list[_Outputs] = []
    for b, stacks in enumerate(layout.heads):
        found: dict[int, list[Array]] = {}
        links = [_all_link_norms(heads, before) for heads in stacks]
        for state in sorted({state for outputs in before for state in outputs.lengths}):
            found[state] = [
                _reached(heads, before, norms, state) for heads, norms in zip(stacks, links, strict=True)
            ]
        stream = np.maximum(entries[b].longest, _on_stream(layout, before, None))
        yield Longest(found, stream)
        before.extend(_outputs(layout, b, s, found, entries[b], stream) for s in range(len(stacks)))
    states = sorted({state for outputs in before for state in outputs.lengths})
    at_sink = {state: [_on_stream(layout, before, state)[None]] for state in states}
    yield Longest(at_sink, np.maximum(entries[-1].longest, _on_stream(layout, before, None)))


def _on_stream(layout: Layout, before: list[_Outputs], state: int | None) -> Array:
    """How long what any head wrote can be, (n,): in a state, or in any."""
    found = [
        np.max(outputs.heads.growth[:, None] * known + outputs.lost, axis=0)
        for outputs in before
        for after, known in outputs.lengths.items()
        if state is None or after == state
    ]
    return np.asarray(np.max(found, axis=0) if found else np.zeros(layout.size[0])) * _UP


@dataclass(frozen=True, eq=False)
class _Outputs:
    """How long what heads have moved can be, by the state after them: (C, n); 0 where nothing leads there.

    `lost` (C, n) is how far what they write can be off that.
    """

    heads: Heads
    lost: Array
    lengths: dict[int, Array] = field(default_factory=dict)


def _all_link_norms(late: Heads, before: list[_Outputs]) -> list[Array]:
    found = [np.zeros(0)] * len(before)

    def work(at: int) -> None:
        found[at] = link_norms(late, before[at].heads)

    for_each(work, len(before))
    return found


def link_norms(late: Heads, early: Heads) -> Array:
    """A bound on the norm of every link read · write, (late, early).

    In single precision, and where what that loses is much of what it finds (writer and reader cancel), in double.
    """
    found, share = _link_norms(late, early, np.float32)
    return found if share <= CANCELED else np.minimum(found, _link_norms(late, early, np.float64)[0])


CANCELED = 0.1
"""From which share of a bound on, lost to single precision, links are made in double precision."""


def _link_norms(late: Heads, early: Heads, precision: type) -> tuple[Array, float]:
    """Bounds (late, early), and the largest share of one that stands for rounding."""
    unit = SINGLE if precision is np.float32 else DOUBLE
    _, r, d = late.read.shape
    if precision is np.float32:
        flat: NDArray[Any] = late.single[0] @ early.single[1]
    else:
        flat = late.readers.reshape(-1, d) @ (early.flat / np.repeat(early.scales, early.width))
    links = np.ascontiguousarray(flat.reshape(-1, r, len(early.members), early.width).transpose(0, 2, 1, 3))
    lost = gamma(d + 4, unit) * late.stretch * np.sqrt(r) * early.sizes + r * d * _least(precision)
    norms = _schatten(links, unit)
    written = early.write.any(axis=(1, 2))
    share = float(np.max((lost / (norms + lost))[:, written], initial=0.0))
    return np.where(written, (norms + lost) * early.scales * _UP, 0.0)[late.reader], share


def _schatten(links: NDArray[Any], unit: float) -> Array:
    """Upper bounds on the spectral norms of matrices (..., r, s) with entries of at most about one."""
    r, least = links.shape[-2], _least(links.dtype.type)
    squares = links @ links.swapaxes(-1, -2)
    scale = np.trace(squares, axis1=-2, axis2=-1) * (1 + gamma(4 * r, unit)) + least
    squares /= scale[..., None, None]
    fourth = squares @ squares
    eighth = np.einsum("...ab,...ab->...", fourth, fourth).astype(np.float64)
    lost = gamma(r + links.shape[-1] + 4, unit)
    largest = np.sqrt(np.sqrt(eighth) * (1 + gamma(r * r, unit)) + lost + r * np.sqrt(least)) + lost
    return np.asarray(np.sqrt(scale.astype(np.float64) * largest + r * r * least))


def _least(precision: type) -> float:
    """More than what a product that underflows loses, flushed to zero or not."""
    return 4 * float(np.finfo(precision).tiny)


def _reached(heads: Heads, before: list[_Outputs], norms: list[Array], state: int) -> Array:
    found = np.zeros(heads.patterns.shape[:2])
    for outputs, links in zip(before, norms, strict=True):
        if state in outputs.lengths:
            far = links[:, :, None] * outputs.lengths[state] + heads.stretch * outputs.lost
            found = np.maximum(found, np.max(far, axis=1))
    return found * _UP


def _outputs(layout: Layout, b: int, s: int, found: Lengths, entries: Entries, stream: Array) -> _Outputs:
    heads = layout.heads[b][s]
    made = _Outputs(heads, heads.lost[:, None] * (heads.amounts @ stream) * _UP)
    values = np.stack([entries.readings[int(member)] for member in heads.members])
    outside = ~entries.listed.T[heads.members]
    read = heads.amounts @ entries.misread(heads, stream)
    for state, steps in enumerate(layout.steps[b]):
        here = entries.states == state
        if not here.any() and state not in found:  # that what is there is tiny does not mean that nothing is
            continue
        moved = np.einsum("cij,cejr->ceir", heads.patterns, values[:, here], optimize=True)
        lengths_moved = lengths(moved) * outside[:, here, None]
        longest = lengths_moved.max(axis=1, initial=0.0) + (read if here.any() else 0.0)
        if state in found:
            by_sum = np.einsum("cij,cj->ci", heads.amounts, found[state][s])
            longest = np.maximum(longest, by_sum)
        for after in {int(a) for a in steps[heads.members] if a >= 0}:
            rows = (steps[heads.members] == after)[:, None]
            known = made.lengths.get(after, np.zeros_like(longest))
            made.lengths[after] = np.maximum(known, np.where(rows, longest, 0.0) * _UP)
    return made
