"""What a head's query side and key side read: the residual graph cut before the head, with the head as its sink.

Every path into a query (or a key) is a path of such a graph, from a source to the sink `Q` (or `K`), so that
counts, queries over paths and exact sums hold for attention scores as they do for logits.
Elhage et al. 2021, "Path Expansion of Attention Scores QK Circuit".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Literal

import numpy as np

from ..errors import GraphError
from ..labels import Label, find_label
from ..model import Config, Trace
from .cut import part_before
from .factors import Factors
from .freeze import freeze
from .graph import ResidualGraph
from .latents import compresses
from .nodes import Component, One, OneHot, Sink, Source
from .operators import Dim, Factor, Operator, Step, chain

Side = Literal["Q", "K"]


def reading_graph(
    trace: Trace, label: str, side: Side, graph: ResidualGraph | None = None, sink: str = ""
) -> ResidualGraph:
    """Return the graph of everything that a head's queries ("Q") or keys ("K") read.

    Its sink is `Q` or `K` and yields the head's query or key vectors, (position, d_head), before any rotation
    and after their own norm, if they have one (held fixed like every norm).
    Its sources are those that enter before the head, and what that side alone reads: its bias, and positions
    that are added to queries and keys only. `graph` is the run's own by default, `sink` another name of the sink.

    Raises GraphError if the graph has no such head.
    """
    whole = freeze(trace) if graph is None else graph
    component = head_component(whole, label)
    draft = _Reader(trace, component, side, sink or side)
    b = whole.places[label]
    known = {c.label for block in whole.blocks[:b] for c in block.components}
    sources = [kept for source in whole.sources if (kept := part_before(source, b, known))]
    sources += [*draft.constants(whole.sources), *draft.own()]
    return ResidualGraph(
        positions=whole.positions,
        d_model=whole.d_model,
        d_out=trace.config.d_head,
        sources=tuple(sources),
        blocks=whole.blocks[:b],
        sink=Sink(draft.sink, draft.operator()),
        frozen=whole.frozen,
        changed=whole.changed,
    )


def reading_graph_of_sizes(
    graph: ResidualGraph, label: str, side: Side, d_head: Dim = "d_head"
) -> ResidualGraph:
    """Return what a head's queries or keys read in a graph without numbers; its own biases are left out.

    Raises GraphError if the graph has no such head.
    """
    component, b = head_component(graph, label), graph.places[label]
    known = {c.label for block in graph.blocks[:b] for c in block.components}
    weight = Step((), (Factor(f"W_{side}_{label}", d_head, graph.d_model),))
    return ResidualGraph(
        positions=graph.positions,
        d_model=graph.d_model,
        d_out=d_head,
        sources=tuple(kept for source in graph.sources if (kept := part_before(source, b, known))),
        blocks=graph.blocks[:b],
        sink=Sink(side, chain((weight,), _after(component.operator, label))),
    )


def head_component(graph: ResidualGraph, label: str) -> Component:
    """Return the head of a graph with a label; GraphError names what there is otherwise."""
    node = graph.by_label.get(label)
    if isinstance(node, Component) and node.kind == "head" and node.head is not None:
        return node
    heads = [c.label for c in graph.components() if c.kind == "head"]
    near = get_close_matches(str(label), heads, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    some = f"{heads[0]} … {heads[-1]}" if heads else "none"
    raise GraphError(f"no head {label!r} in this graph.{hint} Heads: {some}.")


def head_place(config: Config, label: str) -> tuple[int, int]:
    """Return (layer, head) of a head's label, such as (1, 3) for "L1H3".

    Raises GraphError if the model has no such head.

    >>> head_place(Config(n_layers=2, n_heads=4, d_model=8, d_head=2, d_vocab=5, n_ctx=4), "L1H3")
    (1, 3)
    """
    match find_label(str(label)):
        case Label(name="", layer=int(layer), kind="H", index=int(head), port="") if (
            layer < config.n_layers and head < config.n_heads
        ):
            return layer, head
    last = f"L0H0 … L{config.n_layers - 1}H{config.n_heads - 1}" if config.n_layers else "none"
    raise GraphError(f"no head {label!r}: the model's heads are {last}.")


@dataclass(frozen=True)
class _Reader:
    """One side of one head, as factors."""

    trace: Trace
    component: Component
    side: Side
    sink: str

    @property
    def make(self) -> Factors:
        return Factors.of_run(self.trace)

    @property
    def label(self) -> str:
        return self.component.label

    def operator(self) -> Operator:
        """From the stream to the vectors: the weight after whatever the head reads the stream through."""
        return self.read(_after(self.component.operator, self.label))

    def read(self, operator: Operator) -> Operator:
        return chain(self.norm(), (Step((), (self.make.w_read(self.side, *self._place),)),), operator)

    def norm(self) -> Operator:
        """The frozen norm of queries or keys, where the model has one."""
        return self.make.head_norm(self.side, *self._place)

    def constants(self, sources: tuple[Source, ...]) -> Iterator[Source]:
        """Constants that enter inside the head before its weights, such as the bias of its norm."""
        for source in sources:
            operator = source.into.get(self.label)
            if operator is not None and _is_read(operator, self.label):
                read = self.read(_after(operator, self.label))
                yield Source(source.label, source.kind, source.start, depth=None, into=self._into(read))

    def own(self) -> Iterator[Source]:
        """What only this side reads."""
        weights, config = self.trace.model.weights, self.trace.config
        if config.positions == "qk":
            start = OneHot("p", config.n_ctx, np.arange(len(self.trace.tokens)))
            read = self.read((Step((), (self.make.w_pos(),)),))
            yield Source("P", "positions", start, depth=None, into=self._into(read))
        if config.latent is not None:
            for bias, made in (
                self.make.latent_biases(self.side, *self._place) if compresses(config, self.side) else ()
            ):
                yield Source(bias.name, "bias", One(), depth=None, into=self._into(chain(self.norm(), made)))
        if getattr(weights, f"b_{self.side}") is not None:
            bias = self.make.bias_read(self.side, *self._place)
            read = chain(self.norm(), (Step((self.make.ones(),), (bias,)),))
            yield Source(bias.name, "bias", One(), depth=None, into=self._into(read))
        if (behind := self.make.head_norm_bias(self.side, *self._place)) is not None:
            word = Step((self.make.ones(),), (behind,))
            yield Source(behind.name, "bias", One(), depth=None, into=self._into((word,)))

    def _into(self, operator: Operator) -> Mapping[str, Operator]:
        return MappingProxyType({self.sink: operator})

    @property
    def _place(self) -> tuple[int, int]:
        head = self.component.head
        assert head is not None, "head_component was asked"
        return self.component.layer, head


def _is_read(operator: Operator, label: str) -> bool:
    """Whether an operator passes a head's W_OV, so that the head reads what stands behind it."""
    return any(
        isinstance(part, Step) and _find(part.feature, f"W_OV_{label}") is not None for part in operator
    )


def _after(operator: Operator, label: str) -> Operator:
    """The part of a head's operator that stands before its pattern and weight: its norm, if it has one."""
    for index, part in enumerate(operator):
        if not isinstance(part, Step):
            continue
        at, place = _find(part.feature, f"W_OV_{label}"), _find(part.position, f"A_{label}")
        if at is not None and place is not None:
            scales = (
                factor for factor in part.position[place + 1 :] if not factor.name.endswith("_kv_latent")
            )
            rest = Step(tuple(scales), part.feature[at + 1 :])
            kept = (rest,) if rest.position or rest.feature else ()
            return (*kept, *operator[index + 1 :])
    raise GraphError(
        f"{label} is no head with a pattern A_{label} and a weight W_OV_{label}; it has no scores"
    )


def _find(word: tuple[Factor, ...], name: str) -> int | None:
    return next((index for index, factor in enumerate(word) if factor.name == name), None)
