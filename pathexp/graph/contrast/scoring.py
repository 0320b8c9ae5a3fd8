"""A head's queries, keys or scores as the end of paths: Δs_ij = c_ij (q̄_i·Δk_j + Δq_i·k̄_j)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...errors import GraphError
from ..actions import grown, met
from ..measures import lengths
from ..operators import Action, Array, Operator
from ..stack import Indices
from .attention import Attention
from .runs import visible_in_both


@dataclass(frozen=True, eq=False)
class Products(Action):
    """Queries (or keys) to scores: what differs at position i (or j) times the mean of the other side.

    slopes (n, m) are the derivatives of scores in products q·k, zero where a key is not seen; `others` (m, h) the mean
    keys, or (n, h) the mean queries where `keys` differ.
    """

    name: str
    slopes: Array
    others: Array
    keys: bool

    @property
    def positions(self) -> int:  # type: ignore[override]
        return len(self.slopes)

    @property
    def rows(self) -> int:  # type: ignore[override]
        return int(self.slopes.shape[1])

    @property
    def columns(self) -> int:  # type: ignore[override]
        return int(self.others.shape[1])

    def push(self, x: Array) -> Array:
        if not self.keys:
            return np.asarray(self.slopes * (x @ self.others.T))
        found = np.zeros((*x.shape[:-2], *self.slopes.shape))
        found[..., : x.shape[-2]] = self.others @ np.swapaxes(x, -1, -2)
        return np.asarray(self.slopes * found)

    def pull(self, r: Array) -> Array:
        asked = self.slopes * r
        if not self.keys:
            return np.asarray(asked @ self.others)
        return np.asarray((np.swapaxes(asked, -1, -2) @ self.others)[..., : self.positions, :])

    def first(self, positions: int) -> Products:
        others = self.others[:positions] if self.keys else self.others
        return Products(self.name, self.slopes[:positions], others, self.keys)

    def at(self, positions: Indices) -> Products:
        if self.keys:
            raise GraphError(f"{self.name} moves between positions; it has no part at some of them")
        return Products(self.name, self.slopes[positions], self.others, self.keys)

    def spread(self, noise: Array, backward: bool = False) -> Array:
        """Every number gets h of them with weights; the largest of a row stands for all."""
        sizes = self._sizes
        if backward:
            across = sizes.T[: self.positions] if self.keys else sizes
            return np.asarray(np.sqrt(np.sum(across**2, axis=-1)) * np.max(noise, initial=0.0))
        if self.keys:
            return np.asarray(np.max(sizes[:, : len(noise)] * noise, axis=-1, initial=0.0))
        return np.asarray(noise * np.max(sizes, axis=-1, initial=0.0))

    def reach(self, far: Array) -> Array:
        sizes = self._sizes
        if not self.keys:
            return np.asarray(far * lengths(sizes) * (1 + 1e-9))
        return np.asarray(lengths(sizes[:, : self.positions] * far[..., None, :]) * (1 + 1e-9))

    @property
    def _sizes(self) -> Array:
        """What one number of a score takes of a vector of length one, at most, (n, m)."""
        others = lengths(self.others)
        return met(np.abs(self.slopes), others[:, None] if self.keys else others)

    @property
    def roundings(self) -> int:
        return len(self.others) + self.rows + self.columns + 2

    @property
    def grows(self) -> float:
        return grown(self.slopes, self.others)

    @property
    def cost(self) -> int:
        return self.rows * self.columns

    @property
    def looks_ahead(self) -> bool:
        return self.keys and bool(np.triu(self.slopes, 1).any())

    @property
    def local(self) -> bool:
        return not self.keys


@dataclass(frozen=True, eq=False)
class Scoring(Attention):
    """Attention as far as its scores."""

    def mixed(self, side: str, head: int) -> Operator:
        """From queries or keys as they enter the score to the scores."""
        weighing, name = self.weighing(head), f"s_{self._name(head)}_{side}"
        scores = self.runs.both(lambda run: run.scores[self.layer, head])
        slopes = np.where(visible_in_both(*scores), weighing.slopes, 0.0)
        return (Products(name, slopes, weighing.queries if side == "K" else weighing.keys, side == "K"),)

    def behind(self) -> Operator:
        """Nothing: paths end here."""
        return ()


@dataclass(frozen=True, eq=False)
class Projecting(Attention):
    """Attention as far as its queries and keys, before they are turned."""

    @cached_property
    def turn(self) -> Operator:
        return ()

    def mixed(self, side: str, head: int) -> Operator:
        """Nothing: queries and keys themselves."""
        return ()

    def behind(self) -> Operator:
        """Nothing: paths end here."""
        return ()
