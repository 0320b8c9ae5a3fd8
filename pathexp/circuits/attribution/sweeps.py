"""Both sweeps over a contrast: forward, what every node writes; backward, a target pulled back through all paths."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...expansion.targets import on_stream
from ...graph import Array, Contrast, ResidualGraph, start_value
from ...model import Target


@dataclass(frozen=True, eq=False)
class Written:
    """What is written on the way: `streams` before every block and before the sink, `outputs` by component, (n, d) each."""

    streams: tuple[Array, ...]
    outputs: dict[str, Array]


def forward(graph: Contrast) -> Written:
    """Return what every component of a contrast writes, and the streams between blocks. One forward pass."""
    n, d, _ = graph.sizes
    x, streams = np.zeros((n, d)), []
    outputs: dict[str, Array] = {}
    for b in range(len(graph.kernels) + 1):
        x = sum((source.value() for source in graph.sources if source.depth == b), x)
        streams.append(x)
        if b < len(graph.kernels):
            given = outputs_of(graph, b, x)
            outputs |= zip((component.label for component in graph.blocks[b].components), given, strict=True)
            x = graph.kernels[b].through_skip(x[None])[0] + given.sum(axis=0)
    return Written(tuple(streams), outputs)


def outputs_of(graph: Contrast, b: int, x: Array) -> Array:
    """Return what the components of a block give, (components, n, d): of the stream and of what enters in them."""
    components = graph.blocks[b].components
    outputs: Array = graph.kernels[b].each(x[None], np.arange(len(components)))[:, 0]
    for at, component in enumerate(components):
        for source in graph.sources:
            if component.label in source.into:
                outputs[at] += start_value(source.start, source.into[component.label])
    return outputs


def pulled(graph: ResidualGraph, target: Target) -> list[Array]:
    """Return a target pulled back through all paths, before every block and the sink, (n, d) each. One backward pass."""
    fields = [on_stream(target, graph)[None]]
    for block in reversed(graph.kernels):
        every = np.arange(sum(len(stack.members) for stack in block.stacks) + len(block.single))
        backward = block.transposed
        fields.append(backward.through_skip(fields[-1]) + backward.sums(fields[-1], [every])[0])
    return [field[0] for field in reversed(fields)]


def over_skips(graph: ResidualGraph, target: Target) -> list[Array]:
    """Return a target pulled back over skip edges alone, before every block and the sink, (n, d) each."""
    fields = [on_stream(target, graph)]
    for block in reversed(graph.kernels):
        fields.append(block.transposed.through_skip(fields[-1][None])[0])
    return fields[::-1]
