"""How far the value of every single path may be off: the same paths through a graph of sizes alone.

Every operator becomes two numbers for each pair of positions: σ, how much longer it can make a vector, and γ f, how far what
is computed of it can be off, in whatever order its factors are multiplied (Higham 2002, §3.5). Lengths l and losses e of
streams go on as l' = σ l and e' = σ e + γ f l, with σ + γ f for σ, because it is computed streams that lose. What is lost of
a covector on its way back acts on the stream that arrives there, so that the same sum, read from the other end,
bounds it: one product of the graph's sizes holds for paths that are met in the middle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from ...algebra import Dense, Space
from ...errors import SizeError, WeightsError
from ...graph import (
    Array,
    Block,
    Component,
    Factor,
    Operator,
    ResidualGraph,
    Sink,
    Source,
    Start,
    Step,
    Values,
    Walk,
)
from ...model import Target
from ..targets import reads_output
from .ends import narrowed, starting_lost, starting_size
from .rounding import finite, gamma, lengths
from .sizes import LEAST, additions, spread, tight, underflow


def path_errors(walk: Walk, target: Target, values: Callable[[Walk, Target], Array]) -> Array:
    """Return how far each value of `values(walk, target)`, which evaluates all paths, may be off; aligned with them.

    Infinite where sizes leave the range of floating point. Costs what the values cost, twice, with a stream of two
    numbers in place of d_model.
    """
    graph, read = walk.graph, reads_output(target, walk.graph)
    n, d, _ = graph.sizes
    sink, direction = narrowed(graph.sink.operator, target.direction) if read else ((), target.direction)
    size = np.array([float(lengths(direction))])
    unit = Target(target.position, size, "logits" if read else "residual", target.label, 0.0)
    met = n * d + int(np.count_nonzero(target.direction))
    try:
        rounding, under = (_graph(graph, sink, how) for how in (_Rounding(n, met), _Underflow(n)))
        found = values(Walk(rounding, walk.query), replace(unit, position=n + target.position))
        least = values(Walk(under, walk.query), replace(unit, direction=np.maximum(size, 1.0)))
    except (WeightsError, SizeError):
        return np.full(sum(walk.count_by_order), np.inf)
    return finite(found * _UP + LEAST * least)


_UP = 1 + 1e-9
"""More than the rounding of the sums of positive numbers that make an error."""


class _Sizes(Protocol):
    """How sizes go on: square matrices for operators, columns for starts."""

    @property
    def rows(self) -> int: ...

    def of(self, operator: Operator) -> Array: ...

    def starting(self, start: Start, operator: Operator) -> Array: ...


@dataclass(frozen=True)
class _Rounding:
    """How long streams are, and below that how far they may be off; meeting a covector takes `met` roundings."""

    positions: int
    met: int

    @property
    def rows(self) -> int:
        return 2 * self.positions

    def of(self, operator: Operator) -> Array:
        each = np.eye(self.positions)
        lost = 2 * gamma(additions(operator)) * spread(operator, each).T
        far = tight(operator, each).T + lost
        return np.block([[far, np.zeros_like(far)], [lost, far]])

    def starting(self, start: Start, operator: Operator) -> Array:
        off = starting_lost(start, operator, self.positions)
        far = starting_size(start, operator, self.positions) + off
        return np.concatenate([far, off + 2 * gamma(self.met) * far])


@dataclass(frozen=True)
class _Underflow:
    """What is lost to underflow, over `LEAST`: it can grow as if all sizes below one were one."""

    positions: int

    @property
    def rows(self) -> int:
        return self.positions

    def of(self, operator: Operator) -> Array:
        far = np.maximum(spread(operator, np.eye(self.positions)), 1.0)
        each = far.sum(axis=-1, keepdims=True) * (underflow(operator) / LEAST)
        return np.asarray(np.broadcast_to(each, far.shape), dtype=np.float64).T

    def starting(self, start: Start, operator: Operator) -> Array:
        return np.maximum(starting_size(start, operator, self.positions), underflow(operator) / LEAST)


def _graph(graph: ResidualGraph, sink: Operator, how: _Sizes) -> ResidualGraph:
    """The graph with every operator as its sizes."""
    blocks = tuple(
        Block(tuple(_component(part, how) for part in block.components), _sized(block.skip, how))
        for block in graph.blocks
    )
    sources = tuple(_source(source, how) for source in graph.sources)
    return ResidualGraph(
        how.rows, 1, 1, sources, blocks, Sink(graph.sink.label, _sized(sink or (Step(),), how))
    )


def _source(source: Source, how: _Sizes) -> Source:
    def starting(operator: Operator) -> Operator:
        return (_matrix(how.starting(source.start, operator)[:, None], "position", "one"),)

    one = Values("1", 1, np.ones((1, 1)))
    into = {label: starting(operator) for label, operator in source.into.items()}
    write = starting(source.write) if source.depth is not None else ()
    return Source(source.label, source.kind, one, write, source.depth, into, source.layer)


def _component(component: Component, how: _Sizes) -> Component:
    sized = _sized(component.operator or (Step(),), how)
    return Component(component.label, component.kind, sized, component.layer, component.head)


def _sized(operator: Operator, how: _Sizes) -> Operator:
    """An operator's sizes as a map between positions; nothing for the identity."""
    return (_matrix(how.of(operator), "position", "position"),) if operator else ()


def _matrix(amounts: Array, target: str, source: str) -> Step:
    """Sizes as a map; raises WeightsError where they are infinite."""
    rows, columns = amounts.shape
    map = Dense(amounts, Space(target, rows), Space(source, columns))
    return Step((Factor("sizes", rows, columns, map),))
