"""A layer of attention between two runs: for every head what moves (V), where keys and queries look (K, Q)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...algebra import compose
from ...labels import head_label
from ...model import Trace
from ..nodes import Component
from ..operators import Array, Factor, Operator, Step, chain
from .named import dense, diagonal, feature
from .norms import scaled, scaled_together
from .runs import Runs, midpoint, visible_in_both
from .secants import cap_slope, logarithmic_mean
from .turning import Turn
from .weighing import ByKeys, ByQueries, Weighing

SIDES = {"Q": "q", "K": "k"}


@dataclass(frozen=True, eq=False)
class Attention:
    """One layer; `reads` is what stands before its maps, `writes` what follows them."""

    runs: Runs
    layer: int
    reads: Operator
    writes: Operator

    def components(self) -> Iterator[Component]:
        """The edges V, K and Q of every head."""
        for head in range(self.runs.config.n_heads):
            for port, inside in (
                ("V", self.moves(head)),
                ("K", self.by_keys(head)),
                ("Q", self.by_queries(head)),
            ):
                operator = chain(self.writes, inside, self.reads)
                yield Component(head_label(self.layer, head, port), "head", operator, self.layer, head, port)

    # Values --------------------------------------------------------------------------------------------

    def moves(self, head: int) -> Operator:
        """Ā ⊗ W_OV: values moved by the mean pattern."""
        group = self.runs.config.kv_head(head)
        pattern = self.runs.mean(lambda run: run.patterns[self.layer, head])
        out, value = self.w_o(head), self._weight("V", group, head)
        moved = compose(out.numbers(), value.numbers())
        weight = Factor(f"W_OV_{self._name(head)}", out.rows, value.columns, moved)
        return (Step((dense(f"Ā_{self._name(head)}", pattern, "position", "position"),), (weight,)),)

    def w_o(self, head: int) -> Factor:
        """W_O of a head."""
        return dense(f"W_O_{self._name(head)}", self.runs.weight("W_O", self.layer, head), "model", "head")

    def _name(self, head: int) -> str:
        return head_label(self.layer, head)

    def _weight(self, side: str, place: int, head: int) -> Factor:
        array = self.runs.weight(f"W_{side}", self.layer, place)
        return dense(f"W_{side}_{self._name(head)}", array, "head", "model")

    # Scores --------------------------------------------------------------------------------------------

    def by_keys(self, head: int) -> Operator:
        """From what keys read to what the head gives: other keys seen by mean queries."""
        mixing = ByKeys(f"Λ_{self._name(head)}_K", self.weighing(head))
        return (*feature(self.w_o(head)), mixing, *self.projected("K", head))

    def by_queries(self, head: int) -> Operator:
        """From what queries read to what the head gives: mean keys seen by other queries."""
        mixing = ByQueries(f"Λ_{self._name(head)}_Q", self.weighing(head))
        return (*feature(self.w_o(head)), mixing, *self.projected("Q", head))

    def weighing(self, head: int) -> Weighing:
        """How the head's weights differ."""
        group = self.runs.config.kv_head(head)
        return self.weighings.setdefault(
            head,
            Weighing(
                means=self.means[head],
                slopes=self.slopes[head],
                queries=self.runs.mean(lambda run: run.queries[self.layer, head]),
                keys=self.runs.mean(lambda run: run.keys[self.layer, group]),
                values=self.runs.mean(lambda run: run.values[self.layer, group]),
            ),
        )

    @cached_property
    def weighings(self) -> dict[int, Weighing]:
        return {}

    @cached_property
    def means(self) -> Array:
        """Λ (H, n, n): logarithmic means of both patterns where a key is visible in both runs, else 0."""
        scores = self.runs.both(lambda run: run.scores[self.layer])
        patterns = self.runs.both(lambda run: run.patterns[self.layer])
        here, there = map(log_pattern, scores)
        seen = visible_in_both(*scores)
        return np.where(seen, logarithmic_mean(*patterns, np.where(seen, here - there, 0.0)), 0.0)

    @cached_property
    def slopes(self) -> Array:
        """How a score changes with its product q·k, (H, n, n): the scale, and the slope of a cap."""
        config, n = self.runs.config, self.runs.positions
        if config.attention_cap is None:
            return np.broadcast_to(config.attention_scale, (config.n_heads, n, n))
        before = self.runs.both(lambda run: run.scores_before_cap[self.layer])
        return config.attention_scale * cap_slope(*before, config.attention_cap)

    # Queries and keys ----------------------------------------------------------------------------------

    def projected(self, side: str, head: int) -> Operator:
        """From what attention reads to a head's queries or keys as they enter the score."""
        place = head if side == "Q" else self.runs.config.kv_head(head)
        return chain(self.turn, self._normed(side, place, head))

    @cached_property
    def turn(self) -> Operator:
        """Rotary positions, if there are any."""
        config = self.runs.config
        if config.rotary is None:
            return ()
        return (Turn.of(config.rotary, self.runs.positions, config.d_head),)

    def _normed(self, side: str, place: int, head: int) -> Operator:
        """The map of queries or keys, through their norm if they have one."""
        kind = self.runs.config.qk_norm
        if kind is None:
            return feature(self._weight(side, place, head))
        label, low = f"{side}_{self._name(head)}", SIDES[side]
        middle, scales = (
            self.projections[side],
            self.runs.both(lambda run: run.norm_scales[f"L{self.layer}.{low}"]),
        )
        if kind == "head":
            one = scaled(label, middle[place], *(scale[place] for scale in scales))
            return chain(self._gain(low, place, label), (one,), feature(self._weight(side, place, head)))
        weight = self.runs.weight(f"W_{side}", self.layer, place)
        total = middle.shape[0] * middle.shape[2]
        together = scaled_together(label, weight, self._readers[side], middle[place], total, *scales)
        return chain(self._gain(low, place, label), (together,))

    def _gain(self, low: str, place: int, label: str) -> Operator:
        if not self.runs.has(f"g_{low}"):
            return ()
        index = (self.layer, place) if self.runs.config.qk_norm == "projection" else (self.layer,)
        return feature(diagonal(f"G_{label}", self.runs.weight(f"g_{low}", *index), "head"))

    @cached_property
    def projections(self) -> dict[str, Array]:
        """Mean queries and keys before their norm, (heads, n, d_head)."""
        here, there = (
            {side: projection(run, self.layer, side) for side in SIDES}
            for run in (self.runs.here, self.runs.there)
        )
        return {side: midpoint(here[side], there[side]) for side in SIDES}

    @cached_property
    def _readers(self) -> dict[str, Array]:
        """For a norm over all heads: Σ_h p̄_h·W_h, covectors (n, d_model) on what attention reads."""
        maps = {side: self.runs.weight(f"W_{side}", self.layer) for side in SIDES}
        return {
            side: np.einsum("hnk,hkd->nd", self.projections[side], maps[side], optimize=True)
            for side in SIDES
        }


