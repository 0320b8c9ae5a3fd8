"""A run in which only some edges carry what it wrote: frozen, which is exact and linear, or live."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...errors import PathexpError
from ...expansion import expand
from ...expansion.targets import on_stream
from ...expansion.values import straight_values
from ...graph import Array, Component, ResidualGraph, Source, freeze, start_value
from ...model import Target, Trace
from ...model.parts import head_outputs, mlp_output, unembedded
from ..attribution.attribution import pulled_back
from ..interventions.kept_paths import INPUTS, read_by

ENTERING = ("embedding", "positions")
PORTS = "qkv"
"""The inputs of a reader; an MLP and the sink have one, which is kept where a head's values are."""
VALUES = PORTS.index("v")

AT_ONCE = 2**28
"""How many bytes what is written may take in circuits that go through the blocks together; at the least one does."""

Kept = NDArray[np.bool_]
"""Which edges are kept: (3, writers, readers), into queries, keys and values."""


@dataclass(frozen=True)
class EdgeList:
    """Who writes and who reads: what enters, and components in block order; components, and the sink.

    Biases are nobody's edges: they are added in every run and stay.
    """

    writers: tuple[str, ...]
    readers: tuple[str, ...]
    first: tuple[int, ...]
    """The depth from which on each writer is on the stream."""

    depths: tuple[int, ...]
    """The depth at which each reader reads it."""

    @staticmethod
    def of(graph: ResidualGraph) -> EdgeList:
        """Return the edges of a residual graph."""
        entering = [s for s in graph.sources if s.depth is not None and s.kind in ENTERING]
        components = [(c.label, depth) for depth, block in enumerate(graph.blocks) for c in block.components]
        readers = [*components, (graph.sink.label, len(graph.blocks))]
        first = [s.depth for s in entering if s.depth is not None] + [depth + 1 for _, depth in components]
        writers = (*(s.label for s in entering), *(label for label, _ in components))
        labels, depths = zip(*readers, strict=True)
        return EdgeList(writers, labels, tuple(first), depths)

    @cached_property
    def there(self) -> NDArray[np.bool_]:
        """Whether there is an edge, (writers, readers)."""
        return np.asarray(np.less_equal.outer(np.array(self.first, dtype=np.int64), np.array(self.depths)))

    def all(self) -> Kept:
        """Return every edge as kept."""
        return np.repeat(self.there[None], len(PORTS), axis=0)

    def place(self, writer: str, reader: str) -> tuple[int, int]:
        """Return the row and the column of an edge. Raises PathexpError if there is none."""
        if writer in self.writers and reader in self.readers:
            row, column = self.writers.index(writer), self.readers.index(reader)
            if self.there[row, column]:
                return row, column
        raise PathexpError(
            f"no edge from {writer!r:.40} to {reader!r:.40}; edges go from what enters or a component onward"
        )


