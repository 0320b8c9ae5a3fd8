"""The residual graph: sources that write to the stream, blocks that read and write it, a sink that reads it.

This is the engine's input. A transformer is one builder of such graphs (`build`, `freeze`), a user's
hands are another (`edit`). Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits",
section "Transformer Overview", draws the same picture for attention-only models.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ..errors import GraphError, SizeError
from ..model import Config, Trace
from ..model.points import LOGITS, values_at
from .along_positions import looks_ahead
from .alphabet import Alphabet, alphabet
from .build import pieces
from .checks import check_labels, check_sizes, check_source, check_symbols, symbols
from .edit import (
    Weight,
    hand_component,
    inserted,
    joined,
    pattern_factor,
    removed_from,
    shared_pattern,
    steering_source,
    weight_factor,
)
from .factors import Factors
from .kernel import Kernels
from .network import multigraph
from .nodes import Block, Component, Sink, Source, has_start
from .notebook import shown
from .operators import Array, Dim, Factor, Step, has_numbers

if TYPE_CHECKING:
    import networkx as nx

MAX_LAYERS, MAX_COMPONENTS = 1_000, 100_000
"""The largest graph that is laid out from sizes alone: counts by order take time and memory quadratic in depth."""


@dataclass(frozen=True, eq=False, repr=False)
class ResidualGraph:
    """Sources, blocks in order, and a sink; sizes are numbers or names of sizes.

    Parameters
    ----------
    positions, d_model, d_out: the stream is (positions, d_model), the sink's result (positions, d_out).
    frozen: sentences that say what was held fixed to make the graph linear.
    changed: what was done by hand since the graph was frozen from a run; empty for an untouched graph.
    trace: the run it was frozen from, if it was.
    before_cap: whether the sink gives the logits before a soft-cap.
    at: the point of the run that the sink gives: "logits", "L5.out", "L3H2.Q", as in `Trace.direction`.

    Raises
    ------
    GraphError: labels that occur twice, depths out of range, or a direct edge to an unknown label.
    """

    positions: Dim
    d_model: Dim
    d_out: Dim
    sources: tuple[Source, ...]
    blocks: tuple[Block, ...]
    sink: Sink
    frozen: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    trace: Trace | None = None
    before_cap: bool = False
    at: str = LOGITS

    def _repr_html_(self) -> str:
        return shown(repr(self)[1:-1], self.alphabet.labels, self.frozen).to_html()

    def __repr__(self) -> str:
        components = sum(1 for _ in self.components())
        sizes = f"{self.positions} positions × {self.d_model}"
        return (
            f"<ResidualGraph: {_number(len(self.sources), 'source')}, {_number(components, 'component')} "
            f"in {_number(len(self.blocks), 'block')}, "
            f"{sizes}{'; ' + '; '.join(self.changed) if self.changed else ''}>"
        )

    def __post_init__(self) -> None:
        check_sizes(self.positions, self.d_model, self.d_out)
        labels = [node.label for node in self.nodes()]
        check_labels(labels)
        known = frozenset(labels)
        for source in self.sources:
            check_source(source, len(self.blocks), known)

    @classmethod
    def attention_only(cls, layers: int, heads: int) -> ResidualGraph:
        """Return the graph of an attention-only transformer from its sizes alone, with no numbers.

        Elhage et al. 2021, "Path Expansion of Logits", without positions or biases.

        >>> from pathexp import ResidualGraph, expand
        >>> expand(ResidualGraph.attention_only(layers=2, heads=2)).count()
        9
        """
        factors = Factors.symbolic(layers, heads)
        if layers > MAX_LAYERS or layers * heads > MAX_COMPONENTS:
            raise SizeError(
                f"{layers:,} layers of {heads:,} heads are too large a graph: "
                f"the limits are {MAX_LAYERS:,} layers and {MAX_COMPONENTS:,} heads in all"
            )
        return cls(**pieces(factors))

    @classmethod
    def from_config(cls, config: Config) -> ResidualGraph:
        """Return the graph of a model from its configuration, with no numbers and no biases.

        >>> import pathexp as px
        >>> graph = px.ResidualGraph.from_config(px.load("attn-2l").config)
        >>> px.expand(graph).count()
        81
        """
        return cls(**pieces(Factors.of(config)))

    # By hand -------------------------------------------------------------------------------------------

    @classmethod
    def by_hand(cls, positions: int, d_model: int, unembedding: Weight) -> ResidualGraph:
        """Return a graph with nothing on its stream yet: only a sink `U` that reads it.

        `unembedding` has shape (d_out, d_model). Add sources and components with `with_source` and
        `with_component`; each returns a new graph.

        >>> import numpy as np, pathexp as px
        >>> graph = px.ResidualGraph.by_hand(positions=2, d_model=2, unembedding=np.eye(2))
        >>> graph = graph.with_source("x", [[1.0, 0.0], [0.0, 1.0]])
        >>> graph = graph.with_component("swap", weight=[[0.0, 1.0], [1.0, 0.0]])
        >>> px.expand(graph).logits()
        array([[1., 1.],
               [1., 1.]])
        """
        d_out = np.shape(unembedding[0] if isinstance(unembedding, tuple) else unembedding)[0]
        reader = weight_factor("W_U", unembedding, d_out, d_model)
        return cls(positions, d_model, d_out, (), (), Sink("U", (Step((), (reader,)),)))

    def with_source(self, label: str, values: ArrayLike, depth: int = 0) -> ResidualGraph:
        """Return the graph with one more source, such as a steering vector.

        `values`: (d_model,) for every position alike, or (positions, d_model). It can be read by blocks from
        index `depth` on; depth = len(blocks) adds it to the final stream only.
        """
        n, d, _ = self.sizes
        source = steering_source(label, values, depth, n, d)
        check_symbols(label, symbols((), (source.start,)), self._symbols)
        return replace(
            self, sources=(*self.sources, source), changed=(*self.changed, f"source {label} was added")
        )

    def with_component(
        self,
        label: str,
        weight: Weight,
        pattern: ArrayLike | str | None = None,
        beside: str | None = None,
        at: int | None = None,
        kind: str = "component",
    ) -> ResidualGraph:
        """Return the graph with one more component: a rank-one feature, a low-rank update, any linear map.

        Parameters
        ----------
        weight: (d_model, d_model) array, a linear map, or a pair (left, right) for left @ right: two vectors
            make a rank-one component, two thin matrices a low-rank update.
        pattern: how it moves between positions: an (n, n) array, (n,) activations (one factor per position),
            the label of a head whose pattern it shares (frozen norm scale included), or None to stay in place.
        beside: the component whose block it joins, reading what that one reads.
        at: else the place of its own new block: at=0 puts it before all blocks, at=1 behind the first, and so
            on (default: after the last).
        """
        _ = self.sizes
        if beside is not None and at is not None:
            raise GraphError(f"component {label}: give `beside` or `at`, not both")
        b = self._place(beside) if beside is not None else len(self.blocks) if at is None else at
        if not 0 <= b <= len(self.blocks):
            raise GraphError(f"component {label}: at={at}, but this graph has {len(self.blocks)} blocks")
        neighbors = self.blocks[min(b, len(self.blocks) - 1)].components if self.blocks else ()
        layer = neighbors[0].layer if neighbors else 0
        word = self._position_word(label, pattern)
        component = hand_component(label, weight, word, self.d_model, layer, kind)
        own = component.operator if not isinstance(pattern, str) else hand_component(
            label, weight, (), self.d_model, layer, kind
        ).operator  # fmt: skip
        check_symbols(label, symbols((own,)), self._symbols)
        if beside is not None:
            sources, blocks = self.sources, joined(self.blocks, b, component)
        else:
            sources, blocks = inserted(self.sources, self.blocks, b, component)
        changed = (*self.changed, f"component {label} was added")
        return replace(self, sources=sources, blocks=blocks, changed=changed)

    @property
    def _symbols(self) -> frozenset[str]:
        """The names of all maps and starts in formulas."""
        operators = [
            *(source.write for source in self.sources),
            *(operator for source in self.sources for operator in source.into.values()),
            *(component.operator for component in self.components()),
            *(block.skip for block in self.blocks),
            self.sink.operator,
        ]
        return symbols(operators, (source.start for source in self.sources))

    def without(self, *labels: str) -> ResidualGraph:
        """Return the graph without some components or sources: their paths are gone, nothing else moves."""
        for label in labels:
            if label not in self.by_label or label == self.sink.label:
                raise GraphError(f"cannot remove {label!r}: this graph has no such source or component")
        sources, blocks = removed_from(self.sources, self.blocks, set(labels))
        changed = (*self.changed, *(f"{label} was removed" for label in labels))
        return replace(self, sources=sources, blocks=blocks, changed=changed)

    def _place(self, label: str) -> int:
        if label not in self.places:
            raise GraphError(f"no component {label!r} in this graph")
        return self.places[label]

    def _position_word(self, label: str, pattern: ArrayLike | str | None) -> tuple[Factor, ...]:
        if pattern is None:
            return ()
        if not isinstance(pattern, str):
            return (pattern_factor(label, pattern, self.positions),)
        self._place(pattern)
        return shared_pattern(label, self.by_label[pattern])

    # Reading -------------------------------------------------------------------------------------------

    @property
    def expected(self) -> Array | None:
        """What all paths add up to at the sink, computed without them; None for a graph without a run."""
        if self.trace is None:
            return None
        return self.trace.logits_before_cap if self.before_cap else values_at(self.trace, self.at)

    @property
    def runs(self) -> tuple[Trace, ...]:
        """The runs that the graph was made from: one, or the two of a contrast, or none."""
        return () if self.trace is None else (self.trace,)

    def nodes(self) -> Iterator[Source | Component | Sink]:
        """Iterate over sources, components in block order, and the sink."""
        yield from self.sources
        yield from self.components()
        yield self.sink

    def components(self) -> Iterator[Component]:
        """Iterate over all components in block order."""
        return (component for block in self.blocks for component in block.components)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """(positions, d_model, d_out) as numbers.

        Raises GraphError if the graph was made from sizes that are known by name only.
        """
        n, d, out = self.positions, self.d_model, self.d_out
        if isinstance(n, int) and isinstance(d, int) and isinstance(out, int):
            return n, d, out
        raise GraphError(
            f"this graph has no numbers, only names of sizes ({n} × {d} × {out}): it was made from sizes alone; "
            "start from a trace (px.expand(model.run(text))) or from ResidualGraph.by_hand"
        )

    @cached_property
    def by_label(self) -> Mapping[str, Source | Component | Sink]:
        """Every node by its label."""
        return {node.label: node for node in self.nodes()}

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The index of the block in which each component stands."""
        return {component.label: b for b, block in enumerate(self.blocks) for component in block.components}

    @cached_property
    def looks_ahead(self) -> bool:
        """Whether a position of some block may take something from a later one."""
        operators = (
            operator
            for block in self.blocks
            for operator in (block.skip, *(c.operator for c in block.components))
        )
        return any(map(looks_ahead, operators))

    @cached_property
    def alphabet(self) -> Alphabet:
        """The labels of the graph as the path language sees them."""
        return alphabet(self.sources, self.components(), self.sink)

    @cached_property
    def has_numbers(self) -> bool:
        """Whether the graph can be evaluated; False if it was made from sizes alone."""
        operators = [
            *(source.write for source in self.sources),
            *(operator for source in self.sources for operator in source.into.values()),
            *(component.operator for component in self.components()),
            *(block.skip for block in self.blocks),
            self.sink.operator,
        ]
        return all(map(has_numbers, operators)) and all(has_start(source.start) for source in self.sources)

    @cached_property
    def kernels(self) -> Kernels:
        """The numbers of every block, stacked for speed when they are used.

        Raises GraphError if the graph was made from sizes alone.
        """
        if not self.has_numbers:
            raise GraphError(
                "this graph was made from sizes alone and has no numbers; "
                "run a model and expand its trace: px.expand(px.load('attn-2l').run('...'))"
            )
        return Kernels(self.blocks, self.sizes[0])

    def to_networkx(self) -> nx.MultiDiGraph:
        """Return the graph as a networkx MultiDiGraph: an edge wherever one node's output is read by another.

        Node attributes: `label`, `kind` (str), `layer` (int; -1 for sources that belong to no layer, one past
        the last for the sink), `head` (int, heads only). Edge attribute: `kind`, "stream", or "direct" for a
        constant that is read inside one component. The skip edge is not drawn: a stream edge from a to b
        already passes by everything between them. O(nodes²) edges.

        >>> import pathexp as px
        >>> sorted(px.ResidualGraph.attention_only(layers=1, heads=2).to_networkx())
        ['E', 'L0H0', 'L0H1', 'U']
        """
        return multigraph(self.sources, self.blocks, self.sink)


def _number(count: int, noun: str) -> str:
    return f"{count} {noun if count == 1 else noun + 's'}"
