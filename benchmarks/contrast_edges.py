"""Every edge of a contrast at once: outputs of all components in one forward sweep, what reads them in one backward sweep.

For blocks with the norm before them, where the skip is the identity: what a component adds along its edge into another
one is its output times that one's pulled-back target, whatever stands between.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import pathexp as px
from pathexp.expansion.targets import on_stream

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Measured:
    """One contrast: what every component writes straight to the target, over all paths, and along every edge."""

    here: px.Trace
    there: px.Trace
    target: px.Target
    labels: tuple[str, ...]
    direct: Array
    total: Array
    edges: Array  # (readers, writers)
    whole: float
    sums_to: float


def measure(here: px.Trace, there: px.Trace, target: px.Target) -> Measured:
    """Contrast two runs: a forward sweep gives all outputs, a backward sweep all that reads them."""
    graph = px.contrast(here, there)
    first = int(np.flatnonzero(here.tokens != there.tokens)[0])
    source = sum(s.value() for s in graph.sources)
    outputs, end = forward(graph, source)
    behind, reads = backward(graph, on_stream(target, graph))
    written, read = (x[:, first:].reshape(len(x), -1) for x in (outputs, reads))
    block = np.repeat(np.arange(len(graph.blocks)), [len(b.components) for b in graph.blocks])
    edges = np.where(block[:, None] > block, read @ written.T, 0.0)
    direct, total = (np.sum(outputs * x, axis=(1, 2)) for x in (on_stream(target, graph), behind))
    labels = tuple(component.label for component in graph.components())
    change = float((here.logits[-1] - there.logits[-1]) @ target.direction)
    sums_to = float(np.sum(end * on_stream(target, graph)))
    return Measured(here, there, target, labels, direct, total, edges, change, sums_to)


def forward(graph: px.ResidualGraph, x: Array) -> tuple[Array, Array]:
    """What every component writes, (components, n, d), and the stream at the end."""
    outputs = []
    for block, of in zip(graph.kernels, graph.blocks, strict=True):
        outputs.append(block.each(x[None], np.arange(len(of.components)))[:, 0])
        x = x + outputs[-1].sum(axis=0)  # blocks with the norm before them: the skip is the identity
    return np.concatenate(outputs), x


def backward(graph: px.ResidualGraph, field: Array) -> tuple[Array, Array]:
    """The target pulled back over all paths, to every component's output and to its input, (components, n, d) each."""
    behind, reads = [], []
    for block, of in reversed(list(zip(graph.kernels, graph.blocks, strict=True))):
        behind.append(np.broadcast_to(field, (len(of.components), *field.shape)))
        reads.append(block.transposed.each(field[None], np.arange(len(of.components)))[:, 0])
        field = field + reads[-1].sum(axis=0)
    return np.concatenate(behind[::-1]), np.concatenate(reads[::-1])
