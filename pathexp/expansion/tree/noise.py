"""How far rounding may drive children and parent apart: deviations carried along with fields and rows.

The noise model is that of `pathexp.expansion.tolerance`: every product of a map with a vector of length ‖x‖ is
disturbed by u √K ‖x‖ per coordinate, and disturbances spread as independent ones (Higham & Mary 2019).
"""

from __future__ import annotations

import numpy as np

from ...algebra import Diagonal, LinearMap
from ...graph import (
    Action,
    Array,
    BlockKernel,
    Bundle,
    Gate,
    Indices,
    Operator,
    Parallel,
    ResidualGraph,
    frobenius_norm,
    lengths,
    mix_noise,
    start_value,
    word_map,
)
from ...model.rounding import CONFIDENCE
from ..noise import UNIT


def rounding(x: Array) -> Array:
    """Return the deviation per coordinate of what is computed from x (..., n, d), by position: (..., n)."""
    return np.asarray(UNIT * np.sqrt(sum(x.shape[-2:])) * lengths(x))


def outputs(block: BlockKernel, before: Array, components: Indices, made: Array) -> Array:
    """Return the deviations (C, n) of what components of a block make, (C, n, d), of a stream `before` (n, d).

    A block that is read backward makes covectors at its inputs of one at its outputs.
    """
    return np.hypot(rounding(made), _spread(block, rounding(before), components))


def _spread(block: BlockKernel, noise: Array, components: Indices) -> Array:
    """Noise (n,) at what a block reads, carried through each of some components: (C, n)."""
    n = len(noise)
    found = np.zeros((len(components), n))
    for stack in block.stacks:
        rows = stack.pick(components)
        share = stack.norm[rows, None] / np.sqrt(stack.write.shape[1])
        where = np.isin(components, stack.members[rows])
        found[where] = share * stack.mix_noise(noise, rows)
    for bundle in block.bundles:
        where = np.isin(components, bundle.members)
        if where.any():
            found[where] = _through_bundle(bundle, noise, np.searchsorted(bundle.members, components[where]))
    for index, operator in block.alone:
        if (where := components == index).any():
            found[where] = through(operator, noise, block.backward)
    return found


def _through_bundle(bundle: Bundle, noise: Array, members: Indices) -> Array:
    """The same through components that share what they read through and write through, which is crossed once."""
    backward = bundle.inner.backward
    first, last = (bundle.writes, bundle.reads) if backward else (bundle.reads, bundle.writes)
    inside = _spread(bundle.inner, through(first, noise, backward), members)
    return np.stack([through(last, each, backward) for each in inside]) if last else inside


def through(operator: Operator, noise: Array, backward: bool) -> Array:
    """Carry noise of a deviation (n,) per coordinate through an operator, factor by factor."""
    n = len(noise)
    for part in operator if backward else reversed(operator):
        if isinstance(part, Action):
            noise = (part if n == part.positions else part.first(n)).spread(noise, backward)
            continue
        if isinstance(part, Parallel):
            noise = np.sum([through(term, noise, backward) for term in part.terms], axis=0)
            continue
        if isinstance(part, Gate):
            noise = noise * lengths(part.numbers()[:n]) / np.sqrt(part.numbers().shape[-1])
            continue
        for factor in part.feature:
            noise = noise * _gain(factor.numbers(), backward)
        position = word_map(part.position)
        if position is not None:
            pattern = position.dense()[:n, :n]
            noise = mix_noise(pattern.T if backward else pattern, noise)
    return noise


def _gain(map: LinearMap, backward: bool) -> float:
    """How deviations per coordinate grow in a map: its Frobenius norm over the root of how many come out."""
    if isinstance(map, Diagonal):
        return float(lengths(map.values)) / float(np.sqrt(len(map.values)))
    return frobenius_norm(map) / float(np.sqrt(map.shape[1 if backward else 0]))


def allowed(own: float, children: Array, values: Array) -> float:
    """Return the difference between a parent's value and the sum of its children that rounding explains."""
    summing = np.sqrt(len(values)) * UNIT * float(np.abs(values).sum())
    return CONFIDENCE * float(np.sqrt(2.0) * np.hypot(np.hypot(own, lengths(children)), summing))


def final_noise(graph: ResidualGraph, positions: int) -> Array:
    """Return the deviation per coordinate of the final stream's rounding, by position, whatever the order of sums.

    Costs about one forward pass over the positions.
    """
    x, noise = np.zeros((positions, graph.sizes[1])), np.zeros(positions)
    for depth, block in enumerate(graph.kernels):
        x, noise = _entered(graph, depth, x, noise)
        components = np.arange(len(graph.blocks[depth].components))
        made = block.each(x[None], components)[:, 0] + _inside(graph, depth, positions)
        parts = [through(block.skip, noise, False), *_spread(block, noise, components), *rounding(made)]
        x, noise = block.through_skip(x[None])[0] + made.sum(axis=0), lengths(np.stack(parts, axis=-1))
    return _entered(graph, len(graph.blocks), x, noise)[1]


def _entered(graph: ResidualGraph, depth: int, x: Array, noise: Array) -> tuple[Array, Array]:
    """Stream and noise at a depth, with the sources that enter there."""
    values = (source.value()[: len(x)] for source in graph.sources if source.depth == depth)
    x = sum(values, x)
    return x, np.hypot(noise, rounding(x))


def _inside(graph: ResidualGraph, b: int, positions: int) -> Array:
    """What constants add at the outputs of a block's components, (C, n, d)."""
    components = graph.blocks[b].components
    added = np.zeros((len(components), positions, graph.sizes[1]))
    for c, component in enumerate(components):
        for source in graph.sources:
            if component.label in source.into:
                added[c] += start_value(source.start, source.into[component.label])[:positions]
    return added
