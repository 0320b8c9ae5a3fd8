"""Rounding noise of one reading, and how a block carries it on."""

from __future__ import annotations

import numpy as np

from ..graph import (
    Array,
    BlockKernel,
    One,
    Operator,
    ResidualGraph,
    Source,
    Step,
    chain,
    feature_norm,
    lengths,
    product_norm,
    spread,
    start_value,
)
from ..graph.named import centering, feature

UNIT = float(np.finfo(np.float64).eps) / 2


def disturbance(graph: ResidualGraph, sizes: Array) -> Array:
    """Deviation of the rounding of one reading of vectors of so many lengths: u √K ‖x‖."""
    longest = sum(graph.sizes[:2])
    return np.asarray(UNIT * np.sqrt(longest) * sizes)


def written_noise(graph: ResidualGraph, source: Source) -> Array:
    """Return the deviation (n,) that rounding a source before it is normed leaves in what it writes.

    A norm behind the embedding enlarges it where features nearly agree; where nothing stands between, it is the
    rounding of the stream, and counted there.
    """
    behind, last = source.write[:-1], source.write[-1] if source.write else None
    nothing = np.zeros(graph.sizes[0])
    if isinstance(source.start, One) or not isinstance(last, Step) or not last.feature:
        return nothing
    if not (behind or last.position or last.feature[1:]):
        return nothing
    raw = lengths(start_value(source.start, (Step((), last.feature[-1:]),)))
    rest = (*behind, Step(last.position, last.feature[:-1]))
    return np.broadcast_to(spread(rest, disturbance(graph, raw)), graph.sizes[0])


def across(block: BlockKernel, noise: Array, centered: bool = False) -> Array:
    """Carry noise across a block: over the skip and through every component, as independent parts.

    `centered`: nobody reads what is the same for all features, so that much of what components write is left out.
    """
    singles = [_centered(operator) if centered else operator for _, operator in block.single]
    parts = [spread(block.skip, noise), *(spread(operator, noise) for operator in singles)]
    for stack in block.stacks:
        write = stack.write - stack.write.mean(axis=-2, keepdims=True) if centered else stack.write
        norm = product_norm(write, stack.read) if centered else stack.norm
        share = norm / np.sqrt(stack.write.shape[1])
        parts.extend(share[:, None] * stack.mix_noise(noise, np.arange(len(stack.members))))
    return lengths(np.stack(parts, axis=-1))


def _centered(operator: Operator) -> Operator:
    """An operator without what it writes to all features alike."""
    first = operator[0]
    if not isinstance(first, Step) or not first.feature:
        return operator
    space = first.feature[0].numbers().target
    return chain(feature(centering(space)), operator)


def everybody_centers(graph: ResidualGraph) -> bool:
    """Return whether whatever reads the stream takes its mean over features off first, over skip edges that change nothing.

    What is the same for all features is then seen by nobody, and noise along it goes nowhere.
    """
    if any(block.skip for block in graph.blocks):
        return False
    return all(
        all(_centers(operator) for _, operator in block.single)
        and all(_reads_no_mean(stack.read) for stack in block.stacks)
        for block in graph.kernels
    ) and _centers(graph.sink.operator)  # last: it may be a table of all tokens


def _reads_no_mean(read: Array) -> bool:
    """Whether readers (..., r, d) make nothing of a vector of equal features."""
    made, size = np.abs(read.sum(axis=-1)), np.abs(read).sum(axis=-1)
    return bool(np.all(made <= _NOTHING * np.maximum(size, np.finfo(np.float64).tiny)))


def _centers(operator: Operator) -> bool:
    """Whether an operator makes nothing of a vector of equal features."""
    first = operator[-1] if operator else None
    if not isinstance(first, Step) or not first.feature:
        return False
    made = np.abs(first.push_features(np.ones(int(first.feature[-1].columns)))).max(initial=0.0)
    return bool(made <= _NOTHING * feature_norm(first))


_NOTHING = 1e-10
"""A sum of numbers below this share of their sizes is zero but for rounding: far more than d · 2⁻⁵³."""
