"""Bounds on what any prefix of a set can add, from ellipsoids or from lengths alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...graph import Array, Indices
from ...workers import each
from .fields import Fields
from .rounding import SINGLE, finite, gamma

States = frozenset[int]

_LEAST = float(np.finfo(np.float32).tiny)
_TINY = float(np.finfo(np.float64).tiny)
_UP = 1 + 1e-9
"""More than the rounding, in double precision, of the additions of positive numbers that make a bound."""


@dataclass(frozen=True, eq=False)
class Reach:
    """Bounds at one place: lengths (n,) of the longest prefix, and, if there are ellipsoids, factors (n, d, r) in panels.

    Factors are kept in single precision, as shares of `scales` (n,), and of triangles little more than what is not zero: a
    panel (n, d − begin, width) holds columns of which the first `begin` rows are. What single precision loses is at most `lost` (n,) for
    a covector of length one: γ of the inner product of d numbers and of the sum of r squares.
    """

    lengths: Array
    panels: tuple[NDArray[np.float32], ...] = ()
    scales: Array | None = None
    lost: Array | None = None

    @classmethod
    def of(
        cls, factors: Array, longest: Array | None = None, off: Array | float = 0.0, lower: bool = False
    ) -> Reach:
        """The reach of ellipsoids B Bᵀ, B of shape (n, d, r), each off by at most `off` (n,) in norm; `lower` if triangles."""
        n, d, r = factors.shape
        width = PANEL if lower else r
        starts = range(0, r, max(1, width))
        panels = tuple(np.empty((n, d - at, min(width, r - at)), dtype=np.float32) for at in starts)
        scales, norms = np.empty(n), np.empty(n)

        def work(at: int) -> None:
            scales[at] = np.maximum(np.abs(factors[at]).max(initial=0.0), _TINY)
            single = (factors[at] / scales[at]).astype(np.float32)
            norms[at] = np.sqrt(np.einsum("dr,dr->", single, single, dtype=np.float64))
            for begin, panel in zip(starts, panels, strict=True):
                panel[at] = single[begin:, begin : begin + panel.shape[2]]

        each(work, n, 16 * factors.size)
        norms *= 1 + gamma(8, SINGLE)
        lost = (gamma(d + 6, SINGLE) + gamma(r + 6, SINGLE)) * norms + 8 * d * r * _LEAST
        return cls(norms * scales + off if longest is None else longest, panels, scales, lost * scales + off)

    def bounds(self, fields: Fields) -> Array:
        """Upper bounds on what any prefix in the set adds at each position, (m, n)."""
        sizes = fields.lengths
        if self.scales is None or self.lost is None:
            return np.asarray(sizes * self.lengths)
        most, scales, lost = np.zeros(sizes.shape), self.scales, self.lost

        def work(at: int, rows: Indices) -> None:
            owners = fields.owners[rows]
            ones = (fields.rows[rows] / sizes[owners, at, None]).astype(np.float32)
            square = np.zeros(len(rows))
            for panel in self.panels:
                met = ones[:, ones.shape[1] - panel.shape[1] :] @ panel[at]
                square += np.einsum("mr,mr->m", met, met)
            most[owners, at] = np.sqrt(square) * scales[at] + lost[at]

        fields.at_positions(work, sum(panel[0].size for panel in self.panels))
        return np.asarray(sizes * most)


PANEL = 96
"""How many columns of a triangle are kept side by side."""


@dataclass(frozen=True, eq=False)
class Most:
    """How much any prefix can add to endings: in all (m,), and at each position (m, n)."""

    total: Array
    each: Array


@dataclass(frozen=True, eq=False)
class Bounds:
    """How far prefixes reach that passed a component and are no entries, per automaton state.

    `blocks` by block and component: at a head's values, at what another component writes, and at the sink;
    `streams` by block: on the stream in front of it, where that is known; `longest` by block, and at the sink: how
    long any prefix can be on the stream in front of it, entries included, (n,); `most` how large its numbers can
    be, (n, d), where that is known.
    """

    blocks: tuple[Mapping[int, Mapping[int, Reach]], ...]
    longest: tuple[Array, ...]
    streams: tuple[Mapping[int, Reach], ...] = ()
    most: tuple[Array, ...] = ()

    def bound(self, b: int, component: int, states: States, fields: Fields) -> Most | None:
        """Bounds on any longer path through a component, for covectors at its values or outputs.

        None if there is no such path.
        """
        return _most(self.blocks[b].get(component, {}), states, fields)

    def below(self, b: int, states: States, fields: Fields) -> Most | None:
        """Bounds on any path that reaches covectors on the stream in front of a block; None if unknown."""
        return _most(self.streams[b], states, fields) if self.streams and self.streams[b] else None

    def lengths(self, b: int, component: int, states: States, n: int) -> Array:
        """The greatest length of a prefix at a head's values, per position."""
        known = self.blocks[b].get(component, {})
        found = [known[state].lengths for state in sorted(states) if state in known]
        return np.asarray(np.max(found, axis=0)) if found else np.zeros(n)


def _most(known: Mapping[int, Reach], states: States, fields: Fields) -> Most | None:
    found = [finite(known[state].bounds(fields)) * _UP for state in sorted(states) if state in known]
    if not found:
        return None
    return Most(np.max([each.sum(axis=1) for each in found], axis=0) * _UP, np.max(found, axis=0))
