"""Does a space have a privileged basis? Kurtosis of its activations, beside that of the same activations turned.

Where coordinates mean nothing of their own a vector looks alike in every basis; where an activation acts on each,
few coordinates are large. Elhage et al. 2023, "Privileged Bases in the Transformer Residual Stream".
`px.circuits.basis_privilege` asks the weights the same question; this one asks data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..graph import Array
from ..model import Model, Trace
from ..model.rewrite.basis import orthogonal
from .corpus import Corpus, Tokens, windows
from .decompose import stream_points
from .running import Tally, tally

TURNS = 8
MARGIN = 4.0
"""A basis is privileged if its kurtosis is this many standard deviations (over turns) above turned ones."""
LEAST = 0.5
"""And above them by at least so much: a Gaussian has 3."""


@dataclass(frozen=True)
class BasisKurtosis:
    """The mean kurtosis of a space's vectors over their coordinates, and of the same vectors turned at random."""

    space: str
    kurtosis: float
    turned: float
    deviation: float

    @property
    def privileged(self) -> bool:
        """Whether its own basis stands out from turned ones."""
        return self.kurtosis - self.turned > max(MARGIN * self.deviation, LEAST)


def basis_kurtosis(
    model: Model,
    corpus: Corpus,
    *,
    length: int | None = None,
    limit: int | None = 20,
    seed: int = 0,
    start: Tally | None = None,
) -> tuple[BasisKurtosis, ...]:
    """Measure every depth of the stream, and the neurons of every MLP, in their own basis and in eight turned ones.

    Costs 8 · n · width² per space and window. Raises PathexpError for a corpus without one whole window.

    >>> import pathexp as px
    >>> model = px.random_model(layers=1, d_model=32, d_mlp=64, activation="relu", n_ctx=9)
    >>> texts = [[1, 2, 3, 4, 5, 6, 7, 8, 9], [3, 1, 4, 1, 5, 9, 2, 6, 5]]
    >>> [(found.space, found.privileged) for found in basis_kurtosis(model, texts)]
    [('embed', False), ('L0.mid', False), ('L0.out', False), ('L0 neurons', True)]
    """
    c = model.config
    turns = {
        width: np.stack([orthogonal(width, seed + k) for k in range(TURNS)])
        for width in {c.d_model, c.d_mlp or c.d_model}
    }

    def measured(window: Tokens) -> Mapping[str, Array]:
        return {name: _kurtoses(x, turns[x.shape[-1]]) for name, x in _spaces(model.run(window)).items()}

    question = f"kurtosis in {model!r}, seed {seed}"
    sums = tally(windows(model, corpus, length), measured, question, start=start, limit=limit)
    sums.mean(next(iter(sums.sums), ""))
    rows = {name: sums.mean(name) for name in sums.sums}
    return tuple(
        BasisKurtosis(name, float(row[0]), float(row[1:].mean()), float(row[1:].std(ddof=1)))
        for name, row in rows.items()
    )


def _spaces(trace: Trace) -> Mapping[str, Array]:
    streams = {point: trace.residuals[point] for point in ("embed", *stream_points(trace.config))}
    neurons = trace.mlp_hidden if trace.config.d_mlp else ()
    return streams | {f"L{layer} neurons": hidden for layer, hidden in enumerate(neurons)}


def _kurtoses(x: Array, turns: Array) -> Array:
    """The mean kurtosis over positions, as it is and by every turn, (1 + turns)."""
    return np.array([kurtosis(x).mean(), *(kurtosis(x @ R.T).mean() for R in turns)])


def kurtosis(x: Array) -> Array:
    """The fourth central moment over the squared second, along the last axis; 3 for a Gaussian.

    >>> kurtosis(np.array([1.0, -1.0, 1.0, -1.0])), kurtosis(np.array([1.0, 0, 0, 0, 0, 0, 0, 0])).round(3)
    (np.float64(1.0), np.float64(6.143))
    """
    centered = x - x.mean(axis=-1, keepdims=True)
    second = np.mean(centered**2, axis=-1)
    found: Array = np.mean(centered**4, axis=-1) / np.where(second > 0, second, 1.0) ** 2
    return found
