"""The named factors of a transformer, with a run's frozen numbers where there is a run.

Names are the papers': `A_L0H1` a pattern, `W_OV_L0H1` what the head moves. `S_…` is a frozen norm's scale per
position, `G_…` its gain, `C` the centering of LayerNorm; `ones` the same constant at every position.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ..algebra import Dense, Diagonal, Identity, LinearMap, Space, add, compose, scale
from ..model import Config, Trace, Weights
from .operators import Array, Dim, Factor, Gate, Operator, Step

ONE = Space("one", 1)

BY_NAME: Mapping[str, Dim] = {name: name for name in ("d_model", "d_head", "d_vocab", "n_ctx", "d_mlp")} | {
    "n": "n",
    "d_out": "d_vocab",
}
"""Sizes that are not known yet go by their names."""


@dataclass(frozen=True)
class Factors:
    """Makes factors: their names and shapes always, their numbers if there is a trace."""

    config: Config
    sizes: Mapping[str, Dim]
    trace: Trace | None

    @classmethod
    def symbolic(cls, layers: int, heads: int) -> Factors:
        """An attention-only transformer of which nothing is known but how many layers and heads it has."""
        config = Config(n_layers=layers, n_heads=heads, d_model=1, d_head=1, d_vocab=1, n_ctx=1)
        return cls(config, BY_NAME, None)

    @classmethod
    def of(cls, config: Config, trace: Trace | None = None) -> Factors:
        """A transformer of known sizes, on a run if there is one."""
        sizes = {name: getattr(config, name) for name in BY_NAME if name != "n"}
        return cls(config, sizes | {"n": "n" if trace is None else len(trace.tokens)}, trace)

    def make(
        self, name: str, rows: str | int, columns: str | int, numbers: Callable[[Trace], LinearMap]
    ) -> Factor:
        """A factor whose sizes are given by name (or as numbers)."""
        map = None if self.trace is None else numbers(self.trace)
        return Factor(name, self._dim(rows), self._dim(columns), map)

    def _dim(self, size: str | int) -> Dim:
        return self.sizes[size] if isinstance(size, str) else size

    def has(self, name: str) -> bool:
        """Whether the run's weights hold an optional array; a bias that is zero everywhere is as good as none."""
        if self.trace is None:
            return False
        array: Array | None = getattr(self.trace.model.weights, name)
        return array is not None and (name.startswith("g_") or bool(np.any(array)))

    # Attention -----------------------------------------------------------------------------------------

    def pattern(self, layer: int, head: int) -> Factor:
        return self.make(
            f"A_L{layer}H{head}",
            "n",
            "n",
            lambda run: square(run.patterns[layer, head], "position", f"A_L{layer}H{head}"),
        )

    def w_o(self, layer: int, head: int) -> Factor:
        return self.make(f"W_O_L{layer}H{head}", "d_model", "d_head", lambda run: _w_o(run, layer, head))

    def w_ov(self, layer: int, head: int) -> Factor:
        return self.make(
            f"W_OV_L{layer}H{head}",
            "d_model",
            "d_model",
            lambda run: compose(_w_o(run, layer, head), _w_v(run, layer, head)),
        )

    # MLPs ----------------------------------------------------------------------------------------------

    def w_in(self, layer: int) -> Factor:
        return self.make(
            f"W_in_L{layer}", "d_mlp", "d_model", lambda run: _stacked(run, "W_in", layer, "neurons", "model")
        )

    def w_out(self, layer: int) -> Factor:
        return self.make(
            f"W_out_L{layer}",
            "d_model",
            "d_mlp",
            lambda run: _stacked(run, "W_out", layer, "model", "neurons"),
        )

    def gate(self, layer: int, without: tuple[int, ...] = ()) -> Gate:
        """The frozen gates of an MLP, closed for neurons that are components of their own."""
        values = None
        if self.trace is not None:
            values = np.array(self.trace.mlp_gates[layer])
            values[:, list(without)] = 0.0
        return Gate(f"D_L{layer}M", self.sizes["n"], self.sizes["d_mlp"], values)

    def neuron_gate(self, layer: int, neuron: int) -> Factor:
        return self.make(
            f"D_L{layer}N{neuron}",
            "n",
            "n",
            lambda run: Diagonal(
                run.mlp_gates[layer][:, neuron], Space("position", len(run.tokens)), f"D_L{layer}N{neuron}"
            ),
        )

    def neuron_out(self, layer: int, neuron: int) -> Factor:
        return self.make(
            f"w_out_L{layer}N{neuron}",
            "d_model",
            1,
            lambda run: column(_weights(run, "W_out")[layer][:, neuron], "model", f"w_out_L{layer}N{neuron}"),
        )

    def neuron_in(self, layer: int, neuron: int) -> Factor:
        return self.make(
            f"w_in_L{layer}N{neuron}",
            1,
            "d_model",
            lambda run: column(_weights(run, "W_in")[layer][neuron], "model", f"w_in_L{layer}N{neuron}").T,
        )

    # Norms, multipliers, caps --------------------------------------------------------------------------

    def norm(self, name: str, layer: int | None = None) -> Step:
        """A frozen norm without its bias: scale per position ⊗ gain · centering."""
        site = name if layer is None else f"L{layer}.{name}"
        label = site.replace(".", "_")
        scales = self.make(
            f"S_{label}",
            "n",
            "n",
            lambda run: Diagonal(run.norm_scales[site], Space("position", len(run.tokens)), f"S_{label}"),
        )
        feature = []
        if self.trace is None or self.has(f"g_{name}"):
            gain = self.make(
                f"G_{label}",
                "d_model",
                "d_model",
                lambda run: _gain(_at(_weights(run, f"g_{name}"), layer), f"G_{label}"),
            )
            feature.append(gain)
        if self.config.norm == "layernorm":
            feature.append(self.make("C", "d_model", "d_model", lambda run: _centering(run.config.d_model)))
        return Step((scales,), tuple(feature))

    def multiplier(self, name: str, value: float, size: str) -> Operator:
        """A constant multiplier as a factor of its own; nothing where it is one."""
        if value == 1.0:
            return ()
        space = self.outputs if size == "d_out" else "model"
        return (
            Step((), (self.make(name, size, size, lambda run: scale(value, Identity(Space(space, getattr(run.config, size))))),)),
        )  # fmt: skip

    def transform(self) -> Operator:
        """The dense layer before the final norm, its gates frozen, without its bias."""
        values = None if self.trace is None else np.array(self.trace.transform_gates)
        weight = self.make(
            "W_transform",
            "d_model",
            "d_model",
            lambda run: table(_weights(run, "W_transform"), "model", "model", "W_transform"),
        )
        return (Gate("D_U", self.sizes["n"], self.sizes["d_model"], values), Step((), (weight,)))

    def cap(self, ratios: Callable[[Trace], Array]) -> Gate:
        """A frozen soft-cap: what it leaves of every logit."""
        values = None if self.trace is None else ratios(self.trace)
        return Gate("cap_U", self.sizes["n"], self.sizes["d_out"], values)

    # Tables and constants ------------------------------------------------------------------------------

    def w_e(self) -> Factor:
        return self.make(
            "W_E", "d_model", "d_vocab", lambda run: table(_weights(run, "W_E"), "model", "vocab", "W_E")
        )

    def w_u(self) -> Factor:
        return self.make(
            "W_U", "d_out", "d_model", lambda run: table(_weights(run, "W_U"), self.outputs, "model", "W_U")
        )

    @property
    def outputs(self) -> str:
        """The name of the space of the outputs."""
        return "vocab" if self.config.predicts_tokens else "outputs"

    def w_pos(self, positions: Callable[[Trace], Array], columns: str) -> Factor:
        return self.make(
            "W_pos", "d_model", columns, lambda run: table(positions(run), "model", "context", "W_pos")
        )

    def ones(self) -> Factor:
        """The same constant at every position: the column of ones."""
        return self.make("ones", "n", 1, lambda run: column(np.ones(len(run.tokens)), "position", "ones"))

    def constant(
        self, name: str, size: str | int, space: str, values: Callable[[Weights], Array | None]
    ) -> Factor:
        """A bias as a column."""

        def numbers(run: Trace) -> LinearMap:
            array = values(run.model.weights)
            assert array is not None, "constants are made only where the weights have them"
            return column(array, space, name)

        return self.make(name, size, 1, numbers)


