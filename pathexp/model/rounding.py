"""What rounding may change of a run's logits, measured: the run again, with noise the size of its rounding.

A product W x is computed as (W + ΔW) x with |ΔW| about u √K |W|, u being the unit roundoff and K the length of its sums
(Higham & Mary 2019, "A New Approach to Probabilistic Rounding Error Analysis", section 3). So each matrix and bias of
a block is disturbed by u √K of each number, and every point of the stream by u √K of its length, in all directions alike:
that covers maps that a rewrite made of others, whose rounding goes with the lengths of their rows. What such a run gives beside
the plain one is what rounding can do, however ill-conditioned the model is. Noise has its true size, as softmax and norms
may not be linear over a larger one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import cast

import numpy as np
import numpy.typing as npt

from ..budget import BUDGET
from ..workers import in_turn
from .config import Config
from .forward import UnrecordedRun, played
from .model import Model
from .positions import sinusoids
from .trace import Trace
from .weights import Weights

Array = npt.NDArray[np.float64]

UNIT = float(np.finfo(np.float64).eps) / 2
CONFIDENCE = 10.0
"""Standard deviations allowed: Gaussian noise passes this once in 10²² numbers."""
MEASURED = "rounding of both runs, measured; 10 standard deviations"
"""Where a tolerance comes from, as checks say it."""
DRAWS = 2
"""Disturbed runs of each model. Logits share their noise: one run of few logits could be small by chance."""
NOISES = 65_521
"""A prime: of how many numbers each array has noises of their own. To draw 10⁸ of them takes longer than the run."""
_EMBEDDED = ("embed", "embed_in")


def run_tolerance(*runs: Trace) -> float:
    """Return the largest difference of logits, before any cap, that rounding explains between runs.

    10 √2 deviations of the run that is moved most. Costs two runs each, side by side, and one layer of weights of memory in each.

    >>> import pathexp as px
    >>> 1e-15 < run_tolerance(px.random_model().run([1, 2, 3])) < 1e-12
    True
    """
    return CONFIDENCE * float(np.sqrt(2.0)) * max(map(_deviation, runs))


def _deviation(run: Trace) -> float:
    """How far disturbed runs of these tokens are off; of an unedited run the same whenever it is asked for."""

    def measure() -> float:
        moved = partial(_moved, run.model, run.tokens, run.logits_before_cap)
        return max(largest for _, largest in in_turn(moved, range(DRAWS)))

    return measure() if run.edited else BUDGET.get(run.model, ("deviation", run.tokens.tobytes()), measure)


def _moved(model: Model, tokens: npt.NDArray[np.int64], plain: Array, seed: int) -> float:
    """The largest change of a logit in one disturbed run, its own last rounding included."""
    c, rng = model.config, np.random.default_rng(seed)
    noise = UNIT * float(
        np.sqrt(max(c.d_model, c.d_mlp, _width(c), _rank(c), c.n_heads * c.d_value, len(tokens)))
    )
    disturbed = cast("Weights", _Disturbed(model.weights, partial(_scaled, rng, noise)))
    embedded = _sizes(model, tokens)
    run = _Noisy(model.config, disturbed, partial(_shifted, rng, noise), embedded)
    biases = 0.0 if model.weights.b_U is None else c.logit_multiplier * model.weights.b_U
    rounded = UNIT * float(max(np.abs(plain).max(initial=0.0), np.abs(biases).max(initial=0.0)))
    return max(float(np.abs(played(run, tokens) - plain).max(initial=0.0)), rounded)


class _Noisy(UnrecordedRun):
    """A run whose stream is disturbed at every point."""

    def __init__(
        self, config: Config, weights: Weights, shifted: Callable[[Array, Array], Array], embedded: Array
    ) -> None:
        super().__init__(config, weights)
        self._shifted, self._embedded = shifted, embedded

    def keep(self, point: str, stream: Array) -> Array:
        sizes = np.linalg.norm(stream, axis=-1)
        if point in _EMBEDDED:
            sizes = np.maximum(sizes, self._embedded)
        return super().keep(point, self._shifted(stream, sizes))


class _Disturbed:
    """Weights whose layers are disturbed as they are read."""

    def __init__(self, weights: Weights, scaled: Callable[[Array], Array]) -> None:
        self._weights, self._scaled = weights, scaled

    def __getattr__(self, name: str) -> object:
        array = getattr(self._weights, name)
        return _Layers(array, self._scaled) if name in _LAYERED and array is not None else array


class _Layers:
    def __init__(self, array: Array, scaled: Callable[[Array], Array]) -> None:
        self._array, self._scaled = array, scaled

    @property
    def shape(self) -> tuple[int, ...]:
        return self._array.shape

    def __getitem__(self, place: int | tuple[int, ...]) -> Array:
        return self._scaled(self._array[place])


_LAYERED = frozenset(
    ("W_Q", "W_K", "W_V", "W_O", "W_in", "W_gate", "W_out", "b_Q", "b_K", "b_V", "b_O", "b_in", "b_gate", "b_out")
)  # fmt: skip
_LAYERED |= {"W_DQ", "W_UQ", "W_DKV", "W_KR", "W_UK", "W_UV", "b_DQ", "b_DKV", "b_KR"}
_LAYERED |= {"sinks", "W_router", "b_router", "W_shared_gate", "b_shared_gate"}
_LAYERED |= {
    f"{kind}_{side}_{of}" for kind in "Wb" for side in ("in", "gate", "out") for of in ("experts", "shared")
}


def _width(c: Config) -> int:
    """The neurons of the widest expert."""
    return 0 if c.experts is None else max(c.experts.width, c.experts.shared)


def _rank(c: Config) -> int:
    """The numbers of the widest latent."""
    return 0 if c.latent is None else max(c.latent.rank, c.latent.query_rank or 0)


def _scaled(rng: np.random.Generator, noise: float, array: Array) -> Array:
    """An array with noise in every number; in a large one the same noises come again, with a period that no row has."""
    if array.size <= NOISES:
        return np.asarray(array * (1 + noise * rng.standard_normal(array.shape)))
    factors = 1 + noise * rng.standard_normal(NOISES)
    flat, scaled = array.reshape(-1), np.empty(array.size)
    whole = array.size - array.size % NOISES
    np.multiply(flat[:whole].reshape(-1, NOISES), factors, out=scaled[:whole].reshape(-1, NOISES))
    np.multiply(flat[whole:], factors[: array.size - whole], out=scaled[whole:])
    return scaled.reshape(array.shape)


def _shifted(rng: np.random.Generator, noise: float, stream: Array, sizes: Array) -> Array:
    return np.asarray(stream + noise * sizes[:, None] * rng.standard_normal(stream.shape))


def _sizes(model: Model, tokens: npt.NDArray[np.int64]) -> Array:
    """The lengths of what the embedding adds up, (n): tokens and positions may nearly cancel."""
    c, n = model.config, len(tokens)
    parts = [c.embedding_multiplier * model.weights.W_E[:, tokens].T]
    if c.positions == "learned" and model.weights.W_pos is not None:
        parts.append(model.weights.W_pos[:, :n].T)
    if c.positions == "sinusoidal":
        parts.append(sinusoids(n, c.d_model))
    return np.asarray(sum(np.linalg.norm(part, axis=-1) for part in parts))
