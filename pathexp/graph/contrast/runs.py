"""Two runs side by side: what they have in common is their mean, what tells them apart is their difference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...model import Config, Trace
from ..named import table
from ..operators import Array, Factor


@dataclass(frozen=True, eq=False)
class Runs:
    """A run and the run it is contrasted with, of one length and shape.

    `share` is the w by which a product's mixed part is divided: Δ(ab) = (w a + (1 − w) a′) Δb + Δa ((1 − w) b + w b′),
    exact for any w; at ½ both factors stand at their midpoints.
    """

    here: Trace
    there: Trace
    share: float = 0.5

    @property
    def config(self) -> Config:
        """The configuration of both."""
        return self.here.config

    @property
    def positions(self) -> int:
        """How many tokens either run has."""
        return len(self.here)

    def both(self, read: Callable[[Trace], Array]) -> tuple[Array, Array]:
        """What is read of either run."""
        return read(self.here), read(self.there)

    def mean(self, read: Callable[[Trace], Array]) -> Array:
        """The mean of what is read of both runs, the same to the last bit when they change places."""
        return midpoint(*self.both(read))

    def factor(self, read: Callable[[Trace], Array]) -> Array:
        """What multiplies a difference of contents: patterns, scales, gates, queries."""
        return self.between(*self.both(read))

    def content(self, read: Callable[[Trace], Array]) -> Array:
        """What differences of such factors multiply: values, streams, keys."""
        return self.between(*self.both(read)[::-1])

    def between(self, here: Array, there: Array) -> Array:
        """The first of two arrays by the share, the second by the rest; the midpoint where they are even."""
        if self.share == 0.5 or here is there:
            return midpoint(here, there)
        return self.share * here + (1 - self.share) * there

    def residual(self, point: str) -> Array:
        """The mean stream at a point, (n, d)."""
        return self.mean(lambda run: run.residuals[point])

    def has(self, name: str) -> bool:
        """Whether the weights hold an optional array, in either run."""
        return any(getattr(run.model.weights, name) is not None for run in (self.here, self.there))

    def weight(self, name: str, *index: int) -> Array:
        """An array of the weights, or a part of it; of two models, the mean where they differ."""
        here, there = self.weights(name)
        if here is there or np.array_equal(here[index], there[index]):
            return np.asarray(here[index])
        return midpoint(here[index], there[index])

    def matrix(self, called: str, name: str, index: tuple[int, ...], target: str, source: str) -> Factor:
        """The same matrix as a factor, whose numbers are made when they are used; `called` is its name."""
        rows, columns = getattr(self.here.model.weights, name).shape[len(index) :]
        return Factor(called, rows, columns, lambda: table(self.weight(name, *index), target, source, called))

    def change(self, name: str, *index: int) -> Array:
        """What an array of the weights, or a part of it, differs by; 0 where neither model has it."""
        if not self.has(name):
            return np.zeros(1)
        here, there = self.weights(name)
        return np.asarray(here[index] - there[index])

    def weights(self, name: str) -> tuple[Array, Array]:
        """An array of both models' weights; where one has none, a gain is one and a bias zero."""
        here, there = self.both(lambda run: getattr(run.model.weights, name))
        default = np.ones_like if name.startswith("g_") else np.zeros_like
        return (default(there) if here is None else here), (default(here) if there is None else there)

    @property
    def one_model(self) -> bool:
        """Whether both runs are of the same weights."""
        ours, theirs = (run.model.weights for run in (self.here, self.there))
        names = {**ours.arrays(), **theirs.arrays()}
        return ours is theirs or all(getattr(ours, name) is getattr(theirs, name) for name in names)


def midpoint(a: Array, b: Array) -> Array:
    """Return (a + b) / 2; the array itself where both are one."""
    return a if a is b else (a + b) / 2


def stream_before(layer: int) -> str:
    """The name of the stream that a layer reads."""
    return f"L{layer - 1}.out" if layer else "embed"


def read_point(config: Config, name: str, layer: int | None) -> str:
    """The name of the stream that a norm reads, by the norm's name and layer."""
    if layer is None:
        ends = {"embed": "embed_in", "final": "transform_out" if config.transform else "final_in"}
        return {**ends, "before_transform": "final_in"}[name]
    branch, _, after = name.partition("_")
    if after:
        return f"L{layer}.{branch}_{'sum' if config.norm_placement == 'post' else 'result'}"
    return f"L{layer}.mid" if name == "mlp" and not config.parallel else stream_before(layer)


def visible_in_both(a: Array, b: Array) -> np.ndarray:
    """Where a key is visible in both runs, of scores with -inf where it is not."""
    return np.asarray(np.isfinite(a) & np.isfinite(b))
