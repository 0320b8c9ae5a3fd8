"""Interventions on paths: taken away, or made to carry another text; frozen and live, and how far apart.

Frozen, an intervention is exact and linear: patterns, norm scales and gates stay as they were. Live, they are computed
anew. The difference is the price of freezing, measured: for an edge into a head's values it is nothing (without norms
and MLPs behind it), for one into its keys it is everything, because frozen patterns cannot see it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..errors import GraphError, PathexpError
from ..expansion import expand
from ..graph import Array, Query, ResidualGraph, Source, Walk, check_paths, query
from ..model import Target, Trace
from .live import SIDES, LivePaths


@dataclass(frozen=True, eq=False, repr=False)
class Intervention:
    """The logits of a run without some of its paths: `frozen` (n, V) and `live` (n, V), in nats.

    `cut` are the paths; with `other` they carry the tokens of that run instead of nothing. `sides` are what of
    the components reads along paths when live (all of "qkvm", or less).
    """

    trace: Trace
    cut: Query
    other: Trace | None = None
    sides: str = SIDES

    def __repr__(self) -> str:
        what = "cut" if self.other is None else "patched"
        return f"<Intervention: {self.paths:,} paths {what}, sides {self.sides!r}>"

    @cached_property
    def paths(self) -> int:
        """How many paths are cut."""
        return expand(self.trace, self.cut).count()

    @cached_property
    def frozen(self) -> Array:
        """The logits with everything frozen as in the run, (n, V): exact sums of the paths, none listed."""
        if "v" not in self.sides and "m" not in self.sides:
            return self.trace.logits  # frozen patterns hide what queries and keys read
        kept = expand(self.trace, ~self.cut).logits()
        return kept if self.other is None else kept + self._carried()

    @cached_property
    def live(self) -> Array:
        """The logits with patterns, norms and gates computed anew along the paths, (n, V)."""
        return LivePaths(self.trace, Walk(self.trace.graph, ~self.cut), self.other, self.sides).logits()

    def effect(self, target: Target) -> tuple[float, float]:
        """What the intervention changes of a target, in its units: (frozen, live).

        Raises PathexpError for a target that is not a direction of logits.
        """
        if target.space != "logits":
            raise PathexpError(
                f"interventions are read at the logits; found a target in space {target.space!r}"
            )
        frozen, live = (float(x[target.position] @ target.direction) for x in (self.frozen, self.live))
        return frozen - target.value, live - target.value

    def price(self, target: Target) -> float:
        """How far the frozen effect is from the live one: what freezing costs here, in the target's units."""
        frozen, live = self.effect(target)
        return frozen - live

    def _carried(self) -> Array:
        """What the cut paths carry of the other run's tokens, through the maps of this one."""
        assert self.other is not None
        return Walk(_with_sources(self.trace.graph, self.other.graph), self.cut).logits()


def intervene(
    trace: Trace, cut: str | Query, *, other: Trace | None = None, sides: str = SIDES
) -> Intervention:
    """Take paths away from a run, or let them carry another text: frozen and live side by side.

    Parameters
    ----------
    cut: the paths, as a query: one path "E L0H1 L1H0 U", or what `through` and `along` say for nodes and edges.
    other: a run of the same model and length, whose tokens the paths carry instead (path patching).
    sides: live, what reads along the paths: any of "q", "k", "v" of heads and "m" of MLPs; the rest reads what it
        read in the run.

    Frozen costs a forward pass per state of the query; live, one per set of endings that the query tells apart.
    Constants inside a component (value biases) live stay with it while anything reaches it. Raises QueryError for a
    bad query, PathexpError as `LivePaths`.

    >>> import pathexp as px
    >>> trace = px.random_model(layers=2, heads=2).run([1, 2, 3])
    >>> cut = intervene(trace, along("L0H0", "L1H1"), sides="v")
    >>> cut.paths, abs(cut.price(trace.logit(5))) < 1e-12
    (2, True)
    """
    chosen = query(cut)
    check_paths(chosen, trace.graph.alphabet)
    found = Intervention(trace, chosen, other, sides)
    LivePaths(trace, Walk(trace.graph, chosen), other, sides)  # refuses now what could not be done later
    return found


def through(label: str) -> Query:
    """The paths through a component, or from a source.

    >>> str(through("L0H1"))
    'S? .* L0H1 .* U'
    """
    return query(f"S? .* {label} .* U")


def along(writer: str, reader: str) -> Query:
    """The paths along an edge: from what writer adds straight into reader, a component or the unembedding `U`.

    >>> str(along("L0H1", "L1H0"))
    'S? .* L0H1 L1H0 .* U'
    """
    return query(f"S? .* {writer} U" if reader == "U" else f"S? .* {writer} {reader} .* U")


def _with_sources(graph: ResidualGraph, other: ResidualGraph) -> ResidualGraph:
    """A graph whose sources on the stream are those of another run."""
    return replace(graph, sources=tuple(_source(source, other) for source in graph.sources))


def _source(source: Source, other: ResidualGraph) -> Source:
    if source.depth is None:
        return source
    found = other.by_label.get(source.label)
    if not isinstance(found, Source):
        raise GraphError(f"the other run has no source {source.label}")
    return found


def distance(a: Array, b: Array) -> float:
    """The mean over positions of the divergence KL(a ‖ b) of the distributions of two arrays of logits, in nats."""
    first, second = (_log_softmax(x) for x in (a, b))
    return float((np.exp(first) * (first - second)).sum(axis=-1).mean())


def _log_softmax(logits: Array) -> Array:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    found: Array = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return found
