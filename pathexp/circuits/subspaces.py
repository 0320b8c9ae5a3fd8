"""Who shares which part of the stream: angles between what is written and read, interference, the bottleneck.

Elhage et al. 2021, "Subspaces and Residual Stream Bandwidth": many more dimensions are written and read than the
stream has, so writers and readers share it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..algebra import LinearMap
from ..errors import PathexpError
from ..graph import Array
from ..model import Config, Model
from .corpus import Corpus, Tokens, windows
from .decompose import stream_points
from .ports import Norms, Ports
from .running import Tally, tally

TINY = 1e-10
"""Singular values below this share of the largest do not count as a dimension."""


@dataclass(frozen=True, eq=False)
class Overlap:
    """How the subspace that is written meets the one that is read.

    `cosines` (the smaller rank) of the principal angles, largest first. `overlap` is the mean of their squares, from 0
    (orthogonal) to 1 (the smaller lies in the larger); `chance` what two random subspaces of these ranks have, and
    `deviation` its standard deviation, both exact.
    """

    writer: str
    reader: str
    ranks: tuple[int, int]
    width: int
    cosines: Array

    @property
    def overlap(self) -> float:
        """The mean squared cosine of the principal angles; NaN if one of them has no dimension."""
        return float(np.mean(self.cosines**2)) if len(self.cosines) else float("nan")

    @property
    def angles(self) -> Array:
        """The principal angles in degrees, smallest first."""
        return np.asarray(np.degrees(np.arccos(np.clip(self.cosines, 0.0, 1.0))))

    @property
    def chance(self) -> float:
        """The mean overlap of random subspaces: the larger rank / d_model."""
        return max(self.ranks) / self.width

    @property
    def deviation(self) -> float:
        """The standard deviation of the overlap of random subspaces (second moments of a random rotation)."""
        a, b, d = *self.ranks, self.width
        if d < 2 or not min(a, b):
            return 0.0
        return float(np.sqrt(2.0 * a * (d - a) * b * (d - b) / (d * d * (d - 1) * (d + 2)))) / min(a, b)

    @property
    def z(self) -> float:
        """By how many standard deviations the overlap is beyond chance; NaN where it cannot vary."""
        return (self.overlap - self.chance) / self.deviation if self.deviation > 1e-9 else float("nan")


def overlap(model: Model, writer: str, reader: str, norms: Norms = "folded") -> Overlap:
    """Return the principal angles between what a writer can write and what a reader can read.

    writer: `E`, `P`, `L0H1`, `L0M`; reader: `L1H0.Q`, `.K`, `.V`, `L1H0`, `L1M`, `U`; see `px.virtual_weight`. Jordan
    1875; Björck & Golub 1973. Costs O(d_model · rank²). Raises GraphError for labels that are not there, and
    PathexpError for a reader that stands before the writer.

    >>> import pathexp as px
    >>> found = overlap(px.load("attn-2l"), "L0H2", "L1H0.K")
    >>> found.ranks, bool(found.overlap > found.chance)
    ((16, 16), True)
    """
    ports = Ports(model, norms)
    start, end = ports.place(writer), ports.place(reader)
    if end.reads < start.writes:
        raise PathexpError(f"{reader} reads the stream before {writer} has written to it")
    return between(ports.writer(writer), ports.reader(reader), writer, reader)


def between(written: LinearMap, read: LinearMap, writer: str = "writer", reader: str = "reader") -> Overlap:
    """Return the principal angles between the range of one map and the row space of another."""
    left, right = _basis(written.svd()[0:2], 0), _basis(read.svd()[1:3], 1)
    cosines = np.linalg.svd(right.T @ left, compute_uv=False)
    ranks = left.shape[1], right.shape[1]
    return Overlap(writer, reader, ranks, left.shape[0], np.clip(cosines[: min(ranks)], 0.0, 1.0))


def _basis(parts: tuple[Array, ...], which: int) -> Array:
    """An orthonormal basis, (d_model, rank), from (U, s) or (s, V transposed)."""
    values, vectors = (parts[1], parts[0]) if which == 0 else (parts[0], parts[1].T)
    kept = values > TINY * values.max(initial=0.0)
    found: Array = vectors[:, kept]
    return found


@dataclass(frozen=True, eq=False)
class Interference:
    """How directions get into each other's way: `gram` (k, k) of their unit vectors, its off-diagonals beside chance."""

    gram: Array
    width: int

    @property
    def off_diagonal(self) -> Array:
        """The cosines of all pairs, once each."""
        rows, columns = np.triu_indices(len(self.gram), 1)
        return np.asarray(self.gram[rows, columns])

    @property
    def rms(self) -> float:
        """The root mean square of the cosines of pairs; random directions have 1/√d_model."""
        return float(np.sqrt(np.mean(self.off_diagonal**2)))

    @property
    def chance(self) -> float:
        """The rms of random directions."""
        return float(self.width**-0.5)

    @property
    def least(self) -> float:
        """The smallest rms that so many directions can have here (Welch 1974): 0 if they can be orthogonal."""
        k, d = len(self.gram), self.width
        return float(np.sqrt((k - d) / (d * (k - 1)))) if k > d else 0.0

    def worst(self) -> tuple[int, int, float]:
        """The pair with the largest cosine by size, and it."""
        rows, columns = np.triu_indices(len(self.gram), 1)
        at = int(np.abs(self.off_diagonal).argmax())
        return int(rows[at]), int(columns[at]), float(self.off_diagonal[at])