def there(array: Array | None, *index: int | slice) -> Array:
    """Return an optional array of the weights, or a part of it, where it is known to be there."""
    assert array is not None, "constants are made only where the weights have them"
    return array[index] if index else array


def square(array: Array, space: str, name: str) -> Dense:
    return table(array, space, space, name)


def table(array: Array, target: str, source: str, name: str) -> Dense:
    return Dense(array, Space(target, array.shape[0]), Space(source, array.shape[1]), name)


def column(values: Array, space: str, name: str) -> Dense:
    return Dense(values[:, None], Space(space, len(values)), ONE, name)


def _weights(run: Trace, name: str) -> Array:
    array: Array | None = getattr(run.model.weights, name)
    assert array is not None, "weights fit their configuration"
    return array


def _at(array: Array, layer: int | None) -> Array:
    return array if layer is None else array[layer]


def _stacked(run: Trace, name: str, layer: int, target: str, source: str) -> Dense:
    return table(_weights(run, name)[layer], target, source, f"{name}_L{layer}")


def _w_o(run: Trace, layer: int, head: int) -> Dense:
    return table(run.model.weights.W_O[layer, head], "model", "head", f"W_O_L{layer}H{head}")


def _w_v(run: Trace, layer: int, head: int) -> Dense:
    array = run.model.weights.W_V[layer, run.config.kv_head(head)]
    return table(array, "head", "model", f"W_V_L{layer}H{head}")


def _gain(values: Array, name: str) -> Diagonal:
    return Diagonal(values, Space("model", len(values)), name)


def _centering(d: int) -> LinearMap:
    """I - 1 1ᵀ / d, kept as identity plus rank one."""
    ones = column(np.ones(d), "model", "1")
    return add(Identity(Space("model", d)), scale(-1.0 / d, ones @ ones.T))
