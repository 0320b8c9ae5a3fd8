"""The named factors of a transformer, with the numbers of its weights or of a run where there are any.

Names are the papers': `A_L0H1` a pattern, `W_OV_L0H1` what the head moves. `S_…` is a frozen norm's scale per
position, `G_…` its gain, `C` the centering of LayerNorm; `ones` the same constant at every position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..algebra import Dense, Diagonal, Identity, LinearMap, Space, compose, scale
from ..labels import head_label, neuron_label
from ..model import Config, Model, Trace, Weights
from ..model.made_again import one_pattern
from .latents import DOWN, compresses, key_scales, read_map, shared_key, up_map
from .law import BlockLaw
from .named import center, centering, column, table
from .operators import Array, Dim, Factor, Gate, Later, Operator, Step
from .tall import BLOCK, Tall

Side: TypeAlias = Literal["Q", "K", "V"]
SIDES: tuple[Side, ...] = ("Q", "K", "V")

BY_NAME: Mapping[str, Dim] = {
    name: name for name in ("d_model", "d_head", "d_value", "d_vocab", "n_ctx", "d_mlp")
} | {
    "n": "n",
    "d_out": "d_vocab",
}
"""Sizes that are not known yet go by their names."""


@dataclass(frozen=True)
class Factors:
    """Makes factors: their names and shapes always, their numbers as far as there are weights and a run."""

    config: Config
    sizes: Mapping[str, Dim]
    weights: Weights | None = None
    trace: Trace | None = None

    @classmethod
    def symbolic(cls, layers: int, heads: int) -> Factors:
        """An attention-only transformer of which nothing is known but how many layers and heads it has."""
        config = Config(n_layers=layers, n_heads=heads, d_model=1, d_head=1, d_vocab=1, n_ctx=1)
        return cls(config, BY_NAME)

    @classmethod
    def of(cls, config: Config) -> Factors:
        """A transformer of known sizes."""
        return cls(config, {name: getattr(config, name) for name in BY_NAME if name != "n"} | {"n": "n"})

    @classmethod
    def of_weights(cls, model: Model) -> Factors:
        """A model without a run: factors on features have numbers, those on positions have none."""
        return replace(cls.of(model.config), weights=model.weights)

    @classmethod
    def of_run(cls, trace: Trace) -> Factors:
        """A model on a run, held fixed."""
        made = cls.of_weights(trace.model)
        return replace(made, sizes={**made.sizes, "n": len(trace.tokens)}, trace=trace)

    def make(
        self, name: str, rows: str | int, columns: str | int, numbers: Callable[[Weights], LinearMap]
    ) -> Factor:
        """A factor of the weights, its sizes given by name (or as numbers)."""
        if self.weights is None:
            return Factor(name, self._dim(rows), self._dim(columns))
        map, origin = partial(numbers, self.weights), (self.weights, self.config)
        return Factor(name, self._dim(rows), self._dim(columns), map, origin=origin)

    def on_run(
        self, name: str, rows: str | int, columns: str | int, numbers: Callable[[Trace], LinearMap]
    ) -> Factor:
        """A factor that a run alone has."""
        map = None if self.trace is None else partial(numbers, self.trace)
        return Factor(name, self._dim(rows), self._dim(columns), map)

    def _dim(self, size: str | int) -> Dim:
        return self.sizes[size] if isinstance(size, str) else size

    def has(self, name: str) -> bool:
        """Whether the weights hold an optional array; a bias that is zero everywhere is as good as none."""
        array: Array | None = getattr(self.weights, name, None)
        return array is not None and (name.startswith("g_") or bool(np.any(array)))

    @property
    def law(self) -> BlockLaw:
        """What stands around the branches of every block."""
        multiplied = self.multiplier("M_R", self.config.residual_multiplier, "d_model")
        return BlockLaw(self.config, lambda name, layer: (self.norm(name, layer),), multiplied)

    # Attention -----------------------------------------------------------------------------------------

    def pattern(self, layer: int, head: int) -> Factor:
        name = f"A_{head_label(layer, head)}"
        made = self.on_run(
            name, "n", "n", lambda run: table(run.patterns[layer, head], "position", "position", name)
        )
        return replace(made, lower=self.config.causal, alone=self._alone(name, layer, head))

    def _alone(self, name: str, layer: int, head: int) -> Later | None:
        """What makes the pattern of a head without those of others."""
        if (run := self.trace) is None:
            return None
        return lambda: table(one_pattern(run.patterns, layer, head), "position", "position", name)

    def w_read(self, side: Side, layer: int, head: int) -> Factor:
        """W_Q, W_K or W_V; heads of a group share the last two."""
        name, place = f"W_{side}_{head_label(layer, head)}", (layer, self._place(side, head))
        size = "d_value" if side == "V" else "d_head"
        if compresses(self.config, side):
            return self.make(name, size, "d_model", lambda w: read_map(w, self.config, side, *place))
        return self.make(
            name, size, "d_model", lambda w: table(getattr(w, f"W_{side}")[place], "head", "model", name)
        )

    def w_o(self, layer: int, head: int) -> Factor:
        name = f"W_O_{head_label(layer, head)}"
        return self.make(
            name, "d_model", "d_value", lambda w: table(w.W_O[layer, head], "model", "head", name)
        )

    def w_ov(self, layer: int, head: int) -> Factor:
        o, v = self.w_o(layer, head), self.w_read("V", layer, head)
        name = f"W_OV_{head_label(layer, head)}"
        return self.make(name, "d_model", "d_model", lambda _: compose(o.numbers(), v.numbers()))

    def moved(self, layer: int, head: int, *more: Factor) -> tuple[Factor, ...]:
        """What a head does to positions: its pattern, and where values are made of a latent, the scale of its norm."""
        scale = () if self.config.latent is None else (self.latent_scale("V", layer),)
        return (self.pattern(layer, head), *scale, *more)

    def latent_scale(self, side: Side, layer: int) -> Factor:
        """The frozen scale of the norm of a latent, one number a position."""
        site = f"L{layer}.{DOWN[side][1]}"
        name = f"S_{site.replace('.', '_')}"
        return self.on_run(name, "n", "n", lambda run: _by_position(run.norm_scales[site], name))

    def latent_norm(self, side: Side, layer: int) -> Operator:
        """What the norm of a latent does to queries or keys: a scale per position, of keys to what is the head's own alone."""
        if side != "K":
            return (Step((self.latent_scale(side, layer),), ()),)
        run = self.trace
        values = None if run is None else key_scales(self.config, run.norm_scales[f"L{layer}.kv_latent"])
        return (Gate(f"S_K_L{layer}", self.sizes["n"], self.sizes["d_head"], values),)

    def latent_biases(self, side: Side, layer: int, head: int) -> Iterator[tuple[Factor, Operator]]:
        """The biases of what compresses, and of the key that heads share, each with what a side of a head makes of it."""
        down, label = DOWN[side][0], head_label(layer, head)
        if self.has(f"b_{down}"):
            bias = self.constant(
                f"b_{down}_L{layer}",
                self._rank(side),
                "latent",
                lambda w: there(getattr(w, f"b_{down}"), layer),
            )
            rows = "d_value" if side == "V" else "d_head"
            up = self.make(
                f"W_U{side}_{label}",
                rows,
                self._rank(side),
                lambda w: up_map(w, self.config, side, layer, head),
            )
            yield bias, (Step((self.ones(),), (up, bias)),)
        if side == "K" and self.has("b_KR"):
            size = 0 if self.config.latent is None else self.config.latent.d_shared
            bias = self.constant(f"b_KR_L{layer}", size, "shared", lambda w: there(w.b_KR, layer))
            placed = self.make("I_shared", "d_head", size, lambda _: shared_key(self.config))
            yield bias, (Step((self.ones(),), (placed, bias)),)

    def _rank(self, side: Side) -> int:
        latent = self.config.latent
        assert latent is not None, "asked for only where there is latent attention"
        return (latent.query_rank or 0) if side == "Q" else latent.rank

    def head_norm(self, side: Side, layer: int, head: int) -> Operator:
        """The norm of a head's queries or keys, frozen: scale per position ⊗ gain; nothing where there is none."""
        if side != "V" and compresses(self.config, side):
            return self.latent_norm(side, layer)
        if side == "V" or self.config.qk_norm is None:
            return ()
        place, small, label = self._place(side, head), side.lower(), head_label(layer, head)

        def scales(run: Trace) -> LinearMap:
            found = run.norm_scales[f"L{layer}.{small}"]
            return _by_position(found if found.ndim == 1 else found[place], f"S_{small}_{label}")

        def gain(weights: Weights) -> LinearMap:
            found = there(getattr(weights, f"g_{small}"), layer)
            return _gain(found if found.ndim == 1 else found[place], f"G_{small}_{label}", "head")

        position = self.on_run(f"S_{small}_{label}", "n", "n", scales)
        feature = []
        if self.has(f"g_{small}"):
            feature.append(self.make(f"G_{small}_{label}", "d_head", "d_head", gain))
        if self.config.qk_norm == "layernorm":
            feature.append(centering(Space("head", self.config.d_head), "C_head"))
        return (Step((position,), tuple(feature)),)

    def head_norm_bias(self, side: Side, layer: int, head: int) -> Factor | None:
        """The bias of the norm of a head's queries or keys, if there is one."""
        small, place = side.lower(), (layer, self._place(side, head))
        if not self.has(f"b_{small}"):
            return None
        name = f"b_{small}_{head_label(layer, head)}"
        return self.constant(name, "d_head", "head", lambda w: there(getattr(w, f"b_{small}"), *place))

    def bias_read(self, side: Side, layer: int, head: int) -> Factor:
        """b_Q, b_K or b_V; heads of a group share the last two."""
        place = layer, self._place(side, head)
        return self.constant(
            f"b_{side}_{head_label(layer, head)}",
            "d_head",
            "head",
            lambda w: there(getattr(w, f"b_{side}"), *place),
        )

    def _place(self, side: Side, head: int) -> int:
        return head if side == "Q" else self.config.kv_head(head)

    # MLPs ----------------------------------------------------------------------------------------------

    def w_in(self, layer: int, name: str = "W_in") -> Factor:
        """W_in, or W_gate by name."""
        return self.make(
            f"{name}_L{layer}", "d_mlp", "d_model", lambda w: _stacked(w, name, layer, "neurons", "model")
        )

    def w_out(self, layer: int) -> Factor:
        return self.make(
            f"W_out_L{layer}", "d_model", "d_mlp", lambda w: _stacked(w, "W_out", layer, "model", "neurons")
        )

    def gate(self, layer: int, without: tuple[int, ...] = ()) -> Gate:
        """The frozen gates of an MLP, closed for neurons that are components of their own."""
        values = None
        if self.trace is not None:
            values = self.trace.mlp_gates[layer]
            if without:
                values = np.array(values)
                values[:, list(without)] = 0.0
        return Gate(f"D_L{layer}M", self.sizes["n"], self.sizes["d_mlp"], values)

    def neuron_gate(self, layer: int, neuron: int) -> Factor:
        name = f"D_{neuron_label(layer, neuron)}"
        return self.on_run(name, "n", "n", lambda run: _by_position(run.mlp_gates[layer][:, neuron], name))

    def neuron_out(self, layer: int, neuron: int) -> Factor:
        """A neuron's column of W_out."""
        name = f"w_out_{neuron_label(layer, neuron)}"
        return self.make(
            name, "d_model", 1, lambda w: column(there(w.W_out, layer)[:, neuron], "model", name, "neuron")
        )

    def neuron_in(self, layer: int, neuron: int, name: str = "W_in") -> Factor:
        """A neuron's row of W_in, or of W_gate by name."""
        made = f"w{name[1:]}_{neuron_label(layer, neuron)}"
        return self.make(
            made,
            1,
            "d_model",
            lambda w: column(there(getattr(w, name), layer, neuron), "model", made, "neuron").T,
        )

    # Norms, multipliers, caps --------------------------------------------------------------------------

    def norm(self, name: str, layer: int | None = None) -> Step:
        """A frozen norm without its bias: scale per position ⊗ gain · centering."""
        site = name if layer is None else f"L{layer}.{name}"
        label = site.replace(".", "_")
        scales = self.on_run(
            f"S_{label}", "n", "n", lambda run: _by_position(run.norm_scales[site], f"S_{label}")
        )
        feature = []
        if self.weights is None or self.has(f"g_{name}"):
            at = () if layer is None else (layer,)
            feature.append(
                self.make(
                    f"G_{label}", "d_model", "d_model",
                    lambda w: _gain(there(getattr(w, f"g_{name}"), *at), f"G_{label}", "model"),
                )
            )  # fmt: skip
        if self.config.norm == "layernorm":
            feature.append(self.make("C", "d_model", "d_model", lambda _: center(self.stream)))
        return Step((scales,), tuple(feature))

    def multiplier(self, name: str, value: float, size: str) -> Operator:
        """A constant multiplier as a factor of its own; nothing where it is one."""
        if value == 1.0:
            return ()
        space = Space(self.outputs, self.config.d_out) if size == "d_out" else self.stream
        return (Step((), (self.make(name, size, size, lambda _: scale(value, Identity(space))),)),)

    def transform(self) -> Operator:
        """The dense layer before the final norm, its gates frozen, without its bias."""
        values = None if self.trace is None else np.array(self.trace.transform_gates)
        weight = self.make(
            "W_transform", "d_model", "d_model",
            lambda w: table(there(w.W_transform), "model", "model", "W_transform"),
        )  # fmt: skip
        return (Gate("D_U", self.sizes["n"], self.sizes["d_model"], values), Step((), (weight,)))

    def cap(self, ratios: Callable[[Trace], Array]) -> Gate:
        """A frozen soft-cap: what it leaves of every logit."""
        values = None if self.trace is None else ratios(self.trace)
        return Gate("cap_U", self.sizes["n"], self.sizes["d_out"], values)

    # Tables and constants ------------------------------------------------------------------------------

    def w_e(self) -> Factor:
        made = self.make("W_E", "d_model", "d_vocab", lambda w: table(w.W_E, "model", "vocab", "W_E"))
        return made if self.weights is None else replace(made, picked=partial(_tokens, self.weights))

    def w_u(self) -> Factor:
        made = self.make("W_U", "d_out", "d_model", lambda w: table(w.W_U, self.outputs, "model", "W_U"))
        if self.weights is None or len(self.weights.W_U) <= BLOCK:
            return made
        return replace(made, tall=Tall("W_U", len(self.weights.W_U), partial(_outputs, self.weights)))

    def w_pos(self) -> Factor:
        """Learned positions."""
        return self.make(
            "W_pos", "d_model", "n_ctx", lambda w: table(there(w.W_pos), "model", "context", "W_pos")
        )

    def sinusoids(self, positions: Callable[[Trace], Array]) -> Factor:
        """Positions that are computed, one column for each of the run's."""
        return self.on_run(
            "W_pos", "d_model", "n", lambda run: table(positions(run), "model", "context", "W_pos")
        )

    @property
    def outputs(self) -> str:
        """The name of the space of the outputs."""
        return "vocab" if self.config.predicts_tokens else "outputs"

    @property
    def stream(self) -> Space:
        """The space of the stream."""
        return Space("model", self.config.d_model)

    def ones(self) -> Factor:
        """The same constant at every position: the column of ones."""
        return self.on_run("ones", "n", 1, lambda run: column(np.ones(len(run.tokens)), "position", "ones"))

    def constant(
        self, name: str, size: str | int, space: str, values: Callable[[Weights], Array | None]
    ) -> Factor:
        """A bias as a column."""
        return self.make(name, size, 1, lambda w: column(there(values(w)), space, name))


def there(array: Array | None, *index: int | slice) -> Array:
    """Return an optional array of the weights, or a part of it, where it is known to be there."""
    assert array is not None, "factors are made only where the weights have them"
    return array[index] if index else array


def _tokens(weights: Weights, tokens: NDArray[np.int64]) -> Array:
    """The embeddings of some tokens, (tokens, d_model): of a stored table those rows alone are read."""
    return np.ascontiguousarray(weights.W_E[:, tokens].T)


def _outputs(weights: Weights, begin: int, end: int) -> Array:
    """Some rows of the unembedding, (end - begin, d_model)."""
    return weights.W_U[begin:end]


def _stacked(weights: Weights, name: str, layer: int, target: str, source: str) -> Dense:
    return table(there(getattr(weights, name), layer), target, source, f"{name}_L{layer}")


def _by_position(values: Array, name: str) -> Diagonal:
    return Diagonal(values, Space("position", len(values)), name)


def _gain(values: Array, name: str, space: str) -> Diagonal:
    return Diagonal(values, Space(space, len(values)), name)
