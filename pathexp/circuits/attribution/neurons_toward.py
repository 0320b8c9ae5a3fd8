"""What single neurons add straight to a target, over the skips behind their layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...expansion.targets import on_stream
from ...graph import Array, Source, freeze, pull
from ...labels import mlp_label, neuron_label
from ...model import Target, Trace


@dataclass(frozen=True, eq=False)
class NeuronValues:
    """What each neuron adds: by layer with a dense MLP, (d_mlp,)."""

    by_layer: dict[int, Array]

    @property
    def total(self) -> float:
        """What all of them add."""
        return float(sum(values.sum() for values in self.by_layer.values()))

    def largest(self, k: int) -> list[tuple[str, float]]:
        """Return the k neurons that add or take most, by label, layer by layer."""
        rows = [
            (neuron_label(layer, int(neuron)), float(values[neuron]))
            for layer, values in self.by_layer.items()
            for neuron in np.argsort(-np.abs(values), kind="stable")[:k]
        ]
        return sorted(rows, key=lambda row: -abs(row[1]))[:k]


def neurons_toward(trace: Trace, target: Target) -> NeuronValues:
    """Return what every neuron of a dense MLP adds to a target: its activation times W_out's column, over the skips.

    What a norm or a multiplier behind the MLP makes of it is part of that, with the scale it had in the run; the biases of
    W_out are no neuron's. One backward pass over the skips and a product with each W_out: O(L n d_model d_mlp).

    >>> import pathexp as px
    >>> trace = px.random_model(layers=2, heads=2, d_model=8, d_head=4, d_mlp=12, d_vocab=20).run([3, 1, 4])
    >>> found = neurons_toward(trace, trace.logit(5))
    >>> found.by_layer[1].shape, len(found.largest(3))
    ((12,), 3)
    """
    graph = freeze(trace, mlp="source")
    field = on_stream(target, graph)
    outputs = {
        layer: node
        for layer in range(trace.config.n_layers)
        if isinstance(node := graph.by_label.get(mlp_label(layer)), Source)
    }
    entering = {source.depth: layer for layer, source in outputs.items()}
    found: dict[int, Array] = {}
    hidden = trace.mlp_hidden
    for depth in range(len(graph.blocks), -1, -1):
        if (layer := entering.get(depth)) is not None:
            written = outputs[layer].write
            found[layer] = np.sum(pull(written, field) * hidden[layer], axis=0)
        if depth:
            field = pull(graph.blocks[depth - 1].skip, field)
    return NeuronValues(found)
