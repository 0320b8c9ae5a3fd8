"""How far the paths of a contrast may drift from the difference of two runs' logits in floating point.

The sum of all paths takes from the runs what they recorded: their rounding, u √K ‖x‖ at every reading of either
run's stream, is carried to the logits through the secants, as `tolerance` carries it through frozen maps. It does
not shrink with the difference: two runs that nearly agree each bring all of their rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ..graph import Array, Contrast, Place, lengths, places, spread
from ..model import Trace
from ..model.points import FINAL, LOGITS, values_at
from .noise import UNIT, across, disturbance


def contrast_deviation(graph: Contrast) -> float:
    """Return the largest standard deviation of rounding noise at a logit of a contrast, or at what its sink gives.

    About one forward pass.
    """
    noise = spread(graph.sink.operator, final_deviation(graph))
    largest = _lengths(graph, lambda run: np.max(np.abs(values_at(run, graph.at)), axis=-1, keepdims=True))
    return float(np.max(np.hypot(noise, UNIT * largest), initial=0.0))


def final_deviation(graph: Contrast) -> Array:
    """Return the standard deviation of rounding noise of what a contrast's sink reads, (n,)."""
    noise = np.zeros(graph.sizes[0])
    for block, (before, outputs) in zip(graph.kernels, _sizes(graph), strict=False):
        noise = across(block, np.hypot(noise, disturbance(graph, before)))
        noise = np.hypot(noise, disturbance(graph, outputs))
    last = _last(graph)
    return np.asarray(np.hypot(noise, disturbance(graph, _lengths(graph, lambda run: run.residuals[last]))))


def _last(graph: Contrast) -> str:
    """The point that the sink reads: behind the last block of the contrast."""
    if graph.at == LOGITS:
        return FINAL
    behind = [place.after for place in places(graph.runs[0].config)][: len(graph.blocks)]
    return behind[-1] if behind else "embed"


def _sizes(graph: Contrast) -> Iterator[tuple[Array, Array]]:
    """Per block, how long the streams before it and what its components add are in both runs together, (n,) each."""
    for place in places(graph.runs[0].config):
        before = np.hypot(*(lengths(run.residuals[place.before]) for run in graph.runs))
        yield before, np.hypot(*(_added(run, place) for run in graph.runs))


def _lengths(graph: Contrast, read: Callable[[Trace], Array]) -> Array:
    return np.hypot(*(lengths(read(run)) for run in graph.runs))


def _added(run: Trace, place: Place) -> Array:
    """How long the outputs of a block's components are, as independent parts, where they reach the stream, (n,)."""
    return lengths(np.stack([_by_branch(run, place, branch) for branch in place.branches], axis=-1))


def _by_branch(run: Trace, place: Place, branch: str) -> Array:
    """Heads one by one, the MLP whole, as much longer or shorter as a norm or multiplier behind them makes them."""
    result = f"L{place.layer}.{branch}_result"
    before, after = result, f"L{place.layer}.{branch}_out"
    if run.config.norm_placement == "post":
        before, after = f"L{place.layer}.{branch}_sum", place.after
    size, behind = lengths(run.residuals[before]), lengths(run.residuals[after])
    share = np.divide(behind, size, out=np.zeros_like(size), where=size > 0)
    return share * (_heads(run, place.layer) if branch == "attn" else lengths(run.residuals[result]))


def _heads(run: Trace, layer: int) -> Array:
    """The lengths of what the heads of a layer give, as independent parts, (n,)."""
    given = run.z[layer] @ np.swapaxes(run.model.weights.W_O[layer], -1, -2)
    return lengths(lengths(given).T)
