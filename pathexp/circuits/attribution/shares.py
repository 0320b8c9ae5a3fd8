"""What the difference of two runs is made of: by port, by head, by layer, by the tokens that differ. Exact partitions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...expansion import expand
from ...expansion.targets import on_stream
from ...graph import Array, Component, Contrast
from ...model import Target

Rows = Iterator[tuple[str, float]]

PORTS = {
    "values alone": "S .* U & ~(S .* (K | Q) .* U)",
    "keys": "S .* K .* U & ~(S .* Q .* U)",
    "queries": "S .* Q .* U & ~(S .* K .* U)",
    "keys and queries": "S .* K .* U & S .* Q .* U",
}
"""Every path runs through values (and MLPs) alone, or also through keys, through queries, or through both."""


def by_port(graph: Contrast, target: Target, k: int) -> Rows:
    """What all paths add that pass no key or query, some key, some query, or both. A backward pass for each."""
    terms = expand(graph)
    if not graph.blocks or not any(component.port == "K" for component in graph.components()):
        yield "values alone", terms.value(target)
        return
    for name, query in PORTS.items():
        yield name, terms.where(query).value(target)


def by_head(graph: Contrast, target: Target, k: int) -> Rows:
    """What each component writes that the sink reads: heads over all their ports, embedding, MLPs."""
    sums: dict[str, float] = {}
    for label, value in _writers(graph, target):
        node = graph.by_label[label]
        head = isinstance(node, Component) and node.head is not None
        name = label.rpartition(".")[0] if head else "MLPs" if isinstance(node, Component) else "embedding"
        sums[name] = sums.get(name, 0.0) + value
    yield from sums.items()


def by_layer(graph: Contrast, target: Target, k: int) -> Rows:
    """The same by branch of each layer."""
    sums: dict[str, float] = {}
    for label, value in _writers(graph, target):
        node = graph.by_label[label]
        branch = "attn" if isinstance(node, Component) and node.head is not None else "mlp"
        name = f"L{node.layer}.{branch}" if isinstance(node, Component) else "embed"
        sums[name] = sums.get(name, 0.0) + value
    yield from sums.items()


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
    """What each position whose tokens differ adds by all paths. One backward pass."""
    field = on_stream(target, graph)[None]
    for block in reversed(graph.kernels):
        every = np.arange(sum(len(stack.members) for stack in block.stacks) + len(block.single))
        field = block.transposed.through_skip(field) + block.transposed.sums(field, [every])[0]
    entered = sum((source.value() for source in graph.sources if source.depth == 0), np.zeros(field[0].shape))
    here, there = graph.runs
    for position in np.flatnonzero(here.tokens != there.tokens):
        name = f"{position}:{here.token_strings[position]}/{there.token_strings[position]}"
        yield name, float(np.sum(field[0, position] * entered[position]))


def _writers(graph: Contrast, target: Target) -> Rows:
    """What everything on the final stream adds to a target, by who wrote it. One forward and one backward pass."""
    fields = [on_stream(target, graph)]  # over skips alone: from what is written to the sink
    for block in reversed(graph.kernels):
        fields.append(block.transposed.through_skip(fields[-1][None])[0])
    fields.reverse()
    x = np.zeros(fields[0].shape)
    for source in graph.sources:
        if source.depth == 0:
            x = x + source.value()
            yield source.label, float(np.sum(fields[0] * source.value()))
    for b, (block, of) in enumerate(zip(graph.kernels, graph.blocks, strict=True)):
        outputs: Array = block.each(x[None], np.arange(len(of.components)))[:, 0]
        for component, output in zip(of.components, outputs, strict=True):
            yield component.label, float(np.sum(fields[b + 1] * output))
        x = block.through_skip(x[None])[0] + outputs.sum(axis=0)


ROWS = {
    "port": by_port, "head": by_head, "layer": by_layer, "component": by_component, "path": by_path,
    "token": by_token,
}  # fmt: skip
