"""How far two exact orders of the same sum may drift apart in floating point.

Both the forward pass and a sum over paths are backward stable: every product W x is the exact product of an
input disturbed by at most u √K ‖x‖ per coordinate, u the unit roundoff and K the length of the inner sums
(Higham & Mary 2019, "A New Approach to Probabilistic Rounding Error Analysis", theorem 2.4, without its
confidence factor). Disturbances are carried to the logits as independent noise: through A ⊗ W the variance
per coordinate becomes (A∘A) v · ‖W‖²_F / rows. The tolerance is `CONFIDENCE` standard deviations at the
worst position.
"""

from __future__ import annotations

import numpy as np

from ..algebra import LinearMap, waist
from ..graph import Array, BlockKernel, Gate, Operator, ResidualGraph, push, start_value, word_map

UNIT = float(np.finfo(np.float64).eps) / 2
CONFIDENCE = 10.0
"""Standard deviations allowed: Gaussian noise passes this once in 10²² numbers."""


def rounding_tolerance(graph: ResidualGraph, terms_listed: int, listed_size: float) -> float:
    """Return the largest difference at a logit that rounding explains.

    `terms_listed` terms were added one by one with the sum of their absolute values at most `listed_size`
    at any logit; both are 0 when the sum is a recurrence. Costs about one forward pass.
    """
    variance = _at_logits(graph, *_on_stream(graph))
    summing = terms_listed * (UNIT * listed_size) ** 2
    return CONFIDENCE * float(np.sqrt(2 * (variance + summing)))


def _on_stream(graph: ResidualGraph) -> tuple[Array, Array]:
    """Return the final stream (n, d) and the variance of its rounding noise per position (n,)."""
    x = np.zeros(graph.sizes[:2])
    v = np.zeros(len(x))
    for depth, block in enumerate((*graph.kernels, None)):
        for source in graph.sources:
            if source.depth == depth:
                x += source.value()
        v += _disturbance(graph, x)
        if block is None:
            break
        outputs = block.each(x[None], np.arange(len(graph.blocks[depth].components)))
        x = block.through_skip(x[None])[0] + outputs.sum(axis=(0, 1)) + _injected(graph, depth)
        v = _across(block, v)
        v += _disturbance(graph, outputs[:, 0]).sum(axis=0)
    return x, v


def _injected(graph: ResidualGraph, depth: int) -> Array:
    """What constants add at the outputs of the components of a block."""
    total = np.zeros(graph.sizes[:2])
    for source in graph.sources:
        for label, operator in source.into.items():
            if graph.places.get(label) == depth:
                total += start_value(source.start, operator)
    return total


def _disturbance(graph: ResidualGraph, x: Array) -> Array:
    """Variance of the rounding of one reading of x (..., n, d), per position: u² K ‖x‖²."""
    longest = sum(graph.sizes[:2])
    return (UNIT**2) * longest * np.sum(x * x, axis=-1)  # type: ignore[no-any-return]


def _across(block: BlockKernel, v: Array) -> Array:
    """Carry noise across a block: over the skip and through every component, as independent parts."""
    after = spread(block.skip, v)
    for stack in block.stacks:
        carried = (stack.patterns**2) @ v
        after = after + (stack.energy / stack.write.shape[1]) @ carried
    return sum((spread(operator, v) for _, operator in block.single), after)


def _energy(feature: LinearMap) -> float:
    """Squared Frobenius norm, by Gram matrices on the narrow side: a QR would be finer than noise needs."""
    left, right = waist(feature)
    return float(np.sum((left.T @ left) * (right @ right.T)))


def spread(operator: Operator, v: Array) -> Array:
    """Carry noise of variance v (n,) per coordinate through an operator; the identity leaves it as it is."""
    for part in reversed(operator):
        if isinstance(part, Gate):
            v = v * np.mean(part.numbers() ** 2, axis=-1)
            continue
        position, feature = word_map(part.position), word_map(part.feature)
        if feature is not None:
            v = v * (_energy(feature) / feature.shape[0])
        if position is not None:
            v = (position.dense() ** 2) @ v
    return v


def _at_logits(graph: ResidualGraph, x: Array, v: Array) -> float:
    """The largest variance of the noise at a logit, the sink's own reading included."""
    v = spread(graph.sink.operator, v + _disturbance(graph, x))
    out = push(graph.sink.operator, x)
    return float(np.max(v + UNIT**2 * np.max(out * out, axis=-1), initial=0.0))