def projection(run: Trace, layer: int, side: str) -> Array:
    """Return a run's queries or keys before norm and turn, (heads, n, d_head); traces hold only what comes after."""
    weights, read = run.model.weights, run.residuals[f"L{layer}.attn_in"]
    if run.config.positions == "qk":
        assert weights.W_pos is not None, "weights fit their configuration"
        read = read + weights.W_pos[:, : len(read)].T
    bias: Array | None = getattr(weights, f"b_{side}")
    found: Array = read @ np.swapaxes(getattr(weights, f"W_{side}")[layer], -1, -2)
    return found if bias is None else found + bias[layer][:, None, :]


def log_pattern(scores: Array) -> Array:
    """Return the logarithm of the softmax of scores over the last axis, also where it underflows; 0 where masked.

    >>> log_pattern(np.array([0.0, -1e4, -np.inf])).tolist()
    [0.0, -10000.0, 0.0]
    """
    top = scores.max(axis=-1, keepdims=True)
    below = scores - np.where(np.isneginf(top), 0.0, top)  # first, so that large scores lose no digits
    total = np.exp(below).sum(axis=-1, keepdims=True)
    return np.where(np.isfinite(scores), below, 0.0) - np.where(
        np.isfinite(scores), np.log(np.maximum(total, 1.0)), 0.0
    )
