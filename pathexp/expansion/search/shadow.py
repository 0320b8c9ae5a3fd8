"""How far the value of every single path may be off: the same paths through a graph of sizes alone.

Every operator becomes one number for each pair of positions, the most it can make of a vector (`sizes.spread`). A path's
value in that graph, times γ of all roundings on the way, bounds the error of its value in the graph itself, in whatever
order its factors were multiplied (Higham 2002, §3.5).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from ...algebra import Dense, Space
from ...graph import (
    Array,
    Block,
    Component,
    Factor,
    Operator,
    ResidualGraph,
    Sink,
    Source,
    Step,
    Values,
    Walk,
)
from ...model import Target
from .rounding import finite, gamma, lengths
from .sizes import LEAST, additions, spread, starting_size, underflow


def path_errors(walk: Walk, target: Target, values: Callable[[Walk, Target], Array]) -> Array:
    """Return how far each value of `values(walk, target)`, which evaluates all paths, may be off; aligned with them.

    Costs what the values cost, twice, with a stream of one number in place of d_model.
    """
    size = np.array([float(lengths(target.direction))])
    graph, unit = walk.graph, Target(target.position, size, target.space, target.label, 0.0)
    rounding = values(Walk(_sizes(graph, spread), walk.query), unit)
    under = values(Walk(_sizes(graph, _under), walk.query), replace(unit, direction=np.maximum(size, 1.0)))
    return finite(_share_lost(graph) * rounding + LEAST * under)


Sizes: TypeAlias = Callable[[Operator, Array], Array]
"""How long what an operator makes of vectors (..., n) can be."""


def _sizes(graph: ResidualGraph, how: Sizes) -> ResidualGraph:
    """The graph with every operator as its sizes."""
    n = graph.sizes[0]
    blocks = tuple(
        Block(tuple(_component(part, n, how) for part in block.components), _sized(block.skip, n, how))
        for block in graph.blocks
    )
    sources = tuple(_source(source, n, how) for source in graph.sources)
    sink = Sink(graph.sink.label, _sized(graph.sink.operator or (Step(),), n, how))
    return ResidualGraph(n, 1, 1, sources, blocks, sink)


def _under(operator: Operator, far: Array) -> Array:
    """What is lost to underflow can grow as if all sizes below one were one."""
    each = np.maximum(far, 1.0).sum(axis=-1, keepdims=True) * (underflow(operator) / LEAST)
    return np.asarray(np.broadcast_to(each, far.shape), dtype=np.float64)


def _share_lost(graph: ResidualGraph) -> float:
    """γ of all roundings that a path's value can meet, from its source to the target."""
    n, d, d_out = graph.sizes
    steps = [
        max([additions(block.skip), *(additions(component.operator) for component in block.components)])
        for block in graph.blocks
    ]
    starts = [
        additions(operator) for source in graph.sources for operator in (source.write, *source.into.values())
    ]
    most = sum(steps) + max(starts, default=0) + additions(graph.sink.operator) + 2 * n * d + d_out
    return 2 * gamma(most)


def _source(source: Source, positions: int, how: Sizes) -> Source:
    def starting(operator: Operator) -> Operator:
        long = starting_size(source.start, operator, positions)
        if how is _under:
            long = np.maximum(long, underflow(operator) / LEAST)
        return (_matrix(long[:, None], "position", "one"),)

    one = Values("1", 1, np.ones((1, 1)))
    into = {label: starting(operator) for label, operator in source.into.items()}
    write = starting(source.write) if source.depth is not None else ()
    return Source(source.label, source.kind, one, write, source.depth, into, source.layer)


def _component(component: Component, positions: int, how: Sizes) -> Component:
    sized = _sized(component.operator or (Step(),), positions, how)
    return Component(component.label, component.kind, sized, component.layer, component.head)


def _sized(operator: Operator, positions: int, how: Sizes) -> Operator:
    """An operator's sizes as a map between positions; nothing for the identity."""
    if not operator:
        return ()
    return (_matrix(how(operator, np.eye(positions)).T, "position", "position"),)


def _matrix(amounts: Array, target: str, source: str) -> Step:
    rows, columns = amounts.shape
    map = Dense(np.minimum(amounts, _MOST), Space(target, rows), Space(source, columns))
    return Step((Factor("sizes", rows, columns, map),))


_MOST = 1e300
"""Sizes above this are infinite for whoever multiplies them."""
