"""From a run, a head and two positions to the expansion of an attention score."""

from __future__ import annotations

import numpy as np

from ...arguments import TEXT, expect, instance, whole
from ...errors import TargetError
from ...graph import ResidualGraph, freeze
from ...graph.form import score_form
from ...graph.reading import Side, head_component, reading_graph
from ...model import Trace
from ...model.trace import check_trace
from ..expansion import Expansion
from .pair import Pair
from .score_expansion import ScoreExpansion


def expand_score(
    trace: Trace, head: str, query: int = -1, key: int = -1, graph: ResidualGraph | None = None
) -> ScoreExpansion:
    """Return the expansion of a head's score of one key for one query, before the softmax.

    Positions may count from the end. A soft-cap on scores is held fixed as the ratio it left. `graph` is the run's frozen graph unless another is given (with MLPs as
    sources, or changed by hand). Nothing is listed yet. Elhage et al. 2021, "Path Expansion of Attention
    Scores QK Circuit"; biases, frozen norms and positions of every kind are in it.

    Raises GraphError if there is no such head, TargetError if the run has no such position or the query
    cannot look at the key.

    >>> import pathexp as px
    >>> trace = px.random_model(layers=3, heads=4, biases=True, norm="layernorm").run([1, 2, 3, 4])
    >>> terms = px.expand_score(trace, "L2H1", query=3, key=1)
    >>> terms.count(), terms.verify().ok
    (11236, True)
    """
    own = (graph, instance(ResidualGraph, "a residual graph").or_none)
    expect("expand_score", head=(head, TEXT), graph=own)
    check_trace(trace, "expand_score")
    chosen = freeze(trace) if graph is None else graph
    component = head_component(chosen, head)
    assert component.head is not None
    i, j = _position(query, len(trace), "query"), _position(key, len(trace), "key")
    visible = ~np.isneginf(trace.scores[component.layer, component.head, i])
    if not visible[j]:
        raise TargetError(
            f"query {i} of {head} cannot look at key {j}: it is masked and has no score. "
            f"Keys it sees: {', '.join(map(str, np.flatnonzero(visible)))}."
        )
    queries, keys = (Expansion(reading_graph(trace, head, side, chosen)) for side in _SIDES)
    form = score_form(trace.config, component.head)
    raw = form.scale * (form.met(keys.logits(), i) @ queries.logits()[i])
    return ScoreExpansion(trace, Pair(head, i, j, form, visible, form.ratios(raw)), queries, keys)


_SIDES: tuple[Side, Side] = ("Q", "K")


def _position(position: int, n: int, what: str) -> int:
    if not whole().holds(position) or not -n <= position < n:
        raise TargetError(
            f"{what} {position!r} is not in this run of {n} tokens: give 0 to {n - 1}, or -{n} to -1."
        )
    return position.__index__() % n
