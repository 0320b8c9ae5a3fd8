"""The paths of a run as a tree: from the run or graph that is given to `Expansion.tree`."""

from __future__ import annotations

from ..graph import Contrast, Query, ResidualGraph, everything
from ..model import Target, Trace
from ..model.points import FINAL, LOGITS
from .expansion import expand
from .mlp_paths import MlpPaths, frozen_as
from .tree import Direction, Progress, Tree


def tree(
    what: Trace | ResidualGraph,
    target: Target,
    query: str | Query = everything,
    *,
    nodes: int | None = None,
    seconds: float | None = None,
    share: float | None = None,
    direction: Direction = "back",
    positions: bool = False,
    mlp: MlpPaths = "gate",
    progress: Progress | bool = False,
) -> Tree:
    """Return the paths of a run or of a residual graph as a tree of exact sums toward a target.

    The same as `expand(what, query).tree(target, …)`: see `Expansion.tree`. The paths of a run, or of a contrast,
    end where the target reads. With `mlp` "source" paths start at MLPs, with "neurons" they pass through single neurons,
    L0N17, instead of whole MLPs.

    >>> import pathexp as px
    >>> trace = px.load("attn-2l").run("To be, or not to be")
    >>> tree = px.tree(trace, trace.logit(trace.top_token()), nodes=5)
    >>> tree.nodes, tree.root.count
    (5, 81)
    """
    runs = isinstance(what, Trace | Contrast) and isinstance(target, Target)
    inner = runs and target.at not in (LOGITS, FINAL)
    at = target.at if inner else ""
    graph = frozen_as(what, mlp, at)
    terms = expand(graph, query, at=at if graph is what else "")
    return terms.tree(
        target,
        nodes=nodes,
        seconds=seconds,
        share=share,
        direction=direction,
        positions=positions,
        progress=progress,
    )
