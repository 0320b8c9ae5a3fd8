"""A transformer, with or without a run's numbers, laid out as the pieces of a residual graph.

Blocks follow the forward pass: heads, then the MLP, or both at once where they are parallel. A norm on what a
branch writes is part of its components; a norm on the stream itself (post-norm) is on the skip edge as well.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal, TypedDict

from ..labels import head_label, mlp_label, neuron_label, read_label
from ..model.points import values_at
from .cut import Laid, Output, Point, begun, ended
from .ends import CapMode, Ends
from .experts import Mixture
from .factors import Factors, there
from .nodes import Block, Component, One, Sink, Source, Values
from .operators import Dim, Operator, Step, chain

MlpMode = Literal["gate", "source"]


@dataclass(frozen=True)
class Freezing:
    """How what is not linear is held fixed.

    mlp: "gate" freezes each neuron's act(z)/z (gated MLPs: the gate branch whole), so that paths pass through
    MLPs; "source" freezes MLP outputs, so that paths start there. neurons: by layer, neurons that become
    components of their own (`L0N17`), the rest of the MLP staying one. cap: a soft-cap on the logits as frozen
    "ratio" (terms add up to the capped logits), or left out, "before" (they add up to the logits before it).
    at, start: points of the stream at which paths end and begin, instead of the logits and the embedding.
    """

    mlp: MlpMode = "gate"
    neurons: Mapping[int, Sequence[int]] = field(default_factory=lambda: MappingProxyType({}))
    cap: CapMode = "ratio"
    at: str = ""
    start: str = ""

    @property
    def key(self) -> Hashable:
        """The same for the same options."""
        return (
            self.mlp,
            tuple(sorted((layer, tuple(which)) for layer, which in self.neurons.items())),
            self.cap,
            self.at,
            self.start,
        )


BRANCH_BIASES = {"attn": ("b_O", "b_attn_post"), "mlp": ("b_out", "b_mlp_post")}
"""The biases that a branch writes beside its components, by branch."""


KINDS = {"M": "mlp", "N": "neuron", "E": "expert", "S": "expert"}
"""What components behind the attention are, by the letter in their label."""


class Pieces(TypedDict):
    """The arguments of a ResidualGraph."""

    positions: Dim
    d_model: Dim
    d_out: Dim
    sources: tuple[Source, ...]
    blocks: tuple[Block, ...]
    sink: Sink


def pieces(factors: Factors, freezing: Freezing | None = None) -> Pieces:
    """Lay out sources, blocks and sink."""
    layout = _Layout(factors, freezing or Freezing())
    layout.lay()
    laid = layout.cut()
    return Pieces(
        positions=factors.sizes["n"],
        d_model=factors.sizes["d_model"],
        d_out=factors.sizes["d_model" if layout.freezing.at else "d_out"],
        sources=laid.sources,
        blocks=laid.blocks,
        sink=laid.sink,
    )


class _Layout:
    """Collects sources and blocks in the order of the forward pass."""

    def __init__(self, factors: Factors, freezing: Freezing) -> None:
        self.make, self.law = factors, factors.law
        self.config = factors.config
        self.freezing = freezing
        self.ends = Ends(factors, freezing.cap)
        self.sources: list[Source] = []
        self.blocks: list[Block] = []
        self.points: dict[str, Point] = {}
        self.outputs: dict[str, Output] = {}

    def reach(self, point: str) -> None:
        """Note that the stream is at a point now."""
        self.points[point] = Point(len(self.blocks), len(self.sources))

    def cut(self) -> Laid:
        """What was laid, from where paths begin to where they end."""
        at, start = self.freezing.at, self.freezing.start
        laid = Laid(tuple(self.sources), tuple(self.blocks), Sink("U", self.ends.unembedding()))
        if at == "final_out":
            laid = replace(laid, sources=(*self.sources[: self.points["final_in"].sources], *self.ends.constants(at)),
                           sink=Sink(at, self.ends.normed()))  # fmt: skip
        elif at:
            laid = ended(laid, self.points, self.outputs, at)
        if not start:
            return laid
        run = self.make.trace
        stream = None if run is None else values_at(run, start)
        return begun(laid, self.points, start, stream, self.make.sizes["d_model"])

    def lay(self) -> None:
        self.sources.extend(self.ends.embeddings())
        self.reach("embed")
        for layer in range(self.config.n_layers):
            heads, mlp = tuple(self.heads(layer)), tuple(self.mlp(layer))
            if self.config.parallel:
                self.add_block([*heads, *mlp], ())
                self.attention_constants(layer)
                self.note_attention(layer, heads)
                self.mlp_constants(layer)
                self.note_mlp(layer, mlp)
            else:
                self.add_block(heads, self.law.skip(layer, "attn"))
                self.attention_constants(layer)
                self.note_attention(layer, heads)
                if self.config.has_mlps:
                    self.reach(f"L{layer}.mid")
                    self.add_block(mlp, self.law.skip(layer, "mlp"))
                    self.mlp_constants(layer)
                    self.note_mlp(layer, mlp)
            self.reach(f"L{layer}.out")
        self.reach("final_in")
        self.sources.extend(self.ends.constants())

    @property
    def depth(self) -> int:
        """The index of the next block: what is written now can be read from there on."""
        return len(self.blocks)

    def note_attention(self, layer: int, heads: tuple[Component, ...]) -> None:
        """Note what the heads that were just added write, together and one by one."""
        self.note(f"L{layer}.attn_out", heads, "attn", layer)
        for head in heads:
            self.note(head.label, (head,))

    def note_mlp(self, layer: int, mlp: tuple[Component, ...]) -> None:
        """Note what the MLP that was just added writes, by both of its names."""
        for name in (f"L{layer}.mlp_out", mlp_label(layer)):
            self.note(name, mlp, "mlp", layer)
        for part in self.mixture(layer).parts:
            self.note(part.label, tuple(component for component in mlp if component.label == part.label))

    def note(self, name: str, components: tuple[Component, ...], branch: str = "", layer: int = -1) -> None:
        """Note an output to end at: components of the last block, and the constants of a branch that are written."""
        if components and not self.law.post:
            written = {f"{bias}_L{layer}" for bias in BRANCH_BIASES.get(branch, ())}
            self.outputs[name] = Output(len(self.blocks) - 1, components, frozenset(written))

    def add_block(self, components: Sequence[Component], skip: Operator) -> None:
        if components or skip:
            self.blocks.append(Block(tuple(components), skip))

    # Branches ------------------------------------------------------------------------------------------

    def post_bias(self, layer: int, branch: str) -> Iterator[Source]:
        """The bias of a norm that a branch (or the stream after it) goes through."""
        name = f"b_{branch}_post"
        if f"{branch}_post" in self.config.block_norms and self.make.has(name):
            yield self.written(name, "norm bias", layer, () if self.law.post else self.law.multiplied)

    def written(self, name: str, kind: str, layer: int, writes: Operator) -> Source:
        """A bias that is written to the stream after the block just added."""
        bias = self.make.constant(f"{name}_L{layer}", "d_model", "model", lambda w: getattr(w, name)[layer])
        operator = chain(writes, (Step((self.make.ones(),), (bias,)),))
        return Source(f"{name}_L{layer}", kind, One(), operator, depth=self.depth, layer=layer)

    # Attention -----------------------------------------------------------------------------------------

    def heads(self, layer: int) -> Iterator[Component]:
        for head in range(self.config.n_heads):
            moves = Step(self.make.moved(layer, head), (self.make.w_ov(layer, head),))
            operator = chain(self.law.written(layer, "attn"), (moves,), self.law.read(layer, "attn"))
            yield Component(head_label(layer, head), "head", operator, layer, head)

    def attention_constants(self, layer: int) -> None:
        self.sources.extend(self.read_bias(layer, "attn"))
        if self.make.has("b_V"):
            self.sources.extend(self.value_bias(layer, head) for head in range(self.config.n_heads))
        self.sources.extend(self.latent_bias(layer))
        if self.make.has("b_O"):
            self.sources.append(self.written("b_O", "bias", layer, self.law.written(layer, "attn")))
        self.sources.extend(self.post_bias(layer, "attn"))

    def value_bias(self, layer: int, head: int) -> Source:
        """A value bias is carried by its head's pattern; with rows that sum to 1, unchanged."""
        bias = self.make.bias_read("V", layer, head)
        moves = Step((self.make.pattern(layer, head), self.make.ones()), (self.make.w_o(layer, head), bias))
        into = {head_label(layer, head): chain(self.law.written(layer, "attn"), (moves,))}
        return Source(bias.name, "value bias", One(), depth=None, into=into, layer=layer)

    def latent_bias(self, layer: int) -> Iterator[Source]:
        """The bias of what compresses keys and values enters every head of the layer, before the scale of the norm."""
        if self.config.latent is None or not self.make.has("b_DKV"):
            return
        into = {}
        for head in range(self.config.n_heads):
            ((bias, made),) = self.make.latent_biases("V", layer, head)
            moves = Step(self.make.moved(layer, head), (self.make.w_o(layer, head),))
            into[head_label(layer, head)] = chain(self.law.written(layer, "attn"), (moves,), made)
        yield Source(bias.name, "value bias", One(), depth=None, into=into, layer=layer)

    def read_bias(self, layer: int, branch: str) -> Iterator[Source]:
        """A LayerNorm's bias is read by every component behind that norm, after the scale."""
        norm = self.law.read_norm(layer, branch)
        if norm != branch or not self.make.has(f"b_{norm}"):
            return
        name = f"b_{norm}_L{layer}"
        bias = self.make.constant(name, "d_model", "model", lambda w: there(getattr(w, f"b_{norm}"), layer))
        constant: Operator = (Step((self.make.ones(),), (bias,)),)
        into = dict(self.behind(layer, branch, constant))
        if self.config.parallel == "shared":
            into |= self.behind(layer, "mlp", constant)
        if into:
            yield Source(name, "norm bias", One(), depth=None, into=into, layer=layer)

    def behind(self, layer: int, branch: str, constant: Operator) -> Iterator[tuple[str, Operator]]:
        """What each component of a branch makes of a constant that stands behind its norm."""
        if branch == "attn":
            for head in range(self.config.n_heads):
                moves = Step(self.make.moved(layer, head), (self.make.w_ov(layer, head),))
                yield head_label(layer, head), chain(self.law.written(layer, branch), (moves,), constant)
        else:
            for component, inside in (*self.experts(layer), *self.neurons_and_rest(layer)):
                yield component, chain(self.law.written(layer, "mlp"), inside, constant)

    # MLPs ----------------------------------------------------------------------------------------------

    def mixture(self, layer: int) -> Mixture:
        return Mixture(self.make, self.law, layer)

    def experts(self, layer: int) -> Iterator[tuple[str, Operator]]:
        """The experts of a layer, from what they read to what they add."""
        if self.freezing.mlp == "gate":
            mixture = self.mixture(layer)
            yield from ((part.label, mixture.inside(part)) for part in mixture.parts)

    def mlp(self, layer: int) -> Iterator[Component]:
        for label, inside in (*self.experts(layer), *self.neurons_and_rest(layer)):
            kind = KINDS[read_label(label).kind]
            operator = chain(self.law.written(layer, "mlp"), inside, self.law.read(layer, "mlp"))
            yield Component(label, kind, operator, layer)

    def chosen(self, layer: int) -> tuple[int, ...]:
        return tuple(self.freezing.neurons.get(layer, ()))

    def neurons_and_rest(self, layer: int) -> Iterator[tuple[str, Operator]]:
        """Chosen neurons one by one and the rest of the MLP as one, from what the MLP reads to its result."""
        if self.freezing.mlp == "source" or not self.config.has_dense(layer):
            return
        make = self.make
        for neuron in self.chosen(layer):
            word = (make.neuron_out(layer, neuron), make.neuron_in(layer, neuron))
            yield neuron_label(layer, neuron), (Step((make.neuron_gate(layer, neuron),), word),)
        gate = make.gate(layer, self.chosen(layer))
        yield mlp_label(layer), (Step((), (make.w_out(layer),)), gate, Step((), (make.w_in(layer),)))

    def mlp_constants(self, layer: int) -> None:
        experts = self.mixture(layer)
        if self.freezing.mlp == "source":
            self.sources.extend(experts.outputs(self.depth))
            self.sources.extend(self.mlp_output(layer))
        else:
            self.sources.extend(self.read_bias(layer, "mlp"))
            self.sources.extend(experts.constants())
            self.sources.extend(self.neuron_bias(layer))
        if self.make.has("b_out") and self.config.has_dense(layer):
            self.sources.append(self.written("b_out", "bias", layer, self.law.written(layer, "mlp")))
        self.sources.extend(self.post_bias(layer, "mlp"))

    def neuron_bias(self, layer: int) -> Iterator[Source]:
        """The bias of the neurons passes their gates."""
        if not self.make.has("b_in") or not self.config.has_dense(layer):
            return
        into: dict[str, Operator] = {}
        for label, inside in self.neurons_and_rest(layer):
            into[label] = chain(self.law.written(layer, "mlp"), *self.past_w_in(layer, label, inside))
        yield Source(f"b_in_L{layer}", "bias", One(), depth=None, into=into, layer=layer)

    def past_w_in(self, layer: int, label: str, inside: Operator) -> tuple[Operator, Operator]:
        """An MLP's operator cut behind W_in, and the bias that enters there."""
        make = self.make
        if label.endswith("M"):
            bias = make.constant(f"b_in_L{layer}", "d_mlp", "neurons", lambda w: there(w.b_in, layer))
            return inside[:-1], (Step((make.ones(),), (bias,)),)
        neuron = read_label(label).index
        assert neuron is not None, "what is no MLP here is a neuron"
        one = make.constant(
            f"b_in_{label}", 1, "neuron", lambda w: there(w.b_in, layer, slice(neuron, neuron + 1))
        )
        (step,) = inside
        assert isinstance(step, Step)
        return (Step(step.position, step.feature[:1]),), (Step((make.ones(),), (one,)),)

    def mlp_output(self, layer: int) -> Iterator[Source]:
        """An MLP whose output is a source: its frozen activations, written by W_out."""
        if not self.config.has_dense(layer):
            return
        make, run = self.make, self.make.trace
        hidden = None if run is None else run.mlp_hidden[layer]
        operator = chain(self.law.written(layer, "mlp"), (Step((), (make.w_out(layer),)),))
        start = Values(f"h_L{layer}M", make.sizes["d_mlp"], hidden)
        yield Source(mlp_label(layer), "mlp output", start, operator, depth=self.depth, layer=layer)
