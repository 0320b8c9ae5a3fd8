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

from ..graph import Array, Contrast, ResidualGraph, lengths, push, spread, start_value
from .noise import UNIT, across, disturbance
from .tolerance_of_contrasts import contrast_deviation

CONFIDENCE = 10.0
"""Standard deviations allowed: Gaussian noise passes this once in 10²² numbers."""


def rounding_tolerance(graph: ResidualGraph, terms_listed: int, listed_size: float) -> float:
    """Return the largest difference at a logit that rounding explains.

    `terms_listed` terms were added one by one with the sum of their absolute values at most `listed_size`
    at any logit; both are 0 when the sum is a recurrence. Costs about one forward pass.
    """
    if isinstance(graph, Contrast) and not graph.changed:
        deviation = contrast_deviation(graph)
    else:
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
        noise = np.hypot(noise, disturbance(graph, lengths(x)))
        if block is None:
            break
        outputs = block.each(x[None], np.arange(len(graph.blocks[depth].components)))
        x = block.through_skip(x[None])[0] + outputs.sum(axis=(0, 1)) + _injected(graph, depth)
        noise = np.hypot(across(block, noise), lengths(disturbance(graph, lengths(outputs[:, 0])).T))
    return x, noise


def _injected(graph: ResidualGraph, depth: int) -> Array:
    """What constants add at the outputs of the components of a block."""
    total = np.zeros(graph.sizes[:2])
    for source in graph.sources:
        for label, operator in source.into.items():
            if graph.places.get(label) == depth:
                total += start_value(source.start, operator)
    return total


def _at_logits(graph: ResidualGraph, x: Array, noise: Array) -> float:
    """The largest deviation of the noise at a logit, the sink's own reading included."""
    noise = spread(graph.sink.operator, np.hypot(noise, disturbance(graph, lengths(x))))
    out = push(graph.sink.operator, x)
    return float(np.max(np.hypot(noise, UNIT * np.max(np.abs(out), axis=-1)), initial=0.0))
