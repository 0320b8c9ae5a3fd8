"""A transformer's sizes, with or without a run's numbers, as the pieces of a residual graph.

Names are the papers': `A_L0H1` a pattern, `W_OV_L0H1` what the head moves, `S_…` a frozen norm's
per-position scale, `G_…` its gain, `C` the centering of LayerNorm. Every constant is a source of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from ..algebra import Dense, Diagonal, Identity, LinearMap, Space, add, compose, scale
from ..model import Config, Trace, Weights
from .nodes import Block, Component, One, OneHot, Sink, Source
from .operators import IDENTITY, Array, Dim, Factor, Operator, Step, chain


class Pieces(TypedDict):
    """The arguments of a ResidualGraph."""

    positions: Dim
    d_model: Dim
    d_out: Dim
    sources: tuple[Source, ...]
    blocks: tuple[Block, ...]
    sink: Sink


@dataclass(frozen=True)
class Sizes:
    """What must be known of a transformer to lay out its graph; unknown sizes go by their names."""

    layers: int
    heads: int
    positions: Dim = "n"
    d_model: Dim = "d_model"
    d_head: Dim = "d_head"
    d_vocab: Dim = "d_vocab"
    n_ctx: Dim = "n_ctx"
    learned_positions: bool = False
    norm: str | None = None
    final_norm: bool = False

    @classmethod
    def of(cls, config: Config, positions: Dim = "n") -> Sizes:
        """Read the sizes off a configuration."""
        return cls(
            layers=config.n_layers,
            heads=config.n_heads,
            positions=positions,
            d_model=config.d_model,
            d_head=config.d_head,
            d_vocab=config.d_vocab,
            n_ctx=config.n_ctx,
            learned_positions=config.positions == "learned",
            norm=config.norm,
            final_norm=bool(config.final_norm),
        )


def pieces(sizes: Sizes, trace: Trace | None = None) -> Pieces:
    """Lay out sources, blocks and sink; with a trace, every factor carries the run's frozen numbers."""
    draft = _Draft(sizes, trace)
    return Pieces(
        positions=sizes.positions,
        d_model=sizes.d_model,
        d_out=sizes.d_vocab,
        sources=tuple(draft.sources()),
        blocks=tuple(draft.block(layer) for layer in range(sizes.layers)),
        sink=Sink("U", draft.unembedding()),
    )


