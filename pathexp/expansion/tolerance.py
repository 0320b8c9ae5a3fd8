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
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..graph import Array, Contrast, ResidualGraph, Walk, everything, lengths, spread
from ..graph.along_positions import stays
from ..graph.cache import WeakCache
from ..graph.kept_streams import keep_before, kept_before
from ..graph.operators import act_at
from ..model import Target
from ..model.rounding import CONFIDENCE
from .noise import UNIT, across, disturbance, everybody_centers, written_noise
from .targets import reads_output
from .tolerance_of_contrasts import contrast_deviation, final_deviation

ROUNDING = "rounding of both sides, 10 standard deviations"
"""Where a tolerance comes from, as checks say it."""


@dataclass(frozen=True)
class StreamNoise:
    """The deviation of the stream's rounding noise in front of every block and at the sink, (n,) each, and the final stream (n, d)."""

    depths: tuple[Array, ...]
    final: Array


NOISE: WeakCache[Walk, StreamNoise] = WeakCache()
"""The noise of walks over all paths that are alive: measured once for a flow and its check."""


def rounding_tolerance(graph: ResidualGraph, terms_listed: int, listed_size: float) -> float:
    """Return the largest difference at a logit that rounding explains.

    `terms_listed` terms were added one by one with the sum of their absolute values at most `listed_size`
    at any logit; both are 0 when the sum is a recurrence. Costs about one forward pass.
    """
    walk = Walk(graph, everything)
    return _allowed(_at_logits(walk, follow(walk), walk.logits()), terms_listed, listed_size)


def sum_and_tolerance(walk: Walk) -> tuple[Array, float]:
    """Return the sum of all paths of a graph by recurrence, (n, d_out), and its `rounding_tolerance`, in one pass over the blocks."""
    noise, total = follow(walk), walk.logits()
    return total, _allowed(_at_logits(walk, noise, total), 0, 0.0)


def follow(walk: Walk) -> StreamNoise | None:
    """Return the noise of the streams of a walk over all paths of a graph, whose `total` is then there; kept with the walk.

    Of a contrast there is none: its noise is that of its runs.
    """
    for _ in following(walk):
        pass
    return NOISE.find(walk, "noise")


def following(walk: Walk) -> Iterator[int]:
    """Do what `follow` does, and yield every depth at which it arrives, from 0 up: what a block is made of, others may use meanwhile.

    Of a contrast, and of a walk that was followed, there is nothing to do.
    """
    if _is_of_runs(walk.graph) or NOISE.find(walk, "noise") is not None:
        return
    each, final = [], np.zeros(walk.graph.sizes[:2])
    for depth, (x, noise) in enumerate(_depths(walk)):
        each.append(noise)
        final = x
        yield depth
    NOISE.get(walk, "noise", lambda: StreamNoise(tuple(each), final))


def _is_of_runs(graph: ResidualGraph) -> bool:
    return isinstance(graph, Contrast) and not graph.changed


def target_tolerance(graph: ResidualGraph, target: Target, values: ArrayLike = ()) -> float:
    """Return how far a sum of `values` and the run's own value of a target may drift apart by rounding.

    The rule of every balance toward a target: the noise of the final stream, carried to the target, and the rounding of
    adding up the values. Costs about one forward pass.
    """
    sizes = np.abs(np.asarray(values, dtype=np.float64).reshape(-1))
    noise = _at_position if reads_output(target, graph) else _at_end
    deviation = noise(graph, target.position) * float(lengths(target.direction))
    return _allowed(deviation, len(sizes), float(sizes.sum()))


def _at_end(graph: ResidualGraph, position: int) -> float:
    """The deviation of the noise of the final stream at a position."""
    if isinstance(graph, Contrast) and not graph.changed:
        return float(final_deviation(graph)[position])
    return float(stream_noise(graph)[-1][position])


def _at_position(graph: ResidualGraph, position: int) -> float:
    """The deviation of the noise at a logit of a position."""
    walk = Walk(graph, everything)
    noise = follow(walk)
    if isinstance(graph, Contrast) and noise is None:
        return contrast_deviation(graph)
    assert noise is not None, "graphs of one run are followed"
    if not stays(graph.sink.operator):
        return float(_at_sink(walk, noise, walk.logits())[position])
    here = np.array([position])
    out = act_at(graph.sink.operator, here, noise.final[here]) + walk.straight_sum[here]
    return float(np.hypot(_carried(graph, noise)[position], UNIT * np.abs(out).max(initial=0.0)))


