"""How paths treat MLPs, by one word: they pass through them, start at them, or pass through their single neurons."""

from __future__ import annotations

from typing import Literal, TypeAlias

from ..errors import PathexpError
from ..graph import MlpMode, ResidualGraph, freeze
from ..model import Trace

MlpPaths: TypeAlias = MlpMode | Literal["neurons"]


def frozen_as(what: Trace | ResidualGraph, mlp: MlpPaths, at: str = "") -> Trace | ResidualGraph:
    """Return a run frozen as paths are to treat MLPs; for "gate", the default, what was given.

    Raises PathexpError for a model without MLPs and neurons, and for a graph, which has been frozen already; FreezeError
    for another word.

    >>> import pathexp as px
    >>> trace = px.random_model(layers=1, heads=1, d_mlp=2).run([1, 2])
    >>> sorted(component.label for component in frozen_as(trace, "neurons").blocks[1].components)
    ['L0M', 'L0N0', 'L0N1']
    """
    if mlp == "gate":
        return what
    if not isinstance(what, Trace):
        raise PathexpError(
            f"mlp={mlp!r} is how a run is frozen, and {type(what).__name__} is frozen already: "
            "px.freeze(trace, mlp=…, neurons=…) makes such a graph"
        )
    if mlp != "neurons":
        return freeze(what, mlp=mlp, at=at)
    config = what.config
    dense = [layer for layer in range(config.n_layers) if config.has_dense(layer)]
    if not dense:
        why = (
            "every layer has experts in the place of an MLP" if config.has_mlps else "this model has no MLPs"
        )
        raise PathexpError(f"mlp='neurons': {why}, so there are no neurons to tell apart")
    return freeze(what, neurons={layer: range(config.d_mlp) for layer in dense}, at=at)
