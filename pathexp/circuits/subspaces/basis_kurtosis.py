"""Kurtosis of activations over coordinates, beside that of the same activations randomly rotated.

Without a privileged basis vectors spread alike in every basis; where an activation acts on each coordinate, few
coordinates are large. Elhage et al. 2023, "Privileged Bases in the Transformer Residual Stream".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

import numpy as np

from ...arguments import AMOUNT, expect
from ...graph import Array
from ...model import Model
from ...model.streams import streams
from ..attribution.decompose import stream_points
from ..corpus.corpus import Corpus
from ..corpus.limits import Limits
from ..corpus.tally import Tally, Tokens

DIRECTIONS = 1024
"""The random directions along which it is measured how far the kurtosis in one random basis is from its mean."""
MARGIN = 4.0
"""A basis stands out if its kurtosis is this many standard deviations (over bases) from that of rotated ones."""
STRONG = 1.5
"""And strongly if it is so many times theirs: rectified Gaussians (noise behind a ReLU) have 2 times."""
FEW, FEW_SHARE = 3.0, 0.02
"""Unless no more coordinates than this (or this share of them, if that is more) carry the excess: outliers."""

Verdict: TypeAlias = Literal["none", "mild", "strong"]


@dataclass(frozen=True, eq=False)
class BasisKurtosis:
    """The spread of a space's vectors over its coordinates, beside a random basis.

    `kurtosis`: mean over positions of d Σx⁴ / (Σx²)², from 1 (all coordinates alike) to d (one holds all).
    `deviation`: the standard deviation of that of one random basis, whose mean is `baseline`.
    `by_coordinate` (d): the contribution of each coordinate to `excess`, exactly. All NaN where every vector was zero.
    """

    space: str
    kurtosis: float
    deviation: float
    by_coordinate: Array

    @property
    def width(self) -> int:
        """The number of coordinates, d."""
        return len(self.by_coordinate)

    @property
    def baseline(self) -> float:
        """The mean over all orthonormal bases: 3 d / (d + 2), whatever the vectors are."""
        return 3.0 * self.width / (self.width + 2)

    @property
    def excess(self) -> float:
        """Kurtosis beyond the baseline; below 0 where coordinates are more alike than in random bases."""
        return self.kurtosis - self.baseline

    @property
    def ratio(self) -> float:
        """Kurtosis over the baseline: vectors are concentrated into so many times fewer coordinates."""
        return self.kurtosis / self.baseline

    @property
    def z(self) -> float:
        """Standard deviations of the kurtosis above the baseline; NaN if bases cannot differ."""
        return self.excess / self.deviation if self.deviation > 1e-12 else float("nan")

    @property
    def carriers(self) -> float:
        """The number of coordinates that carry the excess: (Σe)² / Σe² of the positive parts; 1 for one outlier."""
        parts = np.clip(self.by_coordinate, 0.0, None)
        whole = float(np.sum(parts**2))
        return float(parts.sum() ** 2 / whole) if whole else 0.0

    def outliers(self, k: int = 3) -> tuple[tuple[int, float], ...]:
        """Return the coordinates that contribute most to the excess, and their contributions."""
        expect("outliers", k=(k, AMOUNT))
        order = np.argsort(-self.by_coordinate, kind="stable")[:k]
        return tuple((int(place), float(self.by_coordinate[place])) for place in order)

    @property
    def verdict(self) -> Verdict:
        """none: as any basis would be; strong: many coordinates, 1.5 times or more; mild: less, or a few outliers."""
        if not abs(self.z) > MARGIN:
            return "none"
        few = self.carriers <= max(FEW, FEW_SHARE * self.width)
        return "strong" if self.ratio >= STRONG and not few else "mild"


def kurtosis_tally(model: Model, corpus: Corpus, seed: int, limits: Limits) -> Tally:
    """Return the running sums of every depth of the stream, and of every MLP's neurons; see `privileged_basis`."""
    c = model.config
    directions = {width: random_directions(width, seed) for width in {c.d_model, c.d_mlp or c.d_model}}
    what = f"kurtosis along {DIRECTIONS} directions from seed {seed}"
    sums = corpus.accumulate(model, partial(_measured, model, directions), what, limits, together=True)
    sums.mean(next(iter(sums.sums), ""))
    return sums


