"""The streams of a run without its logits: they are a quarter of what a run of SmolLM2-135M computes, and averages over a corpus need none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from .forward import UnrecordedRun
from .model import Model, ids_of
from .range import check_finite

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Streams:
    """What a run without logits keeps: the streams by point, (n, d_model), and what the neurons of layers hold, (n, d_mlp)."""

    residuals: Mapping[str, Array]
    neurons: Mapping[int, Array]


def streams(model: Model, text: str | Sequence[int] | npt.NDArray[np.integer[Any]]) -> Streams:
    """Run a model on a text or token ids, (n), as far as the final stream.

    Each number is that of `Model.run`, to the bit. Raises TokenError as `Model.run` does, and WeightsError if a score or the
    final stream is not finite.

    >>> import pathexp as px
    >>> model = px.random_model(d_mlp=8)
    >>> found, trace = streams(model, [1, 2, 3]), model.run([1, 2, 3])
    >>> all((found.residuals[point] == x).all() for point, x in trace.residuals.items())
    True
    >>> bool((found.neurons[1] == trace.mlp_hidden[1]).all())
    True
    """
    tokens = ids_of(model, text)
    run = _Streams(model.config, model.weights)
    with np.errstate(
        over="ignore", invalid="ignore"
    ):  # what overflows reaches scores or the final stream, and raises
        stream = run.embed(tokens)
        for layer in range(model.config.n_layers):
            stream = run.block(stream, layer)
        check_finite(run.final(stream), "the final stream", "position, coordinate")
    return Streams(MappingProxyType(run.residuals), MappingProxyType(run.neurons))


class _Streams(UnrecordedRun):
    """A run of which streams and neurons alone are kept."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.neurons: dict[int, Array] = {}

    def record(self, layer: int, **parts: Array) -> None:
        """Keep what W_out reads; let go all else."""
        if "mlp_pre" in parts:
            self.neurons[layer] = parts["mlp_gates"] * parts["mlp_pre"]