def interference(directions: ArrayLike) -> Interference:
    """Measure superposition: the cosines between directions, (k, d_model), of which there may be more than dimensions.

    Elhage et al. 2022, "Toy Models of Superposition". O(k² d_model). Raises PathexpError for fewer than two
    directions, or one of zeros.

    >>> found = interference([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    >>> found.worst()[:2], round(found.worst()[2], 3), round(found.rms, 3), round(found.least, 3)
    ((0, 2), 0.707, 0.577, 0.5)
    """
    rows = np.asarray(directions, dtype=np.float64)
    if rows.ndim != 2 or len(rows) < 2:
        raise PathexpError(
            f"interference needs two directions or more, as rows (k, d_model); found shape {rows.shape}"
        )
    sizes = np.linalg.norm(rows, axis=1)
    if not (sizes > 0).all() or not np.isfinite(sizes).all():
        raise PathexpError(f"direction {int(np.argmin((sizes > 0) & np.isfinite(sizes)))} has no length")
    unit = rows / sizes[:, None]
    return Interference(unit @ unit.T, rows.shape[1])


@dataclass(frozen=True)
class Bottleneck:
    """One depth of the stream: dimensions written before it and read after it, summed over components, beside d_model.

    `effective_rank`: exp of the entropy of the stream's variances on data (Roy & Vetterli 2007); None without data.
    """

    point: str
    written: int
    read: int
    width: int
    effective_rank: float | None

    @property
    def load(self) -> float:
        """Dimensions written before and read after, the smaller of the two, for each the stream has."""
        return min(self.written, self.read) / self.width


def bottlenecks(
    model: Model, corpus: Corpus | None = None, *, length: int | None = None, limit: int | None = 50
) -> tuple[Bottleneck, ...]:
    """Return the bottleneck table: one row per depth of the stream.

    A head writes d_head dimensions and reads 3 · d_head (queries, keys, values; grouped keys and values once), an MLP
    writes and reads d_mlp at most; no one writes or reads more than d_model. With a corpus, the effective rank of the
    stream over `limit` windows of `length` tokens. Elhage et al. 2021, "Subspaces and Residual Stream Bandwidth".

    >>> import pathexp as px
    >>> [(row.point, row.written, row.read) for row in bottlenecks(px.random_model(layers=1, heads=3, positions="none"))]
    [('embed', 11, 56), ('L0.out', 26, 11)]
    """
    points = ("embed", *stream_points(model.config))
    ranks: Mapping[str, float] = {}
    if corpus is not None:
        sums = moments(model, corpus, length=length, limit=limit)
        ranks = {point: effective_rank(*_variance(sums, point)) for point in points}
    written, read = (dict(_counted(model.config, side)) for side in ("written", "read"))
    d = model.config.d_model
    return tuple(
        Bottleneck(
            point,
            sum(written[name] for name in ("embed", *points[1 : k + 1])),
            sum(read[name] for name in (*points[k + 1 :], "end")),
            d,
            ranks.get(point),
        )
        for k, point in enumerate(points)
    )


def _counted(config: Config, side: str) -> Iterator[tuple[str, int]]:
    """Dimensions that are written by the time of a point and were not before it, or read in between."""
    c, d = config, config.d_model
    positions = min(c.n_ctx, d) if c.positions in ("learned", "sinusoidal") else 0
    yield "embed", min(c.d_vocab, d) + positions
    head = min(c.d_head, d)
    heads = c.n_heads * head if side == "written" else (c.n_heads + 2 * c.n_kv_heads) * head
    neurons = min(d, c.d_mlp * (2 if c.gated and side == "read" else 1)) if c.d_mlp else 0
    for point in stream_points(c):
        both = c.parallel is not None
        attention = both or not c.d_mlp or point.endswith(".mid")
        yield point, heads * attention + neurons * (both or not attention)
    yield "end", min(c.d_vocab, d)


def moments(
    model: Model,
    corpus: Corpus,
    *,
    length: int | None = None,
    limit: int | None = 50,
    start: Tally | None = None,
    progress: bool = False,
) -> Tally:
    """Sum first and second moments of the stream at every depth over a corpus, in O(depths · d_model²) memory."""  # fmt: skip
    points = ("embed", *stream_points(model.config))

    def measured(window: Tokens) -> Mapping[str, Array]:
        streams = model.run(window).residuals
        first = {f"{point}/first": streams[point].sum(axis=0) for point in points}
        return first | {f"{point}/second": streams[point].T @ streams[point] for point in points}

    question = f"moments of the stream of {model!r}"
    cut = windows(model, corpus, length)
    return tally(cut, measured, question, start=start, limit=limit, progress=progress)


def _variance(sums: Tally, point: str) -> tuple[Array]:
    each = sums.windows / sums.tokens if sums.tokens else 1.0
    first, second = sums.mean(f"{point}/first") * each, sums.mean(f"{point}/second") * each
    return (second - np.outer(first, first),)


def effective_rank(covariance: Array) -> float:
    """Return exp of the entropy of a covariance's spectrum: of k equal variances, k.

    >>> round(effective_rank(np.diag([2.0, 2.0, 0.0])), 9)
    2.0
    """
    values = np.clip(np.linalg.eigvalsh(covariance), 0.0, None)
    shares = values[values > 0] / values.sum() if values.sum() else np.ones(0)
    return float(np.exp(-(shares * np.log(shares)).sum())) if len(shares) else 0.0
