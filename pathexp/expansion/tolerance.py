"""How far two exact orders of the same sum may drift apart in floating point.

Both the forward pass and a sum over paths are backward stable: every product W x is the exact product of an
input disturbed by at most u √K ‖x‖ per coordinate, u the unit roundoff and K the length of the inner sums
(Higham & Mary 2019, "A New Approach to Probabilistic Rounding Error Analysis", theorem 2.4, without its
confidence factor). Disturbances are carried to the logits as independent noise: through A ⊗ W the variance
per coordinate becomes (A∘A) v · ‖W‖²_F / rows. The tolerance is `CONFIDENCE` standard deviations at the
worst position. Deviations are carried, not their squares, which float64 would not hold for large or small weights.
"""

from __future__ import annotations

import numpy as np

from ..algebra import waist
from ..graph import (
    Array,
    BlockKernel,
    Gate,
    Operator,
    ResidualGraph,
    product_norm,
    push,
    start_value,
    word_map,
)

UNIT = float(np.finfo(np.float64).eps) / 2
CONFIDENCE = 10.0
"""Standard deviations allowed: Gaussian noise passes this once in 10²² numbers."""


def rounding_tolerance(graph: ResidualGraph, terms_listed: int, listed_size: float) -> float:
    """Return the largest difference at a logit that rounding explains.

    `terms_listed` terms were added one by one with the sum of their absolute values at most `listed_size`
    at any logit; both are 0 when the sum is a recurrence. Costs about one forward pass.
    """
    deviation = _at_logits(graph, *_on_stream(graph))
    summing = np.sqrt(terms_listed) * UNIT * listed_size
    return CONFIDENCE * float(np.sqrt(2.0) * np.hypot(deviation, summing))


def _on_stream(graph: ResidualGraph) -> tuple[Array, Array]:
    """Return the final stream (n, d) and the deviation of its rounding noise per position (n,)."""
    x = np.zeros(graph.sizes[:2])
    noise = np.zeros(len(x))
    for depth, block in enumerate((*graph.kernels, None)):
        for source in graph.sources:
            if source.depth == depth:
                x += source.value()
        noise = np.hypot(noise, _disturbance(graph, x))
        if block is None:
            break
        outputs = block.each(x[None], np.arange(len(graph.blocks[depth].components)))
        x = block.through_skip(x[None])[0] + outputs.sum(axis=(0, 1)) + _injected(graph, depth)
        noise = np.hypot(_across(block, noise), lengths(_disturbance(graph, outputs[:, 0]).T))
    return x, noise


def _injected(graph: ResidualGraph, depth: int) -> Array:
    """What constants add at the outputs of the components of a block."""
    total = np.zeros(graph.sizes[:2])
    for source in graph.sources:
        for label, operator in source.into.items():
            if graph.places.get(label) == depth:
                total += start_value(source.start, operator)
    return total


def _disturbance(graph: ResidualGraph, x: Array) -> Array:
    """Deviation of the rounding of one reading of x (..., n, d), per position: u √K ‖x‖."""
    longest = sum(graph.sizes[:2])
    return np.asarray(UNIT * np.sqrt(longest) * lengths(x))


def lengths(x: Array) -> Array:
    """Euclidean lengths along the last axis, without over- or underflow."""
    largest = np.max(np.abs(x), axis=-1, initial=0.0, keepdims=True)
    scaled = np.divide(x, largest, out=np.zeros_like(x), where=largest > 0)
    return np.asarray(largest[..., 0] * np.sqrt(np.sum(scaled * scaled, axis=-1)))


def _across(block: BlockKernel, noise: Array) -> Array:
    """Carry noise across a block: over the skip and through every component, as independent parts."""
    parts = [spread(block.skip, noise), *(spread(operator, noise) for _, operator in block.single)]
    for stack in block.stacks:
        share = stack.norm / np.sqrt(stack.write.shape[1])
        parts.extend(share[:, None] * _mixed(stack.patterns, noise))
    return lengths(np.stack(parts, axis=-1))


def _mixed(pattern: Array, noise: Array) -> Array:
    """Deviations (n,) of independent noise mixed by patterns (..., n, n)."""
    largest = float(np.max(noise, initial=0.0)) or 1.0
    return np.asarray(largest * np.sqrt((pattern**2) @ (noise / largest) ** 2))


def spread(operator: Operator, noise: Array) -> Array:
    """Carry noise of a deviation (n,) per coordinate through an operator; the identity leaves it as it is."""
    for part in reversed(operator):
        if isinstance(part, Gate):
            values = part.numbers()
            noise = noise * lengths(values) / np.sqrt(values.shape[-1])
            continue
        position, feature = word_map(part.position), word_map(part.feature)
        if feature is not None:
            noise = noise * (float(product_norm(*waist(feature))) / np.sqrt(feature.shape[0]))
        if position is not None:
            noise = _mixed(position.dense(), noise)
    return noise


def _at_logits(graph: ResidualGraph, x: Array, noise: Array) -> float:
    """The largest deviation of the noise at a logit, the sink's own reading included."""
    noise = spread(graph.sink.operator, np.hypot(noise, _disturbance(graph, x)))
    out = push(graph.sink.operator, x)
    return float(np.max(np.hypot(noise, UNIT * np.max(np.abs(out), axis=-1)), initial=0.0))
