"""Two models: every weight that differs is a source of its own, entering where it acts.

Δ(W x) = W̄ Δx + ΔW x̄: the first part is the graph of one model at mean weights, the second a source. So is the
difference of a bias, and of a norm's gain, Δg at the mean of what it multiplies. A map of one head enters through that
head's edge; tied tables are two sources.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ...labels import head_label
from ..factors import SIDES
from ..latents import DOWN, Side, compresses
from ..named import feature, multiplier
from ..nodes import Source, Values
from ..operators import Array, Operator, chain
from .attention import Attention
from .ends import Ends
from .experts import OneExpert
from .layout import Layout
from .mlps import Mlp
from .norms import mean_of_products
from .points import depth_behind
from .runs import Runs, midpoint, read_point

Found = Iterator[Source]


@dataclass(frozen=True, eq=False)
class Changes:
    """The sources that come from weights, of two models."""

    runs: Runs
    layout: Layout
    ends: Ends

    def sources(self) -> Found:
        """Every weight, gain and bias that differs, in the order in which they act."""
        yield from self.embedding()
        for layer in range(self.runs.config.n_layers):
            yield from self.attention(layer)
            yield from self.mlp(layer)
        yield from self.unembedding()

    # What a source is ----------------------------------------------------------------------------------

    def written(self, label: str, values: Array, write: Operator, depth: int, layer: int = -1) -> Found:
        """A source on the stream, unless it is zero everywhere."""
        if values.any():
            start = Values(f"x_{label}", values.shape[-1], values)
            yield Source(label, "weight", start, write, depth=depth, layer=layer)

    def read(self, label: str, values: Array, into: Mapping[str, Operator], layer: int = -1) -> Found:
        """A source that components read directly, unless it is zero everywhere."""
        if values.any() and into:
            start = Values(f"x_{label}", values.shape[-1], values)
            yield Source(label, "weight", start, depth=None, into=into, layer=layer)

    def rows(self, values: Array) -> Array:
        """The same vector at every position, (n, size)."""
        return np.tile(values, (self.runs.positions, 1))

    def mapped(self, array: str, read: Array, *index: int) -> Array:
        """What the difference of a map makes of a mean stream, (n, rows)."""
        return np.asarray(read @ self.runs.change(array, *index).T)

    # Ends ----------------------------------------------------------------------------------------------

    def embedding(self) -> Found:
        config, runs = self.runs.config, self.runs
        factor = multiplier("M_E", config.embedding_multiplier, config.d_model, "model")
        change = runs.change("W_E")
        tokens = (change[:, runs.here.tokens] + change[:, runs.there.tokens]).T / 2
        yield from self.written("dW_E", tokens, chain(self.ends.embed_norm(), factor), 0)
        if config.positions == "learned":
            yield from self.written(
                "dW_pos", runs.change("W_pos")[:, : runs.positions].T, self.ends.embed_norm(), 0
            )
        if config.embed_norm:
            yield from self.written("dg_embed", self.gain("embed"), (), 0)
            yield from self.written("db_embed", self.rows(runs.change("b_embed")), (), 0)

    def unembedding(self) -> Found:
        config, runs, sink = self.runs.config, self.runs, self.ends.label
        past = self.ends.past_norm()
        if config.transform:
            into = {sink: chain(past, self.ends.transform()[:1])}
            yield from self.read(
                "dW_transform", self.mapped("W_transform", runs.residual("transform_in")), into
            )
            yield from self.read("db_transform", self.rows(runs.change("b_transform")), into)
        if config.transform_norm:
            into = {sink: chain(past, self.ends.transform())}
            yield from self.read("dg_before_transform", self.gain("before_transform"), into)
            yield from self.read("db_before_transform", self.rows(runs.change("b_before_transform")), into)
        if config.final_norm:
            into = {sink: self.ends.past_table()}
            yield from self.read("dg_final", self.gain("final"), into)
            yield from self.read("db_final", self.rows(runs.change("b_final")), into)
        if self.ends.tables:
            into = {sink: self.ends.to_logits()}
            yield from self.read("dW_U", self.mapped("W_U", runs.residual("final_out")), into)
            yield from self.read("db_U", self.rows(runs.change("b_U")), into)

    def gain(self, name: str, layer: int | None = None) -> Array:
        """The difference of a norm's gain at the mean of what it multiplies, (n, d)."""
        runs, config = self.runs, self.runs.config
        change = runs.change(f"g_{name}") if layer is None else runs.change(f"g_{name}", layer)
        site = name if layer is None else f"L{layer}.{name}"
        read = runs.both(lambda run: run.residuals[read_point(config, name, layer)])
        if config.norm == "layernorm":
            read = tuple(x - x.mean(axis=-1, keepdims=True) for x in read)
        return change * mean_of_products(read, runs.both(lambda run: run.norm_scales[site]))

    def norm(self, name: str, layer: int, into: Mapping[str, Operator]) -> Found:
        """Gain and bias of a norm that components read through."""
        if name in self.runs.config.norms_of(layer):
            label = f"{name}_L{layer}"
            yield from self.read(f"dg_{label}", self.gain(name, layer), into, layer)
            yield from self.read(f"db_{label}", self.rows(self.runs.change(f"b_{name}", layer)), into, layer)

    def norm_behind(self, branch: str, layer: int) -> Found:
        """Gain and bias of a norm behind a branch, or of the sum."""
        name = f"{branch}_post"
        if name in self.runs.config.block_norms:
            law, depth = self.layout.law, depth_behind(self.runs.config, layer, branch)
            write = () if law.post else law.multiplied
            yield from self.written(f"dg_{name}_L{layer}", self.gain(name, layer), write, depth, layer)
            bias = self.rows(self.runs.change(f"b_{name}", layer))
            yield from self.written(f"db_{name}_L{layer}", bias, write, depth, layer)

    # Attention -----------------------------------------------------------------------------------------

    def attention(self, layer: int) -> Found:
        runs, attention = self.runs, self.layout.attention_of(layer)
        into = dict(attention.after_read())
        if runs.config.parallel == "shared":
            into |= self.layout.behind_attention(layer).after_read(self.layout.ports)
        yield from self.norm("attn", layer, into)
        if runs.config.positions == "qk":
            scored = {
                label: operator for label, operator in attention.after_read() if not label.endswith(".V")
            }
            yield from self.read(
                f"dW_pos_L{layer}", runs.change("W_pos")[:, : runs.positions].T, scored, layer
            )
        yield from self.maps(attention)
        yield from self.latents(attention)
        depth = depth_behind(runs.config, layer, "attn")
        yield from self.sinks(attention, depth)
        for head in range(runs.config.n_heads):
            given = midpoint(runs.here.z[layer, head], runs.there.z[layer, head])
            values = self.mapped("W_O", given, layer, head)
            yield from self.written(f"dW_O_L{layer}H{head}", values, attention.writes, depth, layer)
        bias = self.rows(runs.change("b_O", layer))
        yield from self.written(f"db_O_L{layer}", bias, attention.writes, depth, layer)
        yield from self.norm_behind("attn", layer)

    def sinks(self, attention: Attention, depth: int) -> Found:
        """Scores of sinks: where one rises, all weights fall in proportion, and so does what the head moves."""
        if not self.runs.config.sinks:
            return
        changes = self.runs.change("sinks", attention.layer)
        for head in range(self.runs.config.n_heads):
            weighing, label = attention.weighing(head), f"dsinks_L{attention.layer}H{head}"
            moved = -weighing.sink * changes[head] * weighing.middle_values
            write = chain(attention.writes, feature(attention.w_o(head)))
            yield from self.written(label, moved, write, depth, attention.layer)

    def maps(self, attention: Attention) -> Found:
        """Maps and biases of queries, keys and values, and the gains of their norms."""
        config, layer = self.runs.config, attention.layer
        for side in self.plain_sides:
            count = config.n_heads if side == "Q" else config.n_kv_heads
            read = attention.mean_read(side)
            for place in range(count):
                name = f"L{layer}{'H' if count == config.n_heads else 'G'}{place}"
                into = attention.after_map(side, place)
                values = self.mapped(f"W_{side}", read, layer, place)
                yield from self.read(f"dW_{side}_{name}", values, into, layer)
                bias = self.rows(self.runs.change(f"b_{side}", layer, place))
                yield from self.read(f"db_{side}_{name}", bias, into, layer)
                if side != "V" and config.qk_norm:
                    gained = attention.gain_change(side, place)
                    yield from self.read(
                        f"dg_{side.lower()}_{name}", gained, attention.after_norm(side, place), layer
                    )
                    bias = self.rows(self.runs.change(f"b_{side.lower()}", layer, place))
                    behind = attention.after_norm(side, place)
                    yield from self.read(f"db_{side.lower()}_{name}", bias, behind, layer)

    @property
    def plain_sides(self) -> str:
        """Those of queries, keys and values that are no latent's."""
        config = self.runs.config
        return "".join(side for side in SIDES if not compresses(config, side))

    def latents(self, attention: Attention) -> Found:
        """Maps, gains and biases of latents, and of the key that heads share."""
        config, layer = self.runs.config, attention.layer
        if config.latent is None:
            return
        yield from self.latent(attention, ("K", "V"))
        if compresses(config, "Q"):
            yield from self.latent(attention, ("Q",))
        place = f"L{layer}"
        into = {
            head_label(layer, head, "K"): chain(
                attention.from_there("K", head), attention.latents.from_shared()
            )
            for head in range(config.n_heads)
        }
        yield from self.read(
            f"dW_KR_{place}", self.mapped("W_KR", attention.mean_read("K"), layer), into, layer
        )
        yield from self.read(f"db_KR_{place}", self.rows(self.runs.change("b_KR", layer)), into, layer)

    def latent(self, attention: Attention, sides: tuple[Side, ...]) -> Found:
        """What one latent is made by, its gain, and what heads make of it."""
        latents, layer, heads = attention.latents, attention.layer, range(self.runs.config.n_heads)
        down, norm = DOWN[sides[0]]
        before = {
            head_label(layer, head, side): chain(attention.from_there(side, head), latents.from_latent(side, head))
            for head in heads for side in sides
        }  # fmt: skip
        values = self.mapped(f"W_{down}", attention.mean_read(sides[0]), layer)
        yield from self.read(f"dW_{down}_L{layer}", values, before, layer)
        yield from self.read(
            f"db_{down}_L{layer}", self.rows(self.runs.change(f"b_{down}", layer)), before, layer
        )
        behind = {
            head_label(layer, head, side): chain(attention.from_there(side, head), latents.from_gain(side, head))
            for head in heads for side in sides
        }  # fmt: skip
        gained = (
            self.runs.change(f"g_{norm}", layer) * latents.normed(sides[0])
            if self.runs.has(f"g_{norm}")
            else np.zeros(1)
        )
        yield from self.read(f"dg_{norm}_L{layer}", gained, behind, layer)
        for head in heads:
            for side in sides:
                name = "W_UQ" if side == "Q" else f"W_U{side}"
                values = self.mapped(name, latents.gained(side), layer, head)
                placed = latents.from_own() if side == "K" else ()
                one = {head_label(layer, head, side): chain(attention.from_there(side, head), placed)}
                yield from self.read(f"d{name}_L{layer}H{head}", values, one, layer)

    # MLPs ----------------------------------------------------------------------------------------------

    def mlp(self, layer: int) -> Found:
        if not self.runs.config.has_mlps:
            return
        yield from self.norm("mlp", layer, self.layout.behind_attention(layer).after_read(self.layout.ports))
        yield from self.experts(layer) if self.runs.config.is_sparse(layer) else self.neurons(layer)
        yield from self.norm_behind("mlp", layer)

    def neurons(self, layer: int) -> Found:
        """Maps and biases of an MLP."""
        runs, config = self.runs, self.runs.config
        mlp: Mlp = self.layout.mlp_of(layer)
        read = runs.residual(f"L{layer}.mlp_in")
        for weight, bias in (("W_in", "b_in"), ("W_gate", "b_gate"))[: 1 + config.gated]:
            into = mlp.after_map(weight, self.layout.ports)
            yield from self.read(f"d{weight}_L{layer}", self.mapped(weight, read, layer), into, layer)
            yield from self.read(f"d{bias}_L{layer}", self.rows(runs.change(bias, layer)), into, layer)
        depth = depth_behind(config, layer, "mlp")
        values = self.mapped("W_out", runs.mean(lambda run: run.mlp_hidden[layer]), layer)
        yield from self.written(f"dW_out_L{layer}", values, mlp.writes, depth, layer)
        bias_out = self.rows(runs.change("b_out", layer))
        yield from self.written(f"db_out_L{layer}", bias_out, mlp.writes, depth, layer)

    # Experts -------------------------------------------------------------------------------------------

    def experts(self, layer: int) -> Found:
        """The router, and maps and biases of each expert."""
        experts = self.layout.experts_of(layer)
        read = self.runs.residual(f"L{layer}.mlp_in")
        scored = experts.from_scores()
        yield from self.read(f"dW_router_L{layer}", self.mapped("W_router", read, layer), scored, layer)
        yield from self.read(
            f"db_router_L{layer}", self.rows(self.runs.change("b_router", layer)), scored, layer
        )
        for part in experts.parts:
            yield from self.expert(experts[part], read, layer)

    def expert(self, expert: OneExpert, read: Array, layer: int) -> Found:
        """Maps and biases of one expert, where both runs use it."""
        label, arrays, place = expert.part.label, expert.part.arrays, expert.part.place
        if expert.index is None and expert.routed:
            into = expert.from_scores()
            score = read @ self.runs.change("W_shared_gate", layer)[:, None]
            yield from self.read(f"dW_shared_gate_L{layer}", score, into, layer)
            bias = self.rows(np.atleast_1d(self.runs.change("b_shared_gate", layer)))
            yield from self.read(f"db_shared_gate_L{layer}", bias, into, layer)
        for side in ("in", "gate")[: 1 + self.runs.config.gated]:
            into = expert.after_map(side, self.layout.ports)
            values = self.mapped(f"W_{side}_{arrays}", read, *place)
            yield from self.read(f"dW_{side}_{label}", values, into, layer)
            bias = self.rows(self.runs.change(f"b_{side}_{arrays}", *place))
            yield from self.read(f"db_{side}_{label}", bias, into, layer)
        depth = depth_behind(self.runs.config, layer, "mlp")
        hidden = expert.spread(midpoint(*expert.at_both(lambda one: one.hidden)))
        values = self.mapped(f"W_out_{arrays}", hidden, *place) * expert.mean_weight[:, None]
        yield from self.written(f"dW_out_{label}", values, expert.writes, depth, layer)
        weighed = expert.mean_weight[:, None] * self.runs.change(f"b_out_{arrays}", *place)
        yield from self.written(f"db_out_{label}", weighed, expert.writes, depth, layer)
