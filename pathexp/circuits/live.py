"""Only chosen paths, live: every component is computed anew for what reaches it along paths that may go on.

A component stands on many paths. Each copy of it is told apart by the endings that are still accepted behind it, and
reads the sum of what may come before such an ending; a norm, a pattern or a neuron is then computed for just that.
Path patching (Wang et al. 2022, "Interpretability in the Wild", section 3.1; Goldowsky-Dill et al. 2023, "Localizing
Model Behavior with Path Patching") is the case where the other paths carry another text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..errors import PathexpError
from ..graph import Array, Component, ResidualGraph, Source, Walk
from ..graph.automaton import Automaton
from ..model import Trace
from ..model.forward import head_outputs, mlp_output, separable, unembedded

Ending = frozenset[int]
"""The forward states of the automaton from which an ending is accepted; empty where none is."""

SIDES = "qkvm"


@dataclass(frozen=True, eq=False)
class LivePaths:
    """The paths of a run that a walk keeps, live; the others carry nothing, or the tokens of another run.

    `sides`: what of a component reads along the paths: "q", "k", "v" of heads, "m" of MLPs; the rest of them reads
    the stream of the run as it was. Constants inside a component stay with it while anything reaches it.

    Raises PathexpError where norms stand behind several components at once (post-norm, norms of branches), before a
    transform, for a graph changed by hand, unknown sides, or another run of another model or length.
    """

    trace: Trace
    walk: Walk
    other: Trace | None = None
    sides: str = SIDES

    def __post_init__(self) -> None:
        for problem in self._problems():
            raise PathexpError(problem)

    def _problems(self) -> Iterator[str]:
        config = self.trace.config
        if not separable(config) or config.transform:
            yield (
                "live paths need components with outputs of their own; in this model norms stand behind sums of them "
                f"(norm_placement={config.norm_placement!r}, transform={config.transform!r})"
            )
        if not self.sides or set(self.sides) - set(SIDES):
            yield f"sides are letters of {SIDES!r} (queries, keys, values, MLPs), found {self.sides!r}"
        if self.other is not None and not _alike(self.trace, self.other):
            yield (
                f"the other run is one of the same model and length, {len(self.trace)} tokens; "
                f"found {len(self.other)} tokens of {self.other.model!r}"
            )

    @property
    def graph(self) -> ResidualGraph:
        """The residual graph of the run."""
        graph: ResidualGraph = self.trace.graph
        return graph

    def logits(self) -> Array:
        """What the unembedding makes of the stream that the kept paths bring it, (n, V), the final norm anew.

        Cost: one forward pass for each set of endings that differs.
        """
        return unembedded(self.trace.model, self._final)

    @cached_property
    def _final(self) -> Array:
        streams = {ending: np.zeros(self.graph.sizes[:2]) for ending in self._endings}
        fed = dict.fromkeys(self._endings, False)
        for depth in range(len(self.graph.blocks) + 1):
            self._arrive(depth, streams, fed)
            if depth < len(self.graph.blocks):
                self._cross(depth, streams, fed)
        return streams[self._at_sink]

    def _arrive(self, depth: int, streams: dict[Ending, Array], fed: dict[Ending, bool]) -> None:
        """Sources enter the streams whose endings they may begin; elsewhere their counterparts do."""
        for source in self.graph.sources:
            if source.depth != depth:
                continue
            for ending in streams:
                if self._after(source) in ending:
                    streams[ending] = streams[ending] + source.value()
                    fed[ending] = True
                elif self.other is not None:
                    streams[ending] = streams[ending] + self._counterpart(source.label).value()

    def _cross(self, depth: int, streams: dict[Ending, Array], fed: dict[Ending, bool]) -> None:
        """One block: what each of its components adds, computed for every stream that any copy of it reads."""
        components = self.graph.blocks[depth].components
        before = {(c.label, ending): self._before(ending, c.label) for c in components for ending in streams}
        outputs = {read: self._outputs(depth, streams[read]) for read in set(before.values())}
        reached = dict(fed)
        added = {ending: np.zeros(self.graph.sizes[:2]) for ending in streams}
        for place, component in enumerate(components):
            for ending in streams:
                read = before[component.label, ending]
                alive = reached[read] or self._constants_pass(component.label, ending)
                if alive or self.other is not None:
                    added[ending] = added[ending] + outputs[read][place]
                    fed[ending] |= alive
        for ending, amount in added.items():
            streams[ending] = streams[ending] + amount

    def _outputs(self, depth: int, stream: Array) -> list[Array]:
        """What every component of a block adds, for one stream."""
        components, model = self.graph.blocks[depth].components, self.trace.model
        clean = self._clean(components[0])
        query, key, value, neurons = (stream if side in self.sides else clean for side in SIDES)
        layer = components[0].layer
        heads = None
        if any(c.head is not None for c in components):
            heads = head_outputs(model, layer, (query, key, value))
        return [
            mlp_output(model, layer, neurons) if c.head is None or heads is None else heads[c.head]
            for c in components
        ]

    def _clean(self, component: Component) -> Array:
        """The stream that a component read in the run."""
        layer = component.layer
        if component.head is None and not self.trace.config.parallel:
            return self.trace.residuals[f"L{layer}.mid"]
        return self.trace.residuals["embed" if layer == 0 else f"L{layer - 1}.out"]

    # Endings -------------------------------------------------------------------------------------------

    @property
    def _automaton(self) -> Automaton:
        return self.walk.automaton

    @cached_property
    def _at_sink(self) -> Ending:
        states = range(len(self._automaton.table))
        return frozenset(state for state in states if self.walk.finishes(state))

    @cached_property
    def _endings(self) -> tuple[Ending, ...]:
        """All sets of endings that copies of components differ by, found backward from the sink."""
        found = [self._at_sink]
        for ending in found:
            for component in self.graph.components():
                before = self._before(ending, component.label)
                if before not in found:
                    found.append(before)
        return tuple(found)

    def _before(self, ending: Ending, label: str) -> Ending:
        """The endings before which a component stands: its label, then one of these."""
        states = range(len(self._automaton.table))
        return frozenset(state for state in states if self.walk.next_state(state, label) in ending)

    def _after(self, source: Source) -> int:
        return self.walk.next_state(self._automaton.start, source.label)

    def _constants_pass(self, label: str, ending: Ending) -> bool:
        """Whether a kept path begins at a constant inside a component and has one of these endings."""
        return any(
            self._after(source) >= 0 and self.walk.next_state(self._after(source), label) in ending
            for source in self.graph.sources
            if label in source.into
        )

    def _counterpart(self, label: str) -> Source:
        assert self.other is not None
        source = self.other.graph.by_label[label]
        assert isinstance(source, Source)
        return source


def _alike(a: Trace, b: Trace) -> bool:
    return a.model is b.model and len(a) == len(b)
