"""From a run, a head and two positions to an attention score as an exact sum over pairs of paths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...arguments import AMOUNT, TEXT, expect, instance, whole
from ...errors import PathexpError, TargetError
from ...graph import Component, Query, ResidualGraph, freeze
from ...graph.form import score_form
from ...graph.reading import Side, head_component, reading_graph
from ...model import Trace
from ...model.trace import check_trace
from ..expansion import Expansion
from .pair import Pair
from .score_expansion import ScoreExpansion


def score(
    trace: Trace,
    head: str,
    *,
    query: int = -1,
    key: int | None = None,
    kind: str | Iterable[str] | None = None,
    query_paths: str | Query | None = None,
    key_paths: str | Query | None = None,
    k: int = 12,
    nodes: int | None = None,
    graph: ResidualGraph | None = None,
) -> ScoreExpansion:
    """Return the expansion of a head's score of one key for one query, before the softmax.

    Parameters
    ----------
    query, key: positions, which may count from the end; by default the last query and the key it attends to most.
    kind, query_paths, key_paths: only some kinds of terms, or those whose paths match, as `ScoreExpansion.where`.
    k: how many of the largest terms are printed. nodes: also print each side as a tree of so many nodes.
    graph: the run's frozen graph unless another is given (with MLPs as sources, or changed by hand).

    A soft-cap on scores is frozen as the ratio it left. Nothing is listed until asked. Elhage et al. 2021, "Path
    Expansion of Attention Scores QK Circuit"; biases, frozen norms and positions of every kind are in it.

    Raises GraphError if there is no such head, TargetError if the run has no such position or the query
    cannot attend to the key, PathexpError for a tree of some kinds only.

    >>> import pathexp as px
    >>> trace = px.random_model(layers=3, heads=4, biases=True, norm="layernorm").run([1, 2, 3, 4])
    >>> terms = px.score(trace, "L2H1", query=3, key=1)
    >>> terms.count(), terms.verify().ok
    (11236, True)
    """
    own = (graph, instance(ResidualGraph, "a residual graph").or_none)
    expect("score", head=(head, TEXT), graph=own, k=(k, AMOUNT), nodes=(nodes, whole(1).or_none))
    check_trace(trace, "score")
    if nodes is not None and kind is not None:
        raise PathexpError(
            f"score(), nodes: trees hold pairs of every kind, got kind={kind!r}; leave out one of the two"
        )
    (terms,) = scores(trace, head, [(query, key)], graph=graph)
    return replace(terms, k=k, nodes=nodes).where(kind=kind, query=query_paths, key=key_paths)


def scores(
    trace: Trace, head: str, places: Sequence[tuple[int, int | None]], *, graph: ResidualGraph | None = None
) -> tuple[ScoreExpansion, ...]:
    """Return the expansions of several scores of one head, (query, key) each, that share their sums. As `score`.

    >>> import pathexp as px
    >>> trace = px.random_model(layers=2, heads=2).run([1, 2, 3])
    >>> first, second = scores(trace, "L1H0", [(2, 0), (2, 1)])
    >>> first.queries is second.queries
    True
    """
    chosen = freeze(trace) if graph is None else graph
    component = head_component(chosen, head)
    found = []
    for query, key in places:
        i = _position(query, len(trace), "query")
        pattern = trace.patterns[component.layer, component.head, i]
        j = int(pattern.argmax()) if key is None else _position(key, len(trace), "key")
        found.append((i, j, _visible(trace, component, i, j)))
    queries, keys = (Expansion(reading_graph(trace, head, side, chosen)) for side in _SIDES)
    form = score_form(trace.config, component.layer, component.head or 0, len(trace))
    all_queries, all_keys = queries.logits(), keys.logits()
    ratios = [form.ratios(form.scale * (form.met(all_keys, i) @ all_queries[i])) for i, *_ in found]
    sinks = trace.model.weights.sinks
    sink = None if sinks is None else float(sinks[component.layer][component.head or 0])
    return tuple(
        ScoreExpansion(trace, Pair(head, i, j, form, visible, ratio, sink), queries, keys)
        for (i, j, visible), ratio in zip(found, ratios, strict=True)
    )


def _visible(trace: Trace, component: Component, i: int, j: int) -> NDArray[np.bool_]:
    """Which keys a query can attend to."""
    visible = ~np.isneginf(trace.scores[component.layer, component.head, i])
    if not visible[j]:
        raise TargetError(
            f"query {i} of {component.label} cannot attend to key {j}: it is masked and has no score. "
            f"Keys it sees: {', '.join(map(str, np.flatnonzero(visible)))}."
        )
    return visible


_SIDES: tuple[Side, Side] = ("Q", "K")


def _position(position: int, n: int, what: str) -> int:
    if not whole().holds(position) or not -n <= position < n:
        raise TargetError(
            f"{what} {position!r} is not in this run of {n} tokens: give 0 to {n - 1}, or -{n} to -1."
        )
    return position.__index__() % n
