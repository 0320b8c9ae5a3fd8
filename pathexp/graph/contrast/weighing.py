"""How a head's attention weights differ between two runs, and what that moves: score differences to value vectors.

ΔA_ij = Λ_ij (Δs_ij − Σ_k w_ik Δs_ik), with Λ the logarithmic mean of both patterns and w its rows made to add up to
one. What the head's values add up to changes by Σ_j ΔA_ij v̄_j. A score's difference is linear in the keys at mean
queries and in the queries at mean keys: Δs_ij = c_ij (q̄_i·Δk_j + Δq_i·k̄_j).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...errors import GraphError
from ...read_only import restore
from ..actions import grown, met
from ..measures import lengths
from ..mixing import mix_noise
from ..operators import Action, Array
from ..stack import Indices


@dataclass(frozen=True, eq=False)
class Weighing:
    """One head's weights between two runs.

    means (n, n) is Λ, and sink (n, 1) that of the head's sink, zero where it has none; slopes (n, n) the derivative c of scores in their products q·k (scale, and slope of a cap);
    queries, keys (turned) and values (n, h) are means over both runs.
    """

    means: Array
    slopes: Array
    queries: Array
    keys: Array
    values: Array
    sink: Array

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Take over what a copy or a pickle holds, arrays read-only as they were."""
        restore(self, state)

    @cached_property
    def totals(self) -> Array:
        """The sums of the rows of Λ, the sink's included, (n, 1); 1 where a row is zero."""
        sums = self.means.sum(axis=-1, keepdims=True) + self.sink
        return np.where(sums > 0, sums, 1.0)

    def changes(self, scores: Array, of_sink: Array | float = 0.0) -> tuple[Array, Array]:
        """Score differences (..., n, n) to weight differences, Λ (Δs − Σ w Δs), and that of the sink's weight.

        ``of_sink`` (..., n, 1) is the difference of the sink's score. Its own transpose.
        """
        summed = np.sum(self.means * scores, axis=-1, keepdims=True)
        total = (summed + self.sink * of_sink) / self.totals
        return np.asarray(self.means * (scores - total)), np.asarray(self.sink * (of_sink - total))

    @cached_property
    def middle_values(self) -> Array:
        """The values at a query by w, (n, h); the sink's is zero."""
        return np.asarray(self.means @ self.values / self.totals)

    @cached_property
    def strengths(self) -> Array:
        """How far a unit of score at (query, key) moves what the head gives, (n, n)."""
        apart = self.values[None, :, :] - self.middle_values[:, None, :]
        return np.asarray(np.abs(self.means * self.slopes) * np.linalg.norm(apart, axis=-1))

    def first(self, positions: int) -> Weighing:
        """The weights among the first positions."""
        square = np.s_[:positions, :positions]
        sides = (side[:positions] for side in (self.queries, self.keys, self.values, self.sink))
        return Weighing(self.means[square], self.slopes[square], *sides)

    def at(self, positions: Indices) -> Weighing:
        """The weights of chosen queries, of all keys."""
        means, slopes, queries = (side[positions] for side in (self.means, self.slopes, self.queries))
        return Weighing(means, slopes, queries, self.keys, self.values, self.sink[positions])

    @property
    def looks_ahead(self) -> bool:
        """Whether a query weighs a later key."""
        return bool(np.triu(self.means, 1).any())