@dataclass(frozen=True)
class _Draft:
    """The names and shapes of every factor, with numbers where there is a trace."""

    sizes: Sizes
    trace: Trace | None

    # Factors -------------------------------------------------------------------------------------------

    def factor(self, name: str, rows: Dim, columns: Dim, make: Callable[[Trace], LinearMap]) -> Factor:
        return Factor(name, rows, columns, None if self.trace is None else make(self.trace))

    def pattern(self, layer: int, head: int) -> Factor:
        n = self.sizes.positions
        return self.factor(
            f"A_L{layer}H{head}", n, n, lambda run: _square(run.patterns[layer, head], "position")
        )

    def output(self, layer: int, head: int) -> Factor:
        name = f"W_O_L{layer}H{head}"
        return self.factor(
            name, self.sizes.d_model, self.sizes.d_head, lambda run: _w_o(run.model.weights, layer, head)
        )

    def output_value(self, layer: int, head: int) -> Factor:
        name, d = f"W_OV_L{layer}H{head}", self.sizes.d_model
        return self.factor(
            name,
            d,
            d,
            lambda run: compose(
                _w_o(run.model.weights, layer, head), _w_v(run.model.weights, run.config, layer, head)
            ),
        )

    def vector(self, name: str, rows: Dim, space: str, values: Array | None) -> Factor:
        map = None if values is None else Dense(values[:, None], Space(space, len(values)), _ONE, name=name)
        return Factor(name, rows, 1, map)

    def everywhere(self) -> Factor:
        """The same constant at every position: the column of ones."""
        return self.factor(
            "ones", self.sizes.positions, 1, lambda run: _column(np.ones(len(run.tokens)), "position")
        )

    def norm(self, site: str, gain: str) -> Step:
        """A frozen norm without its bias: scale per position ⊗ gain · centering."""
        n, d, name = self.sizes.positions, self.sizes.d_model, site.replace(".", "_")
        scale = self.factor(
            f"S_{name}", n, n, lambda run: Diagonal(run.norm_scales[site], Space("position", len(run.tokens)))
        )
        gains = self.weight(gain, site)
        feature = [
            Factor(f"G_{name}", d, d, None if gains is None else Diagonal(gains, _space("model", gains)))
        ]
        if self.trace is not None and gains is None:
            feature = []
        if self.sizes.norm == "layernorm":
            feature.append(self.factor("C", d, d, lambda run: _centering(run.config.d_model)))
        return Step((scale,), tuple(feature))

    def weight(self, name: str, site: str) -> Array | None:
        """An optional weight vector, taken at the site's layer where it is stacked by layer."""
        values: Array | None = None if self.trace is None else getattr(self.trace.model.weights, name)
        if values is None or not site.startswith("L"):
            return values
        return values[int(site[1 : site.index(".")])]  # type: ignore[no-any-return]

    # Operators -----------------------------------------------------------------------------------------

    def head(self, layer: int, head: int) -> Component:
        moves = Step((self.pattern(layer, head),), (self.output_value(layer, head),))
        reads = (self.norm(f"L{layer}.attn", "g_attn"),) if self.sizes.norm else IDENTITY
        return Component(f"L{layer}H{head}", "head", chain((moves,), reads), layer, head)

    def block(self, layer: int) -> Block:
        return Block(tuple(self.head(layer, head) for head in range(self.sizes.heads)))

    def unembedding(self) -> Operator:
        reads = (self.norm("final", "g_final"),) if self.sizes.final_norm else IDENTITY
        return chain((Step((), (self.unembed(),)),), reads)

    def unembed(self) -> Factor:
        return self.factor("W_U", self.sizes.d_vocab, self.sizes.d_model, lambda run: _w_u(run.model.weights))

    # Sources -------------------------------------------------------------------------------------------

    def sources(self) -> Iterator[Source]:
        yield self.embedding()
        if self.sizes.learned_positions:
            yield self.positions()
        for layer in range(self.sizes.layers):
            yield from self.layer_constants(layer)
        yield from self.final_constants()

    def embedding(self) -> Source:
        table = self.factor(
            "W_E", self.sizes.d_model, self.sizes.d_vocab, lambda run: _table(run.model.weights.W_E, "vocab")
        )
        tokens = None if self.trace is None else self.trace.tokens
        return Source("E", "embedding", OneHot("t", self.sizes.d_vocab, tokens), (Step((), (table,)),))

    def positions(self) -> Source:
        table = self.factor(
            "W_pos",
            self.sizes.d_model,
            self.sizes.n_ctx,
            lambda run: _table(run.model.weights.W_pos, "context"),
        )
        places = None if self.trace is None else np.arange(len(self.trace.tokens))
        return Source("P", "positions", OneHot("p", self.sizes.n_ctx, places), (Step((), (table,)),))

    def layer_constants(self, layer: int) -> Iterator[Source]:
        """The biases of one layer that reach the stream: of its norm, of its values, of its output."""
        yield from self.norm_bias(layer)
        for head in range(self.sizes.heads):
            yield from self.value_bias(layer, head)
        bias = self.weight("b_O", f"L{layer}.")
        if bias is not None:
            name = f"b_O_L{layer}"
            constant = Step((self.everywhere(),), (self.vector(name, self.sizes.d_model, "model", bias),))
            yield Source(name, "bias", One(), (constant,), depth=layer + 1, layer=layer)

    def norm_bias(self, layer: int) -> Iterator[Source]:
        """LayerNorm's bias is read by every head of the layer, after the scale."""
        bias = self.weight("b_attn", f"L{layer}.")
        if bias is None:
            return
        name = f"b_attn_L{layer}"
        constant = self.vector(name, self.sizes.d_model, "model", bias)
        into = {
            f"L{layer}H{head}": (
                Step(
                    (self.pattern(layer, head), self.everywhere()),
                    (self.output_value(layer, head), constant),
                ),
            )
            for head in range(self.sizes.heads)
        }
        yield Source(name, "norm bias", One(), depth=None, into=into, layer=layer)

    def value_bias(self, layer: int, head: int) -> Iterator[Source]:
        """A value bias is carried by its head's pattern; with rows that sum to 1, unchanged."""
        biases = self.weight("b_V", f"L{layer}.")
        if biases is None or self.trace is None:
            return
        bias = biases[_kv_head(self.trace.config, head)]
        name = f"b_V_L{layer}H{head}"
        constant = Step(
            (self.pattern(layer, head), self.everywhere()),
            (self.output(layer, head), self.vector(name, self.sizes.d_head, "head", bias)),
        )
        into = {f"L{layer}H{head}": (constant,)}
        yield Source(name, "value bias", One(), depth=None, into=into, layer=layer)

    def final_constants(self) -> Iterator[Source]:
        """The final norm's bias and the unembedding's: both are read by U alone."""
        bias = self.weight("b_final", "final")
        if bias is not None:
            constant = self.vector("b_final", self.sizes.d_model, "model", bias)
            operator = (Step((self.everywhere(),), (self.unembed(), constant)),)
            yield Source("b_final", "norm bias", One(), depth=None, into={"U": operator})
        bias = self.weight("b_U", "final")
        if bias is not None:
            constant = self.vector("b_U", self.sizes.d_vocab, "vocab", bias)
            yield Source(
                "b_U", "bias", One(), depth=None, into={"U": (Step((self.everywhere(),), (constant,)),)}
            )


_ONE = Space("one", 1)


def _space(name: str, like: Array) -> Space:
    return Space(name, len(like))


def _square(array: Array, space: str) -> Dense:
    return Dense(array, _space(space, array), _space(space, array))


def _column(values: Array, space: str) -> Dense:
    return Dense(values[:, None], _space(space, values), _ONE)


def _table(array: Array | None, space: str) -> Dense:
    assert array is not None, "weights were checked against their configuration"
    return Dense(array, Space("model", array.shape[0]), Space(space, array.shape[1]))


def _w_u(weights: Weights) -> Dense:
    return Dense(weights.W_U, Space("vocab", weights.W_U.shape[0]), Space("model", weights.W_U.shape[1]))


def _w_o(weights: Weights, layer: int, head: int) -> Dense:
    array = weights.W_O[layer, head]
    return Dense(array, Space("model", array.shape[0]), Space("head", array.shape[1]))


def _w_v(weights: Weights, config: Config, layer: int, head: int) -> Dense:
    array = weights.W_V[layer, _kv_head(config, head)]
    return Dense(array, Space("head", array.shape[0]), Space("model", array.shape[1]))


def _kv_head(config: Config, head: int) -> int:
    return head // (config.n_heads // (config.n_kv_heads or config.n_heads))


def _centering(d: int) -> LinearMap:
    """I - 1 1ᵀ / d, kept as identity plus rank one."""
    ones = Dense(np.ones((d, 1)), Space("model", d), _ONE)
    return add(Identity(Space("model", d)), scale(-1.0 / d, ones @ ones.T))