@dataclass(frozen=True, eq=False)
class EdgeRun:
    """A run and what stands in place of what is cut: `other` by writer, (n, d) each; nothing where it is empty.

    `live`: whether norms, patterns and gates are computed anew for what each component reads. `inputs`: what of the
    components reads along kept edges, the rest reads the run as it was.
    """

    trace: Trace
    other: Mapping[str, Array] = field(default_factory=dict)
    live: bool = False
    inputs: str = INPUTS

    def __post_init__(self) -> None:
        config = self.trace.config
        after = [name for name in config.block_norms if name.endswith("_post")]
        if self.live and after:
            raise PathexpError(
                f"live circuits of edges need models without norms behind branches; this one has {', '.join(after)}: "
                "take how='frozen', or a circuit as a query"
            )

    @cached_property
    def graph(self) -> ResidualGraph:
        """The residual graph of the run."""
        return freeze(self.trace)

    @cached_property
    def edges(self) -> EdgeList:
        """Who writes and who reads."""
        return EdgeList.of(self.graph)

    def value(self, kept: Kept, target: Target) -> float:
        """Return the target where only kept edges carry the run, (3, writers, readers).

        Cost: frozen, the linear part of a forward pass; live, a forward pass a head.
        """
        return self.values([kept], target)[0]

    def values(self, kept: Sequence[Kept], target: Target) -> list[float]:
        """Return the target for each of several sets of kept edges; frozen, they go through the blocks together."""
        n, d, _ = self.graph.sizes
        at_once = max(1, AT_ONCE // (8 * n * d * len(self.edges.writers)))
        parts = (kept[begin : begin + at_once] for begin in range(0, len(kept), at_once))
        return [self._at_target(stream, target) for part in parts for stream in self._finals(part)]

    def _at_target(self, stream: Array, target: Target) -> float:
        if self.live:
            logits = unembedded(self.trace.model, stream)[target.position]
            return float(logits @ target.direction)
        straight = sum(value for value, _ in straight_values(expand(self.trace).walk, target))
        return float(np.vdot(on_stream(target, self.graph), stream)) + straight

    def _finals(self, kept: Sequence[Kept]) -> Array:
        """What the sink reads with each set of kept edges, (K, n, d)."""
        written = np.zeros((len(kept), len(self.edges.writers), *self.graph.sizes[:2]))
        instead, constants = np.zeros_like(written[0]), np.zeros(self.graph.sizes[:2])
        made = sum(source.label in self.edges.writers for source in self.graph.sources)
        for depth, block in enumerate(self.graph.kernels):
            self._enter(depth, written, instead, constants)
            outputs = self._outputs(
                depth, [each[:, :made] for each in kept], written[:, :made], instead[:made], constants
            )
            if block.skip:
                written, instead = block.through_skip(written), block.through_skip(instead)
                constants = block.through_skip(constants[None])[0]
            for component, output in zip(self.graph.blocks[depth].components, outputs, strict=True):
                written[:, made], instead[made] = output, self._instead(component.label)
                made += 1
        self._enter(len(self.graph.blocks), written, instead, constants)
        last = [each[VALUES, :, -1:] for each in kept]
        return np.asarray(self._read(last, written, instead)[:, 0] + constants)

    def _enter(self, depth: int, written: Array, instead: Array, constants: Array) -> None:
        for source in self.graph.sources:
            if source.depth == depth and source.label in self.edges.writers:
                row = self.edges.writers.index(source.label)
                written[:, row], instead[row] = source.value(), self._instead(source.label)
            elif source.depth == depth:
                constants += source.value()

    def _instead(self, writer: str) -> Array | float:
        if not self.other:
            return 0.0
        return self.other[writer]

    def _read(self, kept: Sequence[NDArray[np.bool_]], written: Array, instead: Array) -> Array:
        """What readers get over kept edges, and in place of the others, (K, readers, n, d); kept are (writers, readers)."""
        found = np.stack([summed(each, some) for each, some in zip(kept, written, strict=True)])
        if self.other:
            found += np.stack([summed(~each, instead) for each in kept])
        return found

    def _outputs(
        self, depth: int, kept: Sequence[Kept], written: Array, instead: Array, constants: Array
    ) -> Iterator[Array]:
        """What each component of a block writes, (K, n, d) each."""
        components = self.graph.blocks[depth].components
        columns = [self.edges.readers.index(component.label) for component in components]
        ports = range(len(PORTS)) if self.live else [VALUES]  # frozen, queries and keys make no difference
        made: dict[bytes, Array] = {}
        reads = []
        for port in ports:
            masks = [each[port][:, columns] for each in kept]
            key = b"".join(mask.tobytes() for mask in masks)
            if key not in made:
                made[key] = self._read(masks, written, instead) + constants
            reads.append(made[key])
        for c in range(len(components)):
            yield self._output(depth, c, [read[:, c] for read in reads])

    def _output(self, depth: int, c: int, reads: Sequence[Array]) -> Array:
        """What a component adds to the stream for what its queries, keys and values read, (K, n, d) each; frozen, for the last."""
        component = self.graph.blocks[depth].components[c]
        if self.live:
            return np.stack([self._live(component, list(each)) for each in zip(*reads, strict=True)])
        side = "v" if component.head is not None else "m"
        read = reads[-1] if side in self.inputs else read_by(self.trace, component)[None]
        made = self.graph.kernels[depth].each(read, np.array([c]))[0]
        return np.asarray(made + self._inside(component.label))

    def _live(self, component: Component, reads: Sequence[Array]) -> Array:
        """What a component adds live, (n, d), for what its queries, keys and values read."""
        model, clean = self.trace.model, read_by(self.trace, component)
        sides = PORTS if component.head is not None else "m"
        along = [
            read if side in self.inputs else clean
            for side, read in zip(sides, reads[-len(sides) :], strict=True)
        ]
        if component.head is None:
            made = mlp_output(model, component.label, along[0])
        else:
            query, key, value = along
            made = head_outputs(model, component.layer, (query, key, value))[component.head]
        return np.asarray(self.trace.config.residual_multiplier * made)

    def _inside(self, label: str) -> Array | float:
        """What constants that a component reads directly bring to its output."""
        sources = (s for s in self.graph.sources if isinstance(s, Source) and label in s.into)
        return sum((start_value(source.start, source.into[label]) for source in sources), 0.0)

    # Flows ---------------------------------------------------------------------------------------------

    def flows(self, target: Target) -> Array:
        """Return what cutting each edge alone takes from the target, frozen, (writers, readers).

        With nothing in place of what is cut these are the exact flows of `px.flow`.
        """
        fields = [*pulled_back(self.trace, target)]
        difference = np.zeros((len(self.edges.writers), *self.graph.sizes[:2]))
        found, made = np.zeros((len(self.edges.writers), len(self.edges.readers))), 0
        own = written(self.trace)
        made = sum(source.label in self.edges.writers for source in self.graph.sources)
        column = 0
        for depth, block in enumerate(self.graph.kernels):
            self._differ(depth, difference, own)
            components = self.graph.blocks[depth].components
            every = np.arange(len(components))
            asked = block.transposed.each(fields[depth + 1][None], every)[:, 0]
            found[:made, column : column + len(components)] = np.tensordot(
                difference[:made], asked, axes=([1, 2], [1, 2])
            )
            column += len(components)
            if block.skip:
                difference = block.through_skip(difference)
            for component in components:
                difference[made] = own[component.label] - self._instead(component.label)
                made += 1
        self._differ(len(self.graph.blocks), difference, own)
        found[:, -1] = np.tensordot(difference, fields[-1], axes=([1, 2], [0, 1]))
        return np.where(self.edges.there, found, 0.0)

    def _differ(self, depth: int, difference: Array, own: Mapping[str, Array]) -> None:
        for source in self.graph.sources:
            if source.depth == depth and source.label in self.edges.writers:
                row = self.edges.writers.index(source.label)
                difference[row] = own[source.label] - self._instead(source.label)


def summed(kept: NDArray[np.bool_], written: Array) -> Array:
    """Return what each reader gets over kept edges (writers, readers) of what is written, (writers, n, d): (readers, n, d).

    Readers that keep the same edges share one sum, and only writers that somebody keeps are read.
    """
    readers = [mask.tobytes() for mask in kept.T]
    places = {mask: place for place, mask in enumerate(dict.fromkeys(readers))}
    masks = np.array([np.frombuffer(mask, dtype=bool) for mask in places]).reshape(len(places), len(written))
    some = np.flatnonzero(masks.any(axis=0))
    read = written if len(some) == len(written) else written[some]
    sums = np.tensordot(masks[:, some].astype(np.float64), read, axes=1)
    return np.asarray(sums[[places[mask] for mask in readers]])


def written(trace: Trace) -> dict[str, Array]:
    """Return what enters a run and what its components add to the stream, (n, d) each, by label."""
    run = EdgeRun(trace)
    found = {s.label: s.value() for s in run.graph.sources if s.label in run.edges.writers}
    for depth, block in enumerate(run.graph.blocks):
        if block.components:
            read = read_by(trace, block.components[0])[None]  # components of a block read one stream
            outputs = run.graph.kernels[depth].each(read, np.arange(len(block.components)))[:, 0]
            for component, output in zip(block.components, outputs, strict=True):
                found[component.label] = output + run._inside(component.label)
    return found
