"""Only chosen paths: every component is copied, and each copy reads what comes along paths that may go on.

A component stands on many paths. Its copies are told apart by the endings that are still accepted behind them; a copy
reads the sum of what may come before such an ending. What a copy makes of that is another question: `live_paths` computes
everything again, `frozen_paths` keeps fixed what is not linear.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Protocol

import numpy as np

from ...errors import PathexpError
from ...graph import Array, Component, ResidualGraph, Source, Walk, freeze
from ...graph.automaton import Automaton
from ...model import Trace

Ending = frozenset[int]
"""The forward states of the automaton from which an ending is accepted; empty where none is."""

INPUTS = "qkvm"


@dataclass(frozen=True)
class Reading:
    """What of components reads along the paths: "q", "k", "v" of heads, "m" of MLPs; the rest reads the run as it was.

    `ports`: for components by label, sides of their own.

    >>> Reading("qk", {"L1H0": "v"}).of("L1H0"), Reading("qk").of("L1H0")
    ('v', 'qk')
    """

    sides: str = INPUTS
    ports: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        for sides in (self.sides, *self.ports.values()):
            if not isinstance(sides, str) or not sides or set(sides) - set(INPUTS):
                raise PathexpError(
                    f"inputs are letters of {INPUTS!r} (queries, keys, values, MLPs), got {sides!r}"
                )

    def of(self, label: str) -> str:
        """The sides of one component that read along the paths."""
        return self.ports.get(label, self.sides)


class Replacement(Protocol):
    """What stands in place of what is cut: see `means`."""

    @property
    def runs(self) -> tuple[Trace, ...]:
        """The runs that it is the mean of, which must be as long as this one; none where it is aligned otherwise."""

    def embedding(self, label: str) -> Array:
        """Return what a source of the embedding brings, (n, d)."""

    def output(self, component: Component, sides: str, clean: Array) -> Array:
        """Return what a component gives, (n, d)."""


@dataclass(frozen=True, eq=False)
class KeptPaths(ABC):
    """The paths of a run that a walk keeps; the others carry nothing, or the tokens of another run.

    Raises PathexpError for another run that is of another model or length, and for runs made by `rerun`.
    """

    trace: Trace
    walk: Walk
    other: Trace | None = None
    reading: Reading = field(default_factory=Reading)
    means: Replacement | None = None
    """The mean that stands in place of what is cut."""

    def __post_init__(self) -> None:
        runs = (*(() if self.other is None else (self.other,)), *(self.means.runs if self.means else ()))
        _refuse_edited(self.trace, *runs)
        for run in runs:
            if not _alike(self.trace, run):
                raise PathexpError(
                    f"expected another run of the same model and length, {len(self.trace)} tokens; got {_named(run)}"
                )

    @property
    def replaces(self) -> bool:
        """Whether something stands in place of what is cut: another run, or a mean of runs."""
        return self.other is not None or self.means is not None

    @cached_property
    def graph(self) -> ResidualGraph:
        """The residual graph of the run."""
        graph: ResidualGraph = freeze(self.trace)
        return graph

    @abstractmethod
    def logits(self, positions: Sequence[int] | None = None) -> Array:
        """What the kept paths bring to the logits, (n, V), or of some positions, (len(positions), V)."""

    @abstractmethod
    def arrived(self, depth: int, stream: Array, sources: list[tuple[Source, bool]]) -> Array:
        """The stream with what sources add at a depth, each kept or carrying the other run."""

    @abstractmethod
    def crossed(self, depth: int, ending: Ending, stream: Array, outputs: Mapping[str, Array]) -> Array:
        """The stream behind a block, of the stream before it and what its components give."""

    @abstractmethod
    def output(self, component: Component, read: Ending, stream: Array, dropped: frozenset[str]) -> Array:
        """What one copy of a component gives for a stream, (n, d), without some constants inside it."""

    @cached_property
    def final(self) -> Array:
        """The final stream, (n, d)."""
        return self.before(len(self.graph.blocks))[self.at_sink]

    def before(self, depth: int) -> dict[Ending, Array]:
        """Return the streams in front of a block, or of the sink, (n, d) each, by the endings that follow."""
        streams = {ending: np.zeros(self.graph.sizes[:2]) for ending in self._endings}
        fed = dict.fromkeys(self._endings, False)
        for at in range(depth + 1):
            for ending in self._endings:
                self._arrive(at, ending, streams, fed)
            if at < depth:
                streams, fed = self._cross(at, streams, fed)
        return streams

    def enters(self, source: Source) -> bool:
        """Whether a source is added between blocks, and not within one."""
        return source.depth is not None

    def _arrive(
        self, depth: int, ending: Ending, streams: dict[Ending, Array], fed: dict[Ending, bool]
    ) -> None:
        """Sources enter the streams whose endings they may begin; elsewhere their counterparts do."""
        chosen = [
            (source, self.begins(source, ending))
            for source in self.graph.sources
            if source.depth == depth and self.enters(source)
        ]
        chosen = [(source, kept) for source, kept in chosen if kept or self.replaces]
        if chosen:
            streams[ending] = self.arrived(depth, streams[ending], chosen)
            fed[ending] |= any(kept for _, kept in chosen)

    def _cross(
        self, depth: int, streams: dict[Ending, Array], fed: dict[Ending, bool]
    ) -> tuple[dict[Ending, Array], dict[Ending, bool]]:
        """One block: what each of its components adds to every stream, by the copy that may add to it."""
        after, reached = {}, dict(fed)
        for ending, stream in streams.items():
            outputs = {}
            for component in self.graph.blocks[depth].components:
                read = self._before(ending, component.label)
                dropped = self.dropped(component.label, ending)
                alive = fed[read] or self._missing(component.label, ending) != self._constants(
                    component.label
                )
                if alive or self.other is not None:
                    outputs[component.label] = self.output(component, read, streams[read], dropped)
                elif self.means is not None:
                    outputs[component.label] = self.mean_output(component)
                reached[ending] |= alive
            after[ending] = self.crossed(depth, ending, stream, outputs)
        return after, reached

    # Endings -------------------------------------------------------------------------------------------

    @property
    def _automaton(self) -> Automaton:
        return self.walk.automaton

    @cached_property
    def at_sink(self) -> Ending:
        """The states in which the sink may be read."""
        states = range(len(self._automaton.table))
        return frozenset(state for state in states if self.walk.finishes(state))

    @cached_property
    def _endings(self) -> tuple[Ending, ...]:
        """All sets of endings that copies of components differ by, found backward from the sink."""
        found = [self.at_sink]
        for ending in found:
            for component in self.graph.components():
                before = self._before(ending, component.label)
                if before not in found:
                    found.append(before)
        return tuple(found)

    @cached_property
    def _before_kept(self) -> dict[tuple[Ending, str], Ending]:
        return {}

    def _before(self, ending: Ending, label: str) -> Ending:
        """The endings before which a component stands: its label, then one of these."""
        key = (ending, label)
        if key not in self._before_kept:
            after = enumerate(self.walk.next_states(label))
            self._before_kept[key] = frozenset(state for state, reached in after if reached in ending)
        return self._before_kept[key]

    def begins(self, source: Source, ending: Ending) -> bool:
        """Whether a kept path begins at a source and goes on with one of these endings."""
        return self.walk.next_state(self._automaton.start, source.label) in ending

    def dropped(self, label: str, ending: Ending) -> frozenset[str]:
        """The constants inside a component (or the sink) that no kept path with one of these endings begins at."""
        return frozenset() if self.replaces else self._missing(label, ending)

    def _missing(self, label: str, ending: Ending) -> frozenset[str]:
        before = ending if label == self.graph.sink.label else self._before(ending, label)
        sources = (self.graph.by_label[name] for name in self._constants(label))
        return frozenset(s.label for s in sources if isinstance(s, Source) and not self.begins(s, before))

    def _constants(self, label: str) -> frozenset[str]:
        return self._inside.get(label, frozenset())

    @cached_property
    def _inside(self) -> Mapping[str, frozenset[str]]:
        """The constants inside each component."""
        readers = {reader for source in self.graph.sources for reader in source.into}
        return {r: frozenset(s.label for s in self.graph.sources if r in s.into) for r in readers}

    def clean(self, component: Component) -> Array:
        """The stream that a component read in the run."""
        return read_by(self.trace, component)

    def mean_output(self, component: Component) -> Array:
        """The mean of what a component gives, (n, d); inputs that read no paths are those of the run itself."""
        assert self.means is not None, "asked for only where a mean stands in place of what is cut"
        return self.means.output(component, self.reading.of(component.label), self.clean(component))


def read_by(run: Trace, component: Component) -> Array:
    """Return the stream that a component read in a run."""
    layer = component.layer
    if component.head is None and not run.config.parallel:
        return run.residuals[f"L{layer}.mid"]
    return run.residuals["embed" if layer == 0 else f"L{layer - 1}.out"]


def _refuse_edited(*runs: object) -> None:
    """Paths are computed from tokens and weights, which know nothing of the edits of `rerun`."""
    for run in runs:
        if isinstance(run, Trace) and run.edited:
            raise PathexpError(
                f"interventions on paths start from the tokens and weights of a run; {run!r} was made by rerun() with "
                f"other numbers at {', '.join(run.edited)}, of which they know nothing. Intervene on the run before, "
                "model.run(text), or put both edits into one rerun()"
            )


def _alike(a: Trace, b: object) -> bool:
    return isinstance(b, Trace) and a.model is b.model and len(a) == len(b)


def _named(other: object) -> str:
    return f"{len(other)} tokens of {other.model!r}" if isinstance(other, Trace) else repr(other)
