"""A layer of experts, laid out: each expert is a component, as a head is, with its router weight where a head has its pattern.

`R_L3E5` is the frozen weight of expert 5 at every position, zero where it was not chosen; `D_L3E5` its frozen gates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from ..algebra import Diagonal, LinearMap, Space
from ..labels import expert_label, mlp_label, shared_label
from ..model import Config, Trace
from .factors import Factors, there
from .law import BlockLaw
from .named import column, table
from .nodes import One, Source, Values
from .operators import Array, Factor, Gate, Operator, Step, chain


@dataclass(frozen=True)
class Part:
    """One expert of a layer: its label, and where its weights are among the arrays `W_in_experts` or `W_in_shared`."""

    label: str
    arrays: str
    place: tuple[int, ...]
    width: int


def experts_of(config: Config, layer: int) -> tuple[Part, ...]:
    """Return the experts of a layer, the one that all positions share last; none where it has an MLP.

    >>> from pathexp.model import Experts
    >>> sizes = dict(n_layers=1, n_heads=1, d_model=2, d_head=2, d_vocab=3, n_ctx=4)
    >>> config = Config(**sizes, experts=Experts(count=2, chosen=1, width=3, shared=5))
    >>> [part.label for part in experts_of(config, 0)]
    ['L0E0', 'L0E1', 'L0S']
    """
    experts = config.experts
    if experts is None or not config.is_sparse(layer):
        return ()
    chosen = tuple(
        Part(expert_label(layer, index), "experts", (layer, index), experts.width)
        for index in range(experts.count)
    )
    shared = Part(shared_label(layer), "shared", (layer,), experts.shared)
    return (*chosen, shared) if experts.shared else chosen


def mlp_labels(config: Config, layer: int) -> tuple[str, ...]:
    """Return what stands behind the attention of a layer: its MLP, its experts, or nothing.

    >>> mlp_labels(Config(n_layers=1, n_heads=1, d_model=2, d_head=2, d_vocab=3, n_ctx=4, d_mlp=5), 0)
    ('L0M',)
    """
    if config.has_dense(layer):
        return (mlp_label(layer),)
    return tuple(part.label for part in experts_of(config, layer))


def expert_weight(make: Factors, side: str, part: Part) -> Factor:
    """Return W_in, W_gate or W_out of an expert, by its side: "in", "gate" or "out"."""
    name, array = f"W_{side}_{part.label}", f"W_{side}_{part.arrays}"
    spaces = ("model", "neurons") if side == "out" else ("neurons", "model")
    rows, columns = ("d_model", part.width) if side == "out" else (part.width, "d_model")
    return make.make(
        name, rows, columns, lambda w: table(there(getattr(w, array), *part.place), *spaces, name)
    )


@dataclass(frozen=True, eq=False)
class Mixture:
    """The experts of one layer as components, or as sources."""

    make: Factors
    law: BlockLaw
    layer: int

    @property
    def parts(self) -> tuple[Part, ...]:
        """The experts."""
        return experts_of(self.make.config, self.layer)

    def inside(self, part: Part) -> Operator:
        """From what an expert reads to what it adds, before any norm of the branch; gates and router weights frozen."""
        reads = Step((), (expert_weight(self.make, "in", part),))
        return (self.out(part), self.gate("D", part), reads)

    def constants(self) -> Iterator[Source]:
        """Biases inside each expert, and what is added to its neurons before W_out."""
        for part in self.parts:
            yield from self._bias("in", part, (self.out(part), self.gate("D", part)))
            yield from self._shift(part)
            yield from self._bias("out", part, (Step((self.router(part),), ()),))

    def outputs(self, depth: int) -> Iterator[Source]:
        """The experts as sources: their frozen activations, written by W_out; and their output biases."""
        for part in self.parts:
            start = Values(f"h_{part.label}", part.width, self._hidden(part))
            yield Source(
                part.label,
                "mlp output",
                start,
                chain(self.written, (self.out(part),)),
                depth,
                layer=self.layer,
            )
            for bias in self._bias("out", part, (Step((self.router(part),), ()),)):
                write = bias.into[part.label]
                yield Source(bias.label, bias.kind, bias.start, write, depth, layer=self.layer)

    # Parts of an expert --------------------------------------------------------------------------------

    @property
    def written(self) -> Operator:
        """What the branch's result goes through on its way to the stream."""
        return self.law.written(self.layer, "mlp")

    def out(self, part: Part) -> Step:
        """The router's weight of an expert ⊗ its W_out."""
        return Step((self.router(part),), (expert_weight(self.make, "out", part),))

    def router(self, part: Part) -> Factor:
        """The frozen router weight of an expert, one number a position."""
        name = f"R_{part.label}"

        def weights(run: Trace) -> LinearMap:
            expert = run.experts[part.label]
            return Diagonal(expert.spread(expert.weights, len(run)), Space("position", len(run)), name)

        return self.make.on_run(name, "n", "n", weights)

    def gate(self, symbol: str, part: Part) -> Gate:
        """What multiplies an expert's neurons ("D"), or what is added to them ("B")."""
        values = None
        if (run := self.make.trace) is not None:
            expert = run.experts[part.label]
            values = _spread(run, part, expert.gates if symbol == "D" else expert.shift)
        return Gate(f"{symbol}_{part.label}", self.make.sizes["n"], part.width, values)

    def _hidden(self, part: Part) -> Array | None:
        run = self.make.trace
        return None if run is None else _spread(run, part, run.experts[part.label].hidden)

    def _bias(self, side: str, part: Part, after: Operator) -> Iterator[Source]:
        array, name = f"b_{side}_{part.arrays}", f"b_{side}_{part.label}"
        if not self.make.has(array):
            return
        size, space = ("d_model", "model") if side == "out" else (part.width, "neurons")
        bias = self.make.constant(name, size, space, lambda w: there(getattr(w, array), *part.place))
        yield self._inside(name, "bias", part, chain(after, (Step((self.make.ones(),), (bias,)),)))

    def _shift(self, part: Part) -> Iterator[Source]:
        experts = self.make.config.experts
        if experts is None or not experts.shift:
            return
        name = f"shift_{part.label}"
        ones = self.make.make(name, part.width, 1, lambda _: column(np.ones(part.width), "neurons", name))
        after = (self.out(part), self.gate("B", part), Step((self.make.ones(),), (ones,)))
        yield self._inside(name, "bias", part, after)

    def _inside(self, name: str, kind: str, part: Part, operator: Operator) -> Source:
        into: Mapping[str, Operator] = MappingProxyType({part.label: chain(self.written, operator)})
        return Source(name, kind, One(), depth=None, into=into, layer=self.layer)


def _spread(run: Trace, part: Part, rows: Array) -> Array:
    """Numbers of the positions that use an expert among those of all; where nobody does, zeros that take no memory."""
    if not len(rows):
        return np.broadcast_to(np.float64(0), (len(run), part.width))
    return run.experts[part.label].spread(rows, len(run))