@dataclass(frozen=True, eq=False)
class _Scores(Action):
    name: str
    weighing: Weighing

    @property
    def positions(self) -> int:  # type: ignore[override]
        return len(self.weighing.means)

    @property
    def rows(self) -> int:  # type: ignore[override]
        return int(self.weighing.values.shape[1])

    @property
    def columns(self) -> int:  # type: ignore[override]
        return int(self.weighing.keys.shape[1])

    @property
    def grows(self) -> float:
        weighing = self.weighing
        return 4 * grown(weighing.means, weighing.slopes, weighing.queries, weighing.keys, weighing.values)

    @property
    def cost(self) -> int:
        return len(self.weighing.keys) * (self.rows + self.columns)

    @property
    def roundings(self) -> int:
        return 3 * len(self.weighing.keys) + self.rows + self.columns + 8

    @property
    def looks_ahead(self) -> bool:
        return self.weighing.looks_ahead

    @property
    def local(self) -> bool:
        return False

    def _given(self, products: Array) -> Array:
        """What changes of the products q·k (..., n, n) make of the head's values.

        Changes of weights add up to zero; what rounding leaves of their sum is taken out at the middle value, so
        that scores far larger than their differences do no harm.
        """
        changes, of_sink = self.weighing.changes(self.weighing.slopes * products)
        left_over = (changes.sum(axis=-1, keepdims=True) + of_sink) * self.weighing.middle_values
        return np.asarray(changes @ self.weighing.values - left_over)

    def _most(self, products: Array) -> Array:
        """How long what products q·k so large (..., n, n) make of the values can be, were all numbers positive."""
        weighing = self.weighing
        scores = met(np.abs(weighing.slopes), products)
        total = np.sum(met(weighing.means, scores), axis=-1, keepdims=True) / weighing.totals
        changes = met(weighing.means, scores + total)
        sizes = lengths(weighing.values) + lengths(weighing.middle_values)[..., None]
        sunk = met(met(weighing.sink, total)[..., 0], lengths(weighing.middle_values))
        return np.asarray((np.sum(met(changes, sizes), axis=-1) + sunk) * (1 + 1e-9))

    def _asked(self, r: Array) -> Array:
        """Covectors on what the head gives as covectors on the products q·k, (..., n, n)."""
        middle = np.sum(r * self.weighing.middle_values, axis=-1, keepdims=True)
        changes, _ = self.weighing.changes(r @ self.weighing.values.T - middle, -middle)
        return np.asarray(self.weighing.slopes * changes)


@dataclass(frozen=True, eq=False)
class ByKeys(_Scores):
    """Key differences (n, h) at mean queries to what the head gives: Σ_j Λ_ij c_ij (q̄_i·Δk_j) (v̄_j − μ_i)."""

    def push(self, x: Array) -> Array:
        return self._given(self.weighing.queries @ np.swapaxes(x, -1, -2))

    def pull(self, r: Array) -> Array:
        return np.asarray(np.swapaxes(self._asked(r), -1, -2) @ self.weighing.queries)

    def first(self, positions: int) -> ByKeys:
        return ByKeys(self.name, self.weighing.first(positions))

    def at(self, positions: Indices) -> ByKeys:
        raise GraphError(f"{self.name} moves between positions; it has no part at some of them")

    def spread(self, noise: Array, backward: bool = False) -> Array:
        amounts = self.weighing.strengths * lengths(self.weighing.queries)[:, None]
        mixed = mix_noise(amounts.T if backward else amounts, noise)
        return np.asarray(mixed / np.sqrt(self.columns if backward else self.rows))

    def reach(self, far: Array) -> Array:
        return self._most(met(lengths(self.weighing.queries)[:, None], far[..., None, :]))

    def image(self, parts: Array) -> Array:
        """At each query a sum of segments, one for every key; in proportion to their lengths as one ellipsoid."""
        reached = np.linalg.norm(np.einsum("ih,jhr->ijr", self.weighing.queries, parts), axis=-1)
        apart = self.weighing.values[None, :, :] - self.weighing.middle_values[:, None, :]
        ends = self.weighing.strengths * reached
        sizes = np.linalg.norm(apart, axis=-1, keepdims=True)
        ways = np.divide(apart, sizes, out=np.zeros_like(apart), where=sizes > 0)
        grown = np.sqrt(ends * ends.sum(axis=-1, keepdims=True))
        return np.asarray((ways * grown[..., None]).transpose(0, 2, 1))


@dataclass(frozen=True, eq=False)
class ByQueries(_Scores):
    """Query differences (n, h) at mean keys to what the head gives; every position keeps to itself."""

    def push(self, x: Array) -> Array:
        return self._given(x @ self.weighing.keys.T)

    def pull(self, r: Array) -> Array:
        return np.asarray(self._asked(r) @ self.weighing.keys)

    def first(self, positions: int) -> ByQueries:
        return ByQueries(self.name, self.weighing.first(positions))

    def at(self, positions: Indices) -> ByQueries:
        return ByQueries(self.name, self.weighing.at(positions))

    def spread(self, noise: Array, backward: bool = False) -> Array:
        amounts = self.weighing.strengths @ lengths(self.weighing.keys)
        return np.asarray(noise * amounts / np.sqrt(self.columns if backward else self.rows))

    def reach(self, far: Array) -> Array:
        return self._most(met(far[..., None], lengths(self.weighing.keys)))

    @property
    def looks_ahead(self) -> bool:
        return False

    @property
    def local(self) -> bool:
        return True