def stream_tolerance(noise: Array, sizes: Array) -> float:
    """Return how far a stream and a sum of entries may drift apart, by the noise per position and depth (n,).

    sizes (entries, n, d): absolute values of what is added.
    """
    return _allowed(float(np.max(noise, initial=0.0)), len(sizes), float(sizes.sum(axis=0).max(initial=0.0)))


def stream_noise(graph: ResidualGraph) -> list[Array]:
    """Return the deviation of the stream's rounding noise in front of every block, and at the sink, (n,) each."""
    walk = Walk(graph, everything)
    found = follow(walk)
    return [noise for _, noise in _depths(walk)] if found is None else list(found.depths)


def _allowed(deviation: float, listed: int, size: float) -> float:
    """The difference of two sums that rounding explains, of a deviation each; one of numbers that were listed."""
    return CONFIDENCE * float(np.sqrt(2.0) * np.hypot(deviation, np.sqrt(listed) * UNIT * size))


def _depths(walk: Walk) -> Iterator[tuple[Array, Array]]:
    """Yield the stream (n, d) and the deviation of its noise per position (n,), in front of every block and the sink.

    Of a walk over all paths, whose streams these are.
    """
    graph = walk.graph
    noise, centered = np.zeros(graph.sizes[0]), everybody_centers(graph)
    before = np.zeros(graph.sizes[:2])
    for depth, x in enumerate(walk.followed()):
        known = kept_before(graph, depth, ("noise", centered)) if depth else None
        if known is None:
            noise = _noise(walk, depth, (before, x), noise, centered)
            if depth:
                keep_before(graph, depth, ("noise", centered), noise)
        else:
            noise = known
        yield x, noise
        before = x


def _noise(walk: Walk, depth: int, streams: tuple[Array, Array], noise: Array, centered: bool) -> Array:
    """The deviation in front of a block, of that in front of the one before, and of both streams."""
    graph, (before, x) = walk.graph, streams
    if depth:
        block, written = graph.kernels[depth - 1], _written(walk, depth - 1, before, x)
        noise = np.hypot(across(block, noise, centered), lengths(disturbance(graph, written).T))
    for source in graph.sources:
        if source.depth == depth:
            noise = np.hypot(noise, written_noise(graph, source))
    return np.asarray(np.hypot(noise, disturbance(graph, lengths(x))))


def _written(walk: Walk, b: int, before: Array, after: Array) -> Array:
    """How long what each component of a block writes is, (components, n), of the streams before and after it."""
    components, block = walk.graph.blocks[b].components, walk.graph.kernels[b]
    if len(components) != 1:
        return block.sizes(before[None], np.arange(len(components)))[:, 0]
    arrived = sum((value for _, _, value in walk.arrivals(b + 1)), block.through_skip(before[None])[0])
    return lengths(after - arrived)[None]


def _at_logits(walk: Walk, noise: StreamNoise | None, total: Array) -> float:
    """The largest deviation of the noise at a logit, of all positions; `total`: what all paths add up to."""
    if isinstance(walk.graph, Contrast) and noise is None:
        return contrast_deviation(walk.graph)
    assert noise is not None, "graphs of one run are followed"
    return float(np.max(_at_sink(walk, noise, total), initial=0.0))


def _at_sink(walk: Walk, noise: StreamNoise, total: Array) -> Array:
    """The deviation of the noise at a logit per position, (n,), the sink's own reading included."""
    largest = np.maximum(total.max(axis=-1, initial=0.0), -total.min(axis=-1, initial=0.0))
    return np.asarray(np.hypot(_carried(walk.graph, noise), UNIT * largest))


def _carried(graph: ResidualGraph, noise: StreamNoise) -> Array:
    """The noise of the final stream and of one more reading, carried to the sink, (n,)."""
    return spread(graph.sink.operator, np.hypot(noise.depths[-1], disturbance(graph, lengths(noise.final))))
