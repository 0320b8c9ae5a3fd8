"""A target as the engine reads it: one covector field on the final stream."""

from __future__ import annotations

import numpy as np

from ..errors import TargetError
from ..graph import Array, ResidualGraph, pull
from ..graph.along_positions import stays
from ..graph.operators import act_at
from ..model import Target
from ..model.points import FINAL, LOGITS, values_at


def on_stream(target: Target, graph: ResidualGraph) -> Array:
    """Return the covector field (position, d_model) that reads the target off the final stream."""
    if not isinstance(target, Target):
        raise TargetError(
            f"{target!r:.60} is no target; a target comes from a run: trace.logit(token), "
            "trace.logit_difference(a, b), trace.direction(vector)"
        )
    n, d, d_out = graph.sizes
    if graph.before_cap and target.at == LOGITS:
        raise TargetError(
            f"target {target.label!r} is of capped logits, but this graph was frozen with cap='before' and adds "
            "up to the logits before the cap; freeze with cap='ratio', or take a direction at 'final'"
        )
    _check_point(target, graph)
    width = d_out if reads_output(target, graph) else d
    if target.direction.shape != (width,) or not target.position < n:
        raise TargetError(
            f"target {target.label!r} has {target.direction.shape[0]} numbers at position {target.position}, "
            f"but this graph has {n} positions of {width} {target.space} each; "
            "make the target from the same trace"
        )
    _check_run(target, graph)
    if not reads_output(target, graph):
        return _field(target, target.direction, n)
    if stays(graph.sink.operator):
        here = np.array([target.position])
        return _field(target, act_at(graph.sink.operator, here, target.direction[None], backward=True)[0], n)
    return pull(graph.sink.operator, _field(target, target.direction, n))


def _field(target: Target, direction: Array, positions: int) -> Array:
    """A direction at the target's position, zero at all others."""
    field = np.zeros((positions, len(direction)))
    field[target.position] = direction
    return field


def reads_output(target: Target, graph: ResidualGraph) -> bool:
    """Return whether a target reads what the sink gives; else it reads the final stream before the sink."""
    return target.at == graph.at


def _check_point(target: Target, graph: ResidualGraph) -> None:
    """Refuse a target at a point where the paths of a graph do not end."""
    if reads_output(target, graph) or (target.at == FINAL and graph.at in (LOGITS, "final_out")):
        return
    end = "logits" if graph.at == LOGITS else graph.sink.label
    what = "graph" if len(graph.runs) > 1 else "trace"
    wanted = f"px.expand({what})" if target.at == LOGITS else f"px.expand({what}, at={target.at!r})"
    raise TargetError(
        f"target {target.label!r} reads {target.at}, but these paths end at {end}: its paths are those of {wanted}"
    )


def _check_run(target: Target, graph: ResidualGraph) -> None:
    """A target carries its value on the run it was made on; refuse it on runs where it has another."""
    if not graph.runs:
        return
    streams = [values_at(run, target.at)[target.position] for run in graph.runs]
    found = [float(stream @ target.direction) for stream in streams]
    size = max(float(np.abs(stream) @ np.abs(target.direction)) for stream in streams)
    found += [found[0] - found[1]] if len(found) == 2 else []
    if not any(abs(here - target.value) <= 1e-9 * max(size, 1e-300) for here in found):
        runs = "on this graph's run it is" if len(graph.runs) == 1 else "on this graph's two runs it is"
        values = " and ".join(f"{here:.6g}" for here in found[: len(graph.runs)])
        raise TargetError(
            f"target {target.label!r} has the value {target.value:.6g}, but {runs} {values}: "
            "it was made on another run; make it from this graph's own trace"
        )