def random_directions(width: int, seed: int) -> Array:
    """Return unit vectors in random directions, (1024, width)."""
    drawn = np.random.default_rng(seed).standard_normal((DIRECTIONS, width))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))


def kurtoses(sums: Tally) -> tuple[BasisKurtosis, ...]:
    """Return the kurtosis of every space that was measured."""
    spaces = [name.removesuffix("/own") for name in sums.sums if name.endswith("/own")]
    return tuple(_row(sums, space) for space in spaces)


def _measured(model: Model, directions: Mapping[int, Array], window: Tokens) -> Mapping[str, Array]:
    """Sums over positions whose vector is not zero: of each coordinate, along each direction, and their number."""
    found: dict[str, Array] = {}
    for name, x in _spaces(model, window).items():
        x = x[np.any(x != 0, axis=-1)]
        found[f"{name}/own"] = fourths(x).sum(axis=0)
        found[f"{name}/along"] = along(x, directions[x.shape[-1]]).sum(axis=0)
        found[f"{name}/positions"] = np.array(float(len(x)))
    return found


def _row(sums: Tally, space: str) -> BasisKurtosis:
    amount = float(sums.sums[f"{space}/positions"])
    own = sums.sums[f"{space}/own"]
    if not amount:
        return BasisKurtosis(space, float("nan"), float("nan"), np.full(len(own), np.nan))
    d, mean = len(own), own / amount
    deviation = deviation_of(sums.sums[f"{space}/along"] / amount, d)
    return BasisKurtosis(space, float(mean.sum()), deviation, mean - 3.0 / (d + 2))


def along(x: Array, directions: Array) -> Array:
    """Return the zonal harmonic of degree 4 of each vector, (n, d), about each direction, (m, d): (n, m).

    t⁴ − 6 t² / (d + 4) + 3 / ((d + 2)(d + 4)), t being the cosine. The kurtosis of a vector in an orthonormal basis is its
    mean over bases plus d times the sum of this over the basis: what is of degree 2 adds up to nothing over a basis.
    """
    unit, d = x / np.abs(x).max(axis=-1, keepdims=True), x.shape[-1]
    squared = (unit @ directions.T) ** 2 / np.sum(unit**2, axis=-1, keepdims=True)
    return np.asarray(squared * (squared - 6 / (d + 4)) + 3 / ((d + 2) * (d + 4)))


def deviation_of(means: Array, d: int) -> float:
    """Return the standard deviation over all bases of the mean kurtosis, of means of `along` in random directions, (m).

    With q(r) the mean along r, one basis is off by d Σ q(rᵢ). Directions of a basis are orthogonal, and the mean of a harmonic
    of degree 4 over all directions orthogonal to r is q(r) · 3 / (d² − 1) (Funk and Hecke), so that the variance is
    d² · d (1 + 3 / (d + 1)) times the mean of q². Each direction is a sample of its own, where a
    whole basis is one: of 1,024 the deviation is off by 2 % where many vectors differ, and, where all are the same one, by 28 %, as that
    of 6 whole bases is.
    """
    return d * float(np.sqrt(d * (d + 4) / (d + 1) * np.mean(means**2)))


def _spaces(model: Model, window: Tokens) -> Mapping[str, Array]:
    found = streams(model, window)
    points = {point: found.residuals[point] for point in ("embed", *stream_points(model.config))}
    return points | {f"L{layer} neurons": hidden for layer, hidden in found.neurons.items()}


def fourths(x: Array) -> Array:
    """Return the contribution of each coordinate to the kurtosis of each vector about 0, d x⁴ / (Σx²)², (n, d).

    About 0, not about the mean over coordinates: rotations keep Σx² but no mean, so that the mean over all bases
    is known, 3 d / (d + 2).

    >>> fourths(np.array([[1.0, -1.0, 1.0, -1.0], [2.0, 0, 0, 0]])).sum(axis=-1)
    array([1., 4.])
    """
    unit = x / np.abs(x).max(axis=-1, keepdims=True)
    squared = unit * unit
    found: Array = x.shape[-1] * (squared / squared.sum(axis=-1, keepdims=True)) ** 2
    return found
