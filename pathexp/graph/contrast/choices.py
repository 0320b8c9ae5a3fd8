"""Experts that one run alone chose: a source each, what they make there, and the room that they take.

No secant of a choice is finite where it jumps. Where one run alone uses an expert, what it adds is a source whole, `dchoice_L3E5`.
Where both use it and weights are normalized over the chosen, the part of its weight that it loses to what one run alone
chose is one as well, at the mean of what it makes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ..nodes import Source, Values
from ..operators import Array
from .experts import OneExpert
from .graph import Contrast
from .layout import Layout
from .points import depth_behind
from .runs import Runs

CHOICE = "choice"


def with_every_choice(graph: Contrast) -> Contrast:
    """Return a contrast with a source for every expert, zero where both runs chose alike: contrasts of other cases have the same labels."""
    runs = Runs(*graph.runs, graph.share)
    choices, known = (
        Choices(runs, Layout(runs, graph.mlp_ports)),
        {source.label: source for source in graph.sources},
    )
    nothing = np.broadcast_to(np.float64(0), graph.sizes[:2])
    every = [choices.source(expert, nothing, layer) for layer, expert in choices.experts()]
    kept = [source for source in graph.sources if source.kind != CHOICE]
    return replace(graph, sources=(*kept, *(known.get(source.label, source) for source in every)))


@dataclass(frozen=True, eq=False)
class Choices:
    """The sources that come from routers that chose otherwise."""

    runs: Runs
    layout: Layout

    def sources(self) -> Iterator[Source]:
        """One source for each expert that one run alone chose somewhere, or that others took room from."""
        for layer, expert in self.experts():
            values = self.left(expert)
            if values.any():
                yield self.source(expert, values, layer)

    def experts(self) -> Iterator[tuple[int, OneExpert]]:
        """Every expert with its layer, in the order in which they act."""
        config = self.runs.config
        for layer in filter(config.is_sparse, range(config.n_layers)):
            experts = self.layout.experts_of(layer)
            yield from ((layer, experts[part]) for part in experts.parts)

    def left(self, expert: OneExpert) -> Array:
        """What no path through the expert holds of its difference, (n, d)."""
        here, there = self.runs.both(expert.added_alone)
        lost = 0.0 if expert.index is None else expert.routing.left_over[:, expert.index, None]
        return here - there + lost * expert.made

    def source(self, expert: OneExpert, values: Array, layer: int) -> Source:
        """That as a source."""
        label = f"dchoice_{expert.part.label}"
        start = Values(f"x_{label}", values.shape[-1], values)
        depth = depth_behind(self.runs.config, layer, "mlp")
        return Source(label, CHOICE, start, expert.writes, depth=depth, layer=layer)
