"""A layer of attention between two runs: for every head what moves (V), where keys and queries look (K, Q)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...algebra import Space, compose
from ...labels import head_label
from ...model import Trace
from ...model.weights import at as layer_of
from ..latents import compresses
from ..named import centering, dense, diagonal, feature
from ..nodes import Component
from ..operators import Array, Factor, Operator, Parallel, Step, chain
from .latents import Latents
from .norms import dyad, mean_of_products, scaled, scaled_together
from .runs import Runs, midpoint, visible_in_both
from .secants import cap_slope, logarithmic_mean, scale_slopes
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
        for label, operator in self.after_read():
            head, port = int(label.partition("H")[2].partition(".")[0]), label[-1]
            yield Component(label, "head", chain(operator, self.reads), self.layer, head, port)

    def after_read(self) -> Iterator[tuple[str, Operator]]:
        """Every edge by its label, from what it reads behind the norm to what it writes."""
        for head in range(self.runs.config.n_heads):
            insides = {"V": self.moves(head), "K": self.by_keys(head), "Q": self.by_queries(head)}
            for port, inside in insides.items():
                yield head_label(self.layer, head, port), chain(self.behind(), inside)

    def behind(self) -> Operator:
        """What follows the heads' results."""
        return self.writes

    # Values --------------------------------------------------------------------------------------------

    def moves(self, head: int) -> Operator:
        """Ā ⊗ W_OV: values moved by the mean pattern."""
        group = self.runs.config.kv_head(head)
        pattern = self.runs.factor(lambda run: run.patterns[self.layer, head])
        if compresses(self.runs.config, "V"):
            moves = Step(
                (dense(f"Ā_{self._name(head)}", pattern, "position", "position"),), (self.w_o(head),)
            )
            return chain((moves,), self.latents.read("V", head))
        out, value = self.w_o(head), self._weight("V", group, head)
        name = f"W_OV_{self._name(head)}"
        weight = Factor(name, out.rows, value.columns, lambda: compose(out.numbers(), value.numbers()))
        return (Step((dense(f"Ā_{self._name(head)}", pattern, "position", "position"),), (weight,)),)

    def w_o(self, head: int) -> Factor:
        """W_O of a head."""
        return self.runs.matrix(f"W_O_{self._name(head)}", "W_O", (self.layer, head), "model", "head")

    def _name(self, head: int) -> str:
        return head_label(self.layer, head)

    def _weight(self, side: str, place: int, head: int) -> Factor:
        name = f"W_{side}"
        return self.runs.matrix(f"{name}_{self._name(head)}", name, (self.layer, place), "head", "model")

    # Scores --------------------------------------------------------------------------------------------

    def by_keys(self, head: int) -> Operator:
        """From what keys read to what the head gives: other keys seen by mean queries."""
        return (*self.mixed("K", head), *self.projected("K", head))

    def by_queries(self, head: int) -> Operator:
        """From what queries read to what the head gives: mean keys seen by other queries."""
        return (*self.mixed("Q", head), *self.projected("Q", head))

    def mixed(self, side: str, head: int) -> Operator:
        """From queries or keys as they enter the score to what the head gives."""
        kind = ByKeys if side == "K" else ByQueries
        return (*feature(self.w_o(head)), kind(f"Λ_{self._name(head)}_{side}", self.weighing(head)))

    def weighing(self, head: int) -> Weighing:
        """How the head's weights differ."""
        group = self.runs.config.kv_head(head)
        return self.weighings.setdefault(
            head,
            Weighing(
                means=self.means[head],
                slopes=self.slopes[head],
                queries=self.runs.factor(lambda run: run.queries[self.layer, head]),
                keys=self.runs.content(lambda run: run.keys[self.layer, group]),
                values=self.runs.content(lambda run: run.values[self.layer, group]),
                sink=self.sink_means[head],
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
        here, there = map(log_pattern, scores, self.sinks)
        seen = visible_in_both(*scores)
        return np.where(seen, logarithmic_mean(*patterns, np.where(seen, here - there, 0.0)), 0.0)

    @cached_property
    def sinks(self) -> tuple[Array | None, Array | None]:
        """The scores of the heads' sinks in both runs, (H); None where there are none."""
        here, there = (run.model.weights.sinks for run in (self.runs.here, self.runs.there))
        return layer_of(here, self.layer), layer_of(there, self.layer)

    @cached_property
    def sink_means(self) -> Array:
        """Λ of the heads' sinks (H, n, 1), zero where there are none."""
        scores = self.runs.both(lambda run: run.scores[self.layer])
        (sinks, others) = self.sinks
        if sinks is None or others is None:
            return np.zeros((*scores[0].shape[:2], 1))
        here, there = log_sink(scores[0], sinks), log_sink(scores[1], others)
        return logarithmic_mean(np.exp(here), np.exp(there), here - there)

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
        return chain(self.turn, self._normed(side, self._place(side, head), head))

    @cached_property
    def latents(self) -> Latents:
        """What queries, keys and values are made of, in latent attention."""
        return Latents(self.runs, self.layer)

    @cached_property
    def turn(self) -> Operator:
        """Rotary positions, if there are any."""
        config = self.runs.config
        rotary = config.rotary_of(self.layer)
        if rotary is None:
            return ()
        name = (
            "R" if config.rotaries is None else f"R_L{self.layer}"
        )  # layers that turn otherwise have other numbers
        return (Turn.of(rotary, self.runs.positions, config.d_head, name),)

    def _normed(self, side: str, place: int, head: int) -> Operator:
        """The map of queries or keys, through their norm if they have one, or that of their latent."""
        if compresses(self.runs.config, "Q" if side == "Q" else "K"):
            return self.latents.read("Q" if side == "Q" else "K", head)
        if self.runs.config.qk_norm == "projection":
            weight = self.runs.weight(f"W_{side}", self.layer, place)
            content, total = self.contents(side)[place], self._together(side)
            scale = self.runs.between(*self._scales(side))
            change = dyad(
                f"{side}_{self._name(head)}",
                self._readers[side],
                content,
                scale_slopes(*self._scales(side)),
                total,
            )
            one = scaled_together(f"{side}_{self._name(head)}", weight, change, scale)
            return chain(self._gain(side, place, head), (one,))
        return chain(self.norm(side, place, head), feature(self._weight(side, place, head)))

    def norm(self, side: str, place: int, head: int) -> Operator:
        """The norm of each head's queries or keys, if there is one."""
        if self.runs.config.qk_norm is None:
            return ()
        label, (here, there) = f"{side}_{self._name(head)}", (scale[place] for scale in self._scales(side))
        middle, content = self.projections[side][place], self.contents(side)[place]
        before: Operator = ()
        if self.runs.config.qk_norm == "layernorm":
            middle, content = centered(middle), centered(content)
            before = feature(centering(Space("head", middle.shape[-1]), "C_head"))
        one = scaled(label, middle, content, scale_slopes(here, there), self.runs.between(here, there))
        return chain(self._gain(side, place, head), (one,), before)

    def _scales(self, side: str) -> tuple[Array, Array]:
        return self.runs.both(lambda run: run.norm_scales[f"L{self.layer}.{SIDES[side]}"])

    def _together(self, side: str) -> int:
        """How many numbers all queries, or all keys, of a position have."""
        return int(self.projections[side].shape[0] * self.projections[side].shape[2])

    def _gain(self, side: str, place: int, head: int) -> Operator:
        name = f"g_{SIDES[side]}"
        if not self.runs.has(name):
            return ()
        values = self.runs.weight(name, *self._gain_index(place))
        return feature(diagonal(f"G_{side}_{self._name(head)}", values, "head"))

    def _gain_index(self, place: int) -> tuple[int, ...]:
        return (self.layer,) if self.runs.config.qk_norm == "head" else (self.layer, place)

    # Where changes of weights enter --------------------------------------------------------------------

    def mean_read(self, side: str) -> Array:
        """The mean stream that a map reads, positions included where queries and keys alone see them, (n, d)."""
        return self.runs.mean(
            lambda run: (
                run.residuals[f"L{self.layer}.attn_in"] if side == "V" else scored_stream(run, self.layer)
            )
        )

    def after_norm(self, side: str, place: int) -> dict[str, Operator]:
        """The edges of the heads that use one query, key or value head, from what enters the score (moves, for V)."""
        return {
            head_label(self.layer, head, side): self.from_there(side, head)
            for head in self._users(side, place)
        }

    def after_map(self, side: str, place: int) -> dict[str, Operator]:
        """The same from behind the map, before its norm; a norm over all heads lets every head feel it."""
        if side == "V" or self.runs.config.qk_norm != "projection":
            norms = {
                head: () if side == "V" else self.norm(side, place, head) for head in self._users(side, place)
            }
            return {
                head_label(self.layer, head, side): chain(self.from_there(side, head), norms[head])
                for head in norms
            }
        every = range(self.runs.config.n_heads)
        return {
            head_label(self.layer, head, side): chain(
                self.from_there(side, head), self._felt(side, head, place)
            )
            for head in every
        }

    def _felt(self, side: str, head: int, place: int) -> Operator:
        """What one projection's change does to a head's queries or keys, through a norm over all of them."""
        own, middle = self._place(side, head), self.projections[side]
        here, there = self._scales(side)
        label = f"{side}_{self._name(head)}"
        content, slopes = self.contents(side)[own], scale_slopes(here, there)
        name = f"{label}_{place}"  # that of the whole projection reads the stream
        change: Operator = (dyad(name, middle[place], content, slopes, self._together(side)),)
        if own == place:
            mean: Operator = (Step((diagonal(f"S̄_{label}", self.runs.between(here, there), "position"),)),)
            change = (Parallel(f"N_{label}", (mean, change)),)
        return chain(self._gain(side, own, head), change)

    def from_there(self, side: str, head: int) -> Operator:
        """From a head's queries or keys before they are turned, or its values, to what the head gives."""
        if side != "V":
            return chain(self.behind(), self.mixed(side, head), self.turn)
        pattern = self.runs.factor(lambda run: run.patterns[self.layer, head])
        moves = Step((dense(f"Ā_{self._name(head)}", pattern, "position", "position"),), (self.w_o(head),))
        return chain(self.writes, (moves,))

    def _place(self, side: str, head: int) -> int:
        return head if side == "Q" else self.runs.config.kv_head(head)

    def _users(self, side: str, place: int) -> list[int]:
        return [head for head in range(self.runs.config.n_heads) if self._place(side, head) == place]

    def gain_change(self, side: str, place: int) -> Array:
        """The difference of a query or key norm's gain at the mean of what it multiplies, (n, d_head)."""
        change = self.runs.change(f"g_{SIDES[side]}", *self._gain_index(place))
        values = self.runs.both(lambda run: projection(run, self.layer, side)[place])
        if self.runs.config.qk_norm == "layernorm":
            values = (centered(values[0]), centered(values[1]))
        together = self.runs.config.qk_norm == "projection"
        here, there = (scale if together else scale[place] for scale in self._scales(side))
        return change * mean_of_products(values, (here, there))

    @cached_property
    def projections(self) -> dict[str, Array]:
        """Mean queries and keys before their norm, (heads, n, d_head)."""
        return {side: midpoint(*self._both_projections[side]) for side in SIDES}

    def contents(self, side: str) -> Array:
        """The same as what a difference of the norm's scale multiplies."""
        return self.runs.between(*self._both_projections[side][::-1])

    @cached_property
    def _both_projections(self) -> dict[str, tuple[Array, Array]]:
        layer = self.layer
        return {side: self.runs.both(lambda run, s=side: projection(run, layer, s)) for side in SIDES}  # type: ignore[misc]

    @cached_property
    def _readers(self) -> dict[str, Array]:
        """For a norm over all heads: Σ_h p̄_h·W_h, covectors (n, d_model) on what attention reads."""
        maps = {side: self.runs.weight(f"W_{side}", self.layer) for side in SIDES}
        return {
            side: np.einsum("hnk,hkd->nd", self.projections[side], maps[side], optimize=True)
            for side in SIDES
        }


def centered(x: Array) -> Array:
    """Return vectors without the mean of their numbers."""
    return np.asarray(x - x.mean(axis=-1, keepdims=True))


def scored_stream(run: Trace, layer: int) -> Array:
    """Return what queries and keys read, (n, d): what attention reads, and positions where only they see them."""
    weights, read = run.model.weights, run.residuals[f"L{layer}.attn_in"]
    if run.config.positions != "qk":
        return read
    assert weights.W_pos is not None, "weights fit their configuration"
    return read + weights.W_pos[:, : len(read)].T


def projection(run: Trace, layer: int, side: str) -> Array:
    """Return a run's queries or keys before norm and turn, (heads, n, d_head); traces hold only what comes after."""
    weights, read = run.model.weights, scored_stream(run, layer)
    bias: Array | None = getattr(weights, f"b_{side}")
    found: Array = read @ np.swapaxes(getattr(weights, f"W_{side}")[layer], -1, -2)
    return found if bias is None else found + bias[layer][:, None, :]


def log_sink(scores: Array, sinks: Array) -> Array:
    """Return the logarithm of the weight of each head's sink (H, n, 1), of scores (H, n, n)."""
    of_sink = np.broadcast_to(sinks[:, None, None], (*scores.shape[:2], 1))
    return log_pattern(np.concatenate([scores, of_sink], axis=-1))[..., -1:]


def log_pattern(scores: Array, sinks: Array | None = None) -> Array:
    """Return the logarithm of the softmax of scores over the last axis, also where it underflows; 0 where masked.

    Sinks (H) take their share of (H, n, n).

    >>> log_pattern(np.array([0.0, -1e4, -np.inf])).tolist()
    [0.0, -10000.0, 0.0]
    """
    top = scores.max(axis=-1, keepdims=True)
    top = top if sinks is None else np.maximum(top, sinks[:, None, None])
    below = scores - np.where(np.isneginf(top), 0.0, top)  # first, so that large scores lose no digits
    total = np.exp(below).sum(axis=-1, keepdims=True)
    total = total if sinks is None else total + np.exp(sinks[:, None, None] - top)
    return np.where(np.isfinite(scores), below, 0.0) - np.where(
        np.isfinite(scores), np.log(np.maximum(total, 1.0)), 0.0
    )
