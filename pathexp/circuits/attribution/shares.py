"""What the difference of two runs is made of: by port, by head, by layer, by the tokens and the weights that differ. Exact partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from ...expansion import expand
from ...expansion.targets import reads_output
from ...graph import Array, Component, Contrast, Source, score_sides, start_value
from ...model import Target
from .sweeps import forward, over_skips, pulled
from .weight_rows import ROW_NAMES, weight_name

Rows = Iterator[tuple[str, float]]

PORTS = {
    "values alone": "S .* U & ~(S .* (K | Q) .* U)",
    "keys": "S .* K .* U & ~(S .* Q .* U)",
    "queries": "S .* Q .* U & ~(S .* K .* U)",
    "keys and queries": "S .* K .* U & S .* Q .* U",
}
"""Every path runs through values (and MLPs) alone, or also through keys, through queries, or through both."""

ROUTED = {
    **{name: f"{query} & ~(S .* router .* U)" for name, query in PORTS.items()},
    "routers": "S .* router .* U & ~(S .* (K | Q) .* U)",
    "routers and keys or queries": "S .* router .* U & S .* (K | Q) .* U",
}
"""The same where there are experts: paths through a router are told apart."""


def by_port(graph: Contrast, target: Target, k: int) -> Rows:
    """What all paths add that pass no key or query, some key, some query, or both, or a router. A backward pass for each."""
    terms, ports = expand(graph), {component.port for component in graph.components()}
    if not {"K", "router"} & ports:
        yield "values alone", terms.value(target)
        return
    for name, query in (ROUTED if "router" in ports else PORTS).items():
        yield name, terms.where(query.replace("U", graph.sink.label)).value(target)


def by_side(graph: Contrast, target: Target, k: int) -> Rows:
    """What reaches a head's score through its queries, and through its keys."""
    for name, half in score_sides(graph, target.at).items():
        yield name, expand(half).value(target)


def by_head(graph: Contrast, target: Target, k: int) -> Rows:
    """What each component writes that the sink reads: heads over all their ports, embedding, MLPs."""
    sums: dict[str, float] = {}
    for label, value in _writers(graph, target):
        node = graph.by_label[label]
        head = isinstance(node, Component) and node.head is not None
        name = label.rpartition(".")[0] if head else "MLPs" if isinstance(node, Component) else _kind(node)
        sums[name] = sums.get(name, 0.0) + value
    yield from sums.items()


def by_layer(graph: Contrast, target: Target, k: int) -> Rows:
    """The same by branch of each layer."""
    sums: dict[str, float] = {}
    for label, value in _writers(graph, target):
        node = graph.by_label[label]
        branch = "attn" if isinstance(node, Component) and node.head is not None else "mlp"
        name = f"L{node.layer}.{branch}" if isinstance(node, Component) else _kind(node, "embed")
        sums[name] = sums.get(name, 0.0) + value
    yield from sums.items()


def _kind(node: object, tokens: str = "embedding") -> str:
    return OTHER_SOURCES.get(node.kind, tokens) if isinstance(node, Source) else tokens


def by_component(graph: Contrast, target: Target, k: int) -> Rows:
    """What each edge V, K, Q of each head and each MLP writes that the sink reads."""
    yield from _writers(graph, target)


def by_path(graph: Contrast, target: Target, k: int) -> Rows:
    """The largest paths, and what all others add."""
    ranking = expand(graph).top(k, target)
    for term, value in zip(ranking.terms, ranking.values, strict=True):
        yield str(term.path), float(value)
    yield "remainder", float(ranking.remainder)


def by_token(graph: Contrast, target: Target, k: int) -> Rows:
    """What each position whose tokens differ adds by all paths, then weights, masks, choices of experts and edits. One backward pass."""
    fields = pulled(graph, target)
    tokens = [source for source in graph.sources if source.kind not in OTHER_SOURCES]
    entered = sum((source.value() for source in tokens), np.zeros(fields[0].shape))
    here, there = graph.runs
    for position in np.flatnonzero(here.tokens != there.tokens):
        name = f"{position}:{here.token_strings[position]}/{there.token_strings[position]}"
        yield name, float(np.sum(fields[0][position] * entered[position]))
    for kind, name in OTHER_SOURCES.items():
        if found := [source for source in graph.sources if source.kind == kind]:
            yield name, sum(_added(graph, target, fields, source) for source in found)


def by_source(graph: Contrast, target: Target, k: int) -> Rows:
    """What each source adds by all its paths: the tokens, and of two models every weight. One backward pass."""
    fields = pulled(graph, target)
    for source in graph.sources:
        yield source.label, _added(graph, target, fields, source)


OTHER_SOURCES = {"weight": "weights", "mask": "masks", "choice": "choices of experts", "edit": "edits"}
"""What sets out beside tokens, by the kind of source: rows of their own."""


def _added(graph: Contrast, target: Target, fields: list[Array], source: Source) -> float:
    """What a source adds wherever it enters: on the stream, in components that read it, in the sink."""
    total = 0.0 if source.depth is None else float(np.sum(fields[source.depth] * source.value()))
    for label, operator in source.into.items():
        if label == graph.sink.label:
            total += _straight(graph, target, source)
        else:
            entered = start_value(source.start, operator)
            total += float(np.sum(fields[graph.places[label] + 1] * entered))
    return total


def _straight(graph: Contrast, target: Target, source: Source) -> float:
    """What a source adds to a target past the stream."""
    if graph.sink.label not in source.into or not reads_output(target, graph):
        return 0.0
    return float(start_value(source.start, source.into[graph.sink.label])[target.position] @ target.direction)


def _writers(graph: Contrast, target: Target) -> Rows:
    """What everything on the final stream adds to a target, by who wrote it. One forward and one backward pass."""
    fields, written = over_skips(graph, target), forward(graph)
    for b, field in enumerate(fields):
        for source in graph.sources:
            if source.depth == b:
                yield source.label, float(np.sum(field * source.value()))
        for component in graph.blocks[b].components if b < len(graph.blocks) else ():
            yield component.label, float(np.sum(fields[b + 1] * written.outputs[component.label]))
    for source in graph.sources:
        if graph.sink.label in source.into:
            yield source.label, _straight(graph, target, source)


def by_weight(unit: str, graph: Contrast, target: Target, k: int) -> Rows:
    """What sources add by all their paths: weights by kind, layer, head or module; tokens, masks, choices and edits whole."""
    sums: dict[str, float] = {}
    for label, value in by_source(graph, target, k):
        node = graph.by_label[label]
        weight = isinstance(node, Source) and node.kind == "weight"
        row = ROW_NAMES[unit](weight_name(label)) if weight else _kind(node, "tokens")
        sums[row] = sums.get(row, 0.0) + value
    yield from sums.items()


ROWS: dict[str, Callable[[Contrast, Target, int], Rows]] = {
    "port": by_port, "head": by_head, "layer": by_layer, "component": by_component, "path": by_path,
    "token": by_token, "source": by_source, **{unit: partial(by_weight, unit) for unit in ROW_NAMES},
}  # fmt: skip
