"""Does a space have a privileged basis? Kurtosis of its activations, beside that of the same activations turned.

Where coordinates mean nothing of their own a vector looks alike in every basis; where an activation acts on each,
few coordinates are large. Elhage et al. 2023, "Privileged Bases in the Transformer Residual Stream".
`basis_privilege` asks the weights whether a turn would be noticed; this asks data whether the basis is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

import numpy as np

from ..arguments import AMOUNT, SEED, expect
from ..errors import PathexpError
from ..graph import Array
from ..model import Model, Trace
from ..model.model import check_model
from ..model.rewrite.basis import orthogonal
from .attribution.decompose import stream_points
from .corpus import Corpus, Tokens, windows
from .running import Tally, asked, tally

TURNS = 16
"""How many random turns say how far the kurtosis of a turned space lies from its mean."""
MARGIN = 4.0
"""A basis stands out if its kurtosis is this many standard deviations (over turns) from that of turned ones."""
STRONG = 1.5
"""And strongly if it is so many times theirs: rectified Gaussians, all that a ReLU makes of noise, have 2 times."""
FEW, FEW_SHARE = 3.0, 0.02
"""Unless no more coordinates than this (or this share of them, if that is more) carry the excess: outliers."""

Verdict: TypeAlias = Literal["none", "mild", "strong"]


@dataclass(frozen=True, eq=False)
class BasisKurtosis:
    """How a space's vectors spread over its coordinates, beside a random basis.

    `kurtosis`: mean over positions of d Σx⁴ / (Σx²)², from 1 (all coordinates alike) to d (one holds all).
    `deviation`: how far that of one random basis lies from its mean `turned`, as a standard deviation.
    `by_coordinate` (d): what each coordinate adds to `excess`, exactly. All NaN where every vector was zero.
    """

    space: str
    kurtosis: float
    deviation: float
    by_coordinate: Array

    @property
    def width(self) -> int:
        """How many coordinates there are, d."""
        return len(self.by_coordinate)

    @property
    def turned(self) -> float:
        """The mean over all orthonormal bases: 3 d / (d + 2), whatever the vectors are."""
        return 3.0 * self.width / (self.width + 2)

    @property
    def excess(self) -> float:
        """Kurtosis beyond that of turned bases; below 0 where coordinates are more alike than by chance."""
        return self.kurtosis - self.turned

    @property
    def ratio(self) -> float:
        """Kurtosis over that of turned bases: into so many times fewer coordinates are vectors concentrated."""
        return self.kurtosis / self.turned

    @property
    def z(self) -> float:
        """By how many standard deviations the basis stands out from turned ones; NaN if they cannot differ."""
        return self.excess / self.deviation if self.deviation > 1e-12 else float("nan")

    @property
    def carriers(self) -> float:
        """How many coordinates carry the excess: (Σe)² / Σe² of the positive parts; 1 for one outlier."""
        parts = np.clip(self.by_coordinate, 0.0, None)
        whole = float(np.sum(parts**2))
        return float(parts.sum() ** 2 / whole) if whole else 0.0

    def outliers(self, k: int = 3) -> tuple[tuple[int, float], ...]:
        """The coordinates that add most to the excess, and what they add."""
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


@dataclass(frozen=True, eq=False)
class BasisKurtoses:
    """Every space of a model that was measured, and the running sums behind them."""

    rows: tuple[BasisKurtosis, ...]
    tally: Tally

    def __iter__(self) -> Iterator[BasisKurtosis]:
        return iter(self.rows)

    def __getitem__(self, space: str) -> BasisKurtosis:
        """The row of a space. Raises PathexpError, naming those there are."""
        for row in self.rows:
            if row.space == space:
                return row
        raise PathexpError(
            f"no space {space!r} was measured; there are {', '.join(r.space for r in self.rows)}"
        )


def basis_kurtosis(
    model: Model,
    corpus: Corpus,
    *,
    length: int | None = None,
    limit: int | None = 20,
    seed: int = 0,
    start: Tally | None = None,
    seconds: float | None = None,
    progress: bool = False,
) -> BasisKurtoses:
    """Measure every depth of the stream, and the neurons of every MLP, in their own basis and in turned ones.

    The question of data; `basis_privilege` is that of the weights. Random turns come from `seed`; `start`, `seconds`
    and `progress` are those of `tally`. Costs 16 · n · width² per space and window, and width² numbers of memory
    for each turn. Raises PathexpError for a corpus without one whole window, and for a seed below 0.

    >>> import pathexp as px
    >>> model = px.random_model(layers=1, d_model=32, d_mlp=64, activation="relu", n_ctx=9)
    >>> texts = [[1, 2, 3, 4, 5, 6, 7, 8, 9], [3, 1, 4, 1, 5, 9, 2, 6, 5]]
    >>> [(found.space, found.verdict) for found in px.basis_kurtosis(model, texts)]
    [('embed', 'none'), ('L0.mid', 'none'), ('L0.out', 'none'), ('L0 neurons', 'strong')]
    """
    check_model(model, "basis_kurtosis")
    expect("basis_kurtosis", seed=(seed, SEED))
    c = model.config
    turns = {
        width: np.stack([orthogonal(width, seed + k) for k in range(TURNS)])
        for width in {c.d_model, c.d_mlp or c.d_model}
    }
    sums = tally(
        windows(model, corpus, length),
        partial(_measured, model, turns),
        asked(f"kurtosis in {TURNS} turns from seed {seed}", model, length),
        start=start,
        limit=limit,
        seconds=seconds,
        progress=progress,
    )
    sums.mean(next(iter(sums.sums), ""))
    spaces = [name.removesuffix("/own") for name in sums.sums if name.endswith("/own")]
    return BasisKurtoses(tuple(_row(sums, space) for space in spaces), sums)


def _measured(model: Model, turns: Mapping[int, Array], window: Tokens) -> Mapping[str, Array]:
    """Sums over positions whose vector is not zero: of each coordinate, of each turn, and how many there are."""
    found: dict[str, Array] = {}
    for name, x in _spaces(model.run(window)).items():
        x = x[np.any(x != 0, axis=-1)]
        found[f"{name}/own"] = fourths(x).sum(axis=0)
        found[f"{name}/turned"] = np.array([fourths(x @ R.T).sum() for R in turns[x.shape[-1]]])
        found[f"{name}/positions"] = np.array(float(len(x)))
    return found


def _row(sums: Tally, space: str) -> BasisKurtosis:
    amount = float(sums.sums[f"{space}/positions"])
    own, turned = sums.sums[f"{space}/own"], sums.sums[f"{space}/turned"]
    if not amount:
        return BasisKurtosis(space, float("nan"), float("nan"), np.full(len(own), np.nan))
    d, mean = len(own), own / amount
    spread = turned / amount - 3.0 * d / (d + 2)
    return BasisKurtosis(space, float(mean.sum()), float(np.sqrt(np.mean(spread**2))), mean - 3.0 / (d + 2))


def _spaces(trace: Trace) -> Mapping[str, Array]:
    streams = {point: trace.residuals[point] for point in ("embed", *stream_points(trace.config))}
    neurons = trace.mlp_hidden if trace.config.d_mlp else ()
    return streams | {f"L{layer} neurons": hidden for layer, hidden in enumerate(neurons)}


def fourths(x: Array) -> Array:
    """What each coordinate adds to the kurtosis of each vector about 0, d x⁴ / (Σx²)², (n, d).

    About 0, not about the mean over coordinates: turning keeps Σx² but no mean, so that the mean over all bases
    is known, 3 d / (d + 2).

    >>> fourths(np.array([[1.0, -1.0, 1.0, -1.0], [2.0, 0, 0, 0]])).sum(axis=-1)
    array([1., 4.])
    """
    unit = x / np.abs(x).max(axis=-1, keepdims=True)
    found: Array = x.shape[-1] * unit**4 / np.sum(unit**2, axis=-1, keepdims=True) ** 2
    return found
