"""The graph of the paths that end at any point of a run: a stream, a head's query or key, or the logits."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import cast

from ..model import Trace
from ..model.points import is_router
from .freeze import freeze
from .graph import ResidualGraph
from .reading import Side, reading_graph
from .routers import router_graph

_HEAD = re.compile(r"(L\d+H\d+)\.([QK])")


def graph_to(trace: Trace, at: str = "", start: str = "") -> ResidualGraph:
    """Return the frozen graph of a run whose paths end at a point and begin at another.

    Raises GraphError if there is no such point or head.

    >>> import pathexp as px
    >>> graph = graph_to(px.load("attn-2l").run("To be"), "L1H3.Q")
    >>> graph.sink.label, graph.sizes
    ('L1H3.Q', (2, 128, 16))
    """
    if is_router(at):
        return router_graph(trace, at, freeze(trace, start=start))
    head = _HEAD.fullmatch(at)
    if head is None:
        return freeze(trace, at=at, start=start)
    whole = freeze(trace, start=start)
    graph = reading_graph(trace, head[1], cast(Side, head[2]), whole, at)
    return replace(graph, trace=whole.trace, at=at)
