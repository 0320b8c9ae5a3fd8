"""Router weights between two runs: what other scores do to them, and what is left where one run alone chose an expert.

On the experts that both runs chose, C, weights differ as attention patterns do. A softmax over all experts, or over
the chosen ones: Δg_e = Λ_e (Δr_e − Σ_k w_k Δr_k), with r the scores, Λ the logarithmic means and w = Λ / Σ Λ. Sigmoids:
Δu_e = κ_e Δr_e, and where they are divided by their sum S, Δ(u_e/S) = (Δu_e − a_e ΔS)/S̄ with a the mean of u/S. Weights that are
normalized over the chosen lose room to what one run alone chose: of that, −w_e ρ (−a_e τ/S̄) is left over on C.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...model import Trace
from ...model.activations import silu_gate
from ...model.routing import Experts
from ..operators import Array
from .attention import log_pattern
from .runs import Runs, midpoint
from .secants import logarithmic_mean, tanh_slope

Pair = tuple[Array, Array]


@dataclass(frozen=True, eq=False)
class Routing:
    """The router of one layer between two runs: scores (n, E) to the weights of its E experts."""

    runs: Runs
    layer: int

    @cached_property
    def weights(self) -> Pair:
        """The weights in both runs, (n, E), zero where an expert is not chosen."""
        return self.runs.both(lambda run: run.router_weights[self.layer])

    @cached_property
    def chosen(self) -> Array:
        """Where both runs chose an expert, (n, E)."""
        here, there = self.weights
        return np.asarray((here != 0) & (there != 0))

    @cached_property
    def mean(self) -> Array:
        """The mean weights of experts that both runs chose, (n, E); zero elsewhere."""
        return np.where(self.chosen, self.runs.between(*self.weights), 0.0)

    def from_scores(self, expert: int) -> Array:
        """How the weight of an expert moves with the scores, (n, E), where both runs chose it; zero elsewhere."""
        slopes, shares = self._slopes, self._shares
        own = np.eye(slopes.shape[1])[expert]
        rows = slopes[:, expert, None] * own - shares[:, expert, None] * self._of_all
        return np.where(self.chosen[:, expert, None], self._experts.multiplier * rows, 0.0)

    @cached_property
    def left_over(self) -> Array:
        """What weights that both runs chose lose to what one run alone chose, (n, E); zero where none is lost."""
        lost = -self._shares * self._room
        return np.where(self.chosen, self._experts.multiplier * lost, 0.0)

    # How weights follow scores: Δg_e = slope_e Δr_e − share_e (Σ_k of_all_k Δr_k + room) ----------------

    @cached_property
    def _slopes(self) -> Array:
        return self._means if self._softmax else self._of_sigmoids / self._total

    @cached_property
    def _shares(self) -> Array:
        """By how much each weight falls where the sum of all rises, (n, E)."""
        if self._softmax:
            return self._means / self._total
        if not self._experts.normalized:
            return np.zeros_like(self._means)
        return np.where(self.chosen, midpoint(*self._parts), 0.0) / self._total

    @cached_property
    def _of_all(self) -> Array:
        """How the sum of all moves with the scores, (n, E)."""
        return self._means if self._softmax else np.where(self.chosen, self._of_sigmoids, 0.0)

    @cached_property
    def _room(self) -> Array:
        """The room that experts take which one run alone chose, (n, 1)."""
        if not self._experts.normalized:
            return np.zeros((len(self.chosen), 1))
        here, there = self._parts if self._softmax else self._used_sigmoids
        return np.asarray(np.where(self.chosen, 0.0, here - there).sum(axis=-1, keepdims=True))

    @cached_property
    def _total(self) -> Array:
        """The sum of Λ, or of the sigmoids in the mean of both runs, (n, 1); 1 where nothing is divided, or nobody is chosen."""
        if self._softmax:
            sums = self._means.sum(axis=-1, keepdims=True)
        elif self._experts.normalized:
            sums = midpoint(*(u.sum(axis=-1, keepdims=True) for u in self._used_sigmoids))
        else:
            sums = np.ones((len(self.chosen), 1))
        return np.where(sums > 0, sums, 1.0)

    # Softmax -------------------------------------------------------------------------------------------

    @cached_property
    def _means(self) -> Array:
        """Λ (n, E): of all experts where the softmax is over all, else of those that both runs chose."""
        seen = self.chosen if self._experts.normalized else np.ones_like(self.chosen)
        here, there = self._logs
        return np.where(
            seen, logarithmic_mean(np.exp(here), np.exp(there), np.where(seen, here - there, 0.0)), 0.0
        )

    @cached_property
    def _logs(self) -> Pair:
        """The logarithms of the softmax over what it is over, (n, E)."""
        return self._of_runs(
            lambda run, weights: log_pattern(self._masked(run.router_scores[self.layer], weights))
        )

    def _masked(self, scores: Array, weights: Array) -> Array:
        return np.where(weights != 0, scores, -np.inf) if self._experts.normalized else scores

    @cached_property
    def _parts(self) -> Pair:
        """The weights before their multiplier, (n, E)."""
        if self._softmax:
            logs = zip(self._logs, self.weights, strict=True)
            here, there = (np.where(weights != 0, np.exp(log), 0.0) for log, weights in logs)
        else:
            here, there = (_divided(u) for u in self._used_sigmoids)
        return here, there

    # Sigmoids ------------------------------------------------------------------------------------------

    @cached_property
    def _of_sigmoids(self) -> Array:
        """The slopes of the sigmoids, (n, E)."""
        return sigmoid_slope(*self.runs.both(lambda run: run.router_scores[self.layer]))

    @cached_property
    def _used_sigmoids(self) -> Pair:
        return self._of_runs(
            lambda run, weights: np.where(weights != 0, silu_gate(run.router_scores[self.layer]), 0.0)
        )

    def _of_runs(self, read: Callable[[Trace, Array], Array]) -> Pair:
        here, there = (
            read(run, weights)
            for run, weights in zip((self.runs.here, self.runs.there), self.weights, strict=True)
        )
        return here, there

    @property
    def _softmax(self) -> bool:
        return self._experts.scoring == "softmax"

    @property
    def _experts(self) -> Experts:
        experts = self.runs.config.experts
        assert experts is not None, "only layers of experts have routers"
        return experts


def sigmoid_slope(a: Array, b: Array) -> Array:
    """Return the slope of the sigmoid between two points.

    >>> sigmoid_slope(np.array([0.0]), np.array([0.0])).tolist()
    [0.25]
    """
    return np.asarray(tanh_slope(a / 2, b / 2) / 4)


def _divided(values: Array) -> Array:
    """Rows divided by their sums, zero where those are."""
    total = values.sum(axis=-1, keepdims=True)
    return np.asarray(np.divide(values, total, out=np.zeros_like(values), where=total > 0))
