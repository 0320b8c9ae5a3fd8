"""Which paths add exactly nothing: no chain of numbers along them is without a zero, so that nothing rounds.

Every number becomes 1, or 0 if it is zero; a path's value in that graph counts its chains of numbers without a zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce

import numpy as np

from ...algebra import Chain, Dense, Diagonal, Identity, Kron, LinearMap, Scaled, Space, Sum, Zero
from ...graph import (
    Action,
    Array,
    Block,
    Component,
    Difference,
    Factor,
    Gate,
    Operator,
    Parallel,
    Part,
    ResidualGraph,
    Sink,
    Source,
    Start,
    Step,
    Values,
    Walk,
)
from ...model import Target


def certain_zeros(walk: Walk, target: Target, values: Callable[[Walk, Target], Array]) -> Array:
    """Return whether each path's value is zero whatever the rounding, aligned with `values(walk, target)`.

    Costs what the values cost, and a copy of the graph's numbers.
    """
    graph = walk.graph
    counted = ResidualGraph(
        *graph.sizes,
        tuple(map(_source, graph.sources)),
        tuple(Block(tuple(map(_component, block.components)), _marked(block.skip)) for block in graph.blocks),
        Sink(graph.sink.label, _marked(graph.sink.operator)),
        at=graph.at,
    )
    chains = values(Walk(counted, walk.query), replace(target, direction=_ones(target.direction), value=0.0))
    return np.asarray(chains == 0)


def _ones(array: Array) -> Array:
    return np.asarray(array != 0, dtype=np.float64)


def _source(source: Source) -> Source:
    into = {label: _marked(operator) for label, operator in source.into.items()}
    return replace(source, start=_start(source.start), write=_marked(source.write), into=into)


def _start(start: Start) -> Start:
    match start:
        case Values(array=array) if array is not None:
            return replace(start, array=_ones(array))
        case Difference(indices=indices, others=others):
            rows = np.zeros((len(indices), int(start.size)))
            rows[np.arange(len(indices)), indices] = rows[np.arange(len(others)), others] = 1.0
            rows[indices == others] = 0.0
            return Values(start.name, start.size, rows)
    return start


def _component(component: Component) -> Component:
    return replace(component, operator=_marked(component.operator))


def _marked(operator: Operator) -> Operator:
    return tuple(map(_part, operator))


def _part(part: Part) -> Part:
    match part:
        case Gate():
            return replace(part, values=_ones(part.numbers()))
        case Parallel(terms=terms):
            return replace(part, terms=tuple(map(_marked, terms)))
        case Action(positions=n):
            mixed = np.eye(n) if part.local else np.ones((n, n))
            features = np.ones((part.rows, part.columns))
            return Step((_alone(mixed, part.name),), (_alone(features, part.name),))
    return Step(*(tuple(map(_factor, word)) for word in (part.position, part.feature)))


def _factor(factor: Factor) -> Factor:
    numbers = factor.numbers()
    marked = Dense(_chains(numbers), numbers.target, numbers.source, factor.name)
    return Factor(factor.name, factor.rows, factor.columns, marked)


def _alone(array: Array, name: str) -> Factor:
    rows, columns = array.shape
    return Factor(name, rows, columns, Dense(array, Space("to", rows), Space("from", columns), name))


def _chains(map: LinearMap) -> Array:
    """1 where any product that a map's entry is a sum of has no zero."""
    match map:
        case Identity() | Zero():
            return map.dense()
        case Diagonal(values=values):
            return np.diag(_ones(values))
        case Scaled(factor=factor, map=inner):
            return _chains(inner) * float(factor != 0)
        case Chain(factors=factors):
            return reduce(lambda a, b: _ones(a @ b), [_chains(factor) for factor in factors])
        case Sum(terms=terms):
            return _ones(np.asarray(sum(_chains(term) for term in terms)))
        case Kron(left=left, right=right):
            return np.asarray(np.kron(_chains(left), _chains(right)), dtype=np.float64)
    return _ones(map.dense(max_entries=2**31))
