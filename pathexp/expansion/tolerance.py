"""How far two exact orders of the same sum may drift apart in floating point.

Every product W x of the forward pass and of a sum over paths is computed as (W + ΔW) x with |ΔW| ≤ γ̃_K |W|, where
γ̃_K is about u √K: u is the unit roundoff and K the length of the inner sums (Higham & Mary 2019, "A New Approach to
Probabilistic Rounding Error Analysis": a backward error in the matrix, without its confidence factor). So
row w of it is off by at most u √K |w|·|x| ≤ u √K ‖w‖ ‖x‖. Independent noise of deviation u √K ‖x‖ in every coordinate
of the input has just that deviation in the row, and so stands for it. Such noise is carried to the logits: through A
⊗ W the variance per coordinate becomes (A∘A) v · ‖W‖²_F / rows. The tolerance is `CONFIDENCE` standard deviations at
the worst position. Deviations are carried, not their squares, which float64 would not hold for large or small
weights.

Every balance of the house takes its tolerance from here: sums of paths at logits (`rounding_tolerance`), sums of
values toward a target (`target_tolerance`), and accounts of the stream (`stream_tolerance`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np
from numpy.typing import ArrayLike

from ..graph import Array, Contrast, ResidualGraph, lengths, push, spread, start_value
from ..model import Target
from ..model.rounding import CONFIDENCE
from .noise import UNIT, across, disturbance, everybody_centers, written_noise
from .tolerance_of_contrasts import contrast_deviation, final_deviation

ROUNDING = "rounding of both sides, 10 standard deviations"
"""Where a tolerance comes from, as checks say it."""


def rounding_tolerance(graph: ResidualGraph, terms_listed: int, listed_size: float) -> float:
    """Return the largest difference at a logit that rounding explains.

    `terms_listed` terms were added one by one with the sum of their absolute values at most `listed_size`
    at any logit; both are 0 when the sum is a recurrence. Costs about one forward pass.
    """
    deviation = float(np.max(_at_logits(graph), initial=0.0))
    return _allowed(deviation, terms_listed, listed_size)


def target_tolerance(graph: ResidualGraph, target: Target, values: ArrayLike = ()) -> float:
    """Return how far a sum of `values` and the run's own value of a target may drift apart by rounding.

    The rule of every balance toward a target: the noise of the final stream, carried to the target, and the rounding of
    adding up the values. Costs about one forward pass.
    """
    sizes = np.abs(np.asarray(values, dtype=np.float64).reshape(-1))
    noise = _at_logits(graph) if target.at == graph.at else _at_end(graph)
    deviation = float(noise[target.position]) * float(lengths(target.direction))
    return _allowed(deviation, len(sizes), float(sizes.sum()))


def _at_end(graph: ResidualGraph) -> Array:
    """The deviation of the noise of the final stream, (n,)."""
    if isinstance(graph, Contrast) and not graph.changed:
        return final_deviation(graph)
    return stream_noise(graph)[-1]


def stream_tolerance(noise: Array, sizes: Array) -> float:
    """Return how far a stream and a sum of entries may drift apart, by the noise per position and depth (n,).

    sizes (entries, n, d): absolute values of what is added.
    """
    return _allowed(float(np.max(noise, initial=0.0)), len(sizes), float(sizes.sum(axis=0).max(initial=0.0)))


def stream_noise(graph: ResidualGraph) -> list[Array]:
    """Return the deviation of the stream's rounding noise in front of every block, and at the sink, (n,) each."""
    return [noise for _, noise in _depths(graph)]


def _allowed(deviation: float, listed: int, size: float) -> float:
    """The difference of two sums that rounding explains, of a deviation each; one of numbers that were listed."""
    return CONFIDENCE * float(np.sqrt(2.0) * np.hypot(deviation, np.sqrt(listed) * UNIT * size))


def _depths(graph: ResidualGraph) -> Iterator[tuple[Array, Array]]:
    """Yield the stream (n, d) and the deviation of its noise per position (n,), in front of every block and the sink."""
    x = np.zeros(graph.sizes[:2])
    noise, centered = np.zeros(len(x)), everybody_centers(graph)
    for depth, block in enumerate(chain(graph.kernels, (None,))):
        for source in graph.sources:
            if source.depth == depth:
                x += source.value()
                noise = np.hypot(noise, written_noise(graph, source))
        noise = np.hypot(noise, disturbance(graph, lengths(x)))
        yield x, noise
        if block is None:
            break
        outputs = block.each(x[None], np.arange(len(graph.blocks[depth].components)))
        x = block.through_skip(x[None])[0] + outputs.sum(axis=(0, 1)) + _injected(graph, depth)
        noise = np.hypot(
            across(block, noise, centered), lengths(disturbance(graph, lengths(outputs[:, 0])).T)
        )


def _injected(graph: ResidualGraph, depth: int) -> Array:
    """What constants add at the outputs of the components of a block."""
    total = np.zeros(graph.sizes[:2])
    for source in graph.sources:
        for label, operator in source.into.items():
            if graph.places.get(label) == depth:
                total += start_value(source.start, operator)
    return total


def _at_logits(graph: ResidualGraph) -> Array:
    """The deviation of the noise at a logit per position, the sink's own reading included."""
    if isinstance(graph, Contrast) and not graph.changed:
        return np.full(graph.sizes[0], contrast_deviation(graph))
    *_, (x, noise) = _depths(graph)
    noise = spread(graph.sink.operator, np.hypot(noise, disturbance(graph, lengths(x))))
    out = push(graph.sink.operator, x)
    largest = np.maximum(out.max(axis=-1, initial=0.0), -out.min(axis=-1, initial=0.0))
    return np.asarray(np.hypot(noise, UNIT * largest))
