"""Bounds on what any prefix of a set can add, from ellipsoids or from lengths alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...graph import Array

ROOM = 1e-6
"""The share by which every bound is raised, to leave room for rounding in the sets and in what is met with them."""

States = frozenset[int]

_UNIT = float(np.finfo(np.float32).eps)
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class Reach:
    """Bounds at one place: lengths (n,) of the longest prefix, and, if there are ellipsoids, factors (n, d, r).

    Factors are kept in single precision, as shares of `scales` (n,). What that loses is at most `lost` (n,) for a
    covector of length one: the worst case of rounding an inner product of d numbers.
    """

    lengths: Array
    factors: NDArray[np.float32] | None = None
    scales: Array | None = None
    lost: Array | None = None

    @classmethod
    def of(cls, factors: Array, lengths: Array | None = None) -> Reach:
        """The reach of ellipsoids B Bᵀ, B of shape (n, d, r)."""
        scales = np.maximum(np.abs(factors).max(axis=(1, 2)), _TINY)
        single = (factors / scales[:, None, None]).astype(np.float32)
        sizes = np.sqrt(np.einsum("ndr,ndr->n", single, single, dtype=np.float64)) * scales * (1 + _UNIT)
        lost = (factors.shape[-2] + 4) * _UNIT * sizes
        return cls(sizes if lengths is None else lengths, single, scales, lost)

    def bound(self, fields: Array) -> Array:
        """Bounds on |value| over all prefixes in the set, for covectors (m, n, d): (m,)."""
        sizes = np.linalg.norm(fields, axis=-1)
        if self.factors is None or self.scales is None or self.lost is None:
            return np.asarray(sizes @ self.lengths)
        ones = (fields / np.maximum(sizes, _TINY)[..., None]).astype(np.float32)
        met = ones.transpose(1, 0, 2) @ self.factors
        most = np.sqrt(np.einsum("nmr,nmr->mn", met, met)) * self.scales + self.lost
        return np.asarray(np.einsum("mn,mn->m", sizes, most))


@dataclass(frozen=True, eq=False)
class Bounds:
    """How far prefixes reach that passed a component and are no entries, per automaton state.

    `blocks` by block and component: at a head's values, at what another component writes, and at the sink;
    `streams` by block: on the stream in front of it, where that is known.
    """

    blocks: tuple[Mapping[int, Mapping[int, Reach]], ...]
    streams: tuple[Mapping[int, Reach], ...] = ()

    def bound(self, b: int, component: int, states: States, fields: Array) -> Array:
        """Bounds on any longer path through a component: covectors (m, n, r) at its values or outputs: (m,)."""
        return _most(self.blocks[b].get(component, {}), states, fields)

    def below(self, b: int, states: States, fields: Array) -> Array | None:
        """Bounds on any path that reaches covectors (m, n, d) on the stream in front of a block; None if unknown."""
        return _most(self.streams[b], states, fields) if self.streams and self.streams[b] else None

    def lengths(self, b: int, component: int, states: States, n: int) -> Array:
        """The greatest length of a prefix at a head's values, per position."""
        known = self.blocks[b].get(component, {})
        found = [known[state].lengths for state in sorted(states) if state in known]
        return np.max(found, axis=0) * (1 + ROOM) if found else np.zeros(n)


def _most(known: Mapping[int, Reach], states: States, fields: Array) -> Array:
    found = [known[state].bound(fields) for state in sorted(states) if state in known]
    return np.max(found, axis=0) * (1 + ROOM) if found else np.zeros(len(fields))
