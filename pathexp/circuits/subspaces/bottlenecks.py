"""Bottlenecks: dimensions written before each depth of the stream and read after it, beside those it has.

Elhage et al. 2021, "Subspaces and Residual Stream Bandwidth".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from ...answer import Answer, Figure, Note, Part, Table, columns
from ...arguments import Kind, expect, index_of
from ...expansion.header import model_facts
from ...graph import Array
from ...labels import read_label
from ...model import Config, Model
from ...model.model import check_model
from ...model.streams import streams
from ...workers import for_each
from ..attribution.decompose import stream_points
from ..corpus.corpus import Corpus, Source
from ..corpus.limits import NO_LIMITS, Limits
from ..corpus.tally import Tally, Tokens
from .measured import measured, tally_facts

WINDOWS = 20
"""The windows of a corpus that are taken by default."""


@dataclass(frozen=True)
class Bottleneck:
    """One depth of the stream: dimensions written before it and read after it, summed over components, beside d_model.

    `demand`: the head dimensions and neurons that write before it, for each dimension of the stream, however many: 100
    at layer 25 with MLPs four times as wide. `effective_rank`: exp of the entropy of the stream's variances on data (Roy & Vetterli 2007); None without data.
    """

    point: str
    written: int
    read: int
    width: int
    demand: float
    effective_rank: float | None

    @property
    def load(self) -> float:
        """Dimensions written before and read after, the smaller of the two, for each the stream has."""
        return min(self.written, self.read) / self.width


@dataclass(frozen=True, eq=False, repr=False)
class Bottlenecks(Answer):
    """The bottleneck table, a row per depth, and the running sums behind its effective ranks."""

    live: ClassVar[frozenset[str]] = frozenset({"model"})

    model: Model
    rows: tuple[Bottleneck, ...]
    tally: Tally | None

    def __iter__(self) -> Iterator[Bottleneck]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> Bottleneck:
        """Return one row, by its number. Raises PathexpError if there is none."""
        expect("__getitem__", row=(row, index_of(self.rows)))
        return self.rows[row]

    def headline(self) -> str:
        """Return how many dimensions the stream has, and what was measured."""
        return f"dimensions written and read at each depth; the stream has {self.model.config.d_model}{measured(self.tally)}"

    def parts(self) -> Iterator[Part]:
        """Yield a row per depth, the meaning of its columns, and bars."""
        yield model_facts(self.model)
        yield tally_facts(self.tally)
        yield self._table()
        ranks = (
            "\neffective rank: exp of the entropy of the stream's variances" if self.tally is not None else ""
        )
        yield Note(
            "load: the smaller of written before and read after, per dimension of the stream\ndemand: head dimensions and "
            f"neurons that write before it, per dimension, without a cap at d_model{ranks}"
        )
        series = {"written before": "written", "read after": "read", "effective rank": "effective_rank"}
        shown = {name: field for name, field in series.items() if self.tally is not None or field[0] != "e"}
        values = [[getattr(row, field) for field in shown.values()] for row in self.rows]
        yield Figure(
            "bars", "bottlenecks",
            {"rows": [row.point for row in self.rows], "values": values, "series": list(shown)},
            f"dimensions at each depth; the stream has {self.model.config.d_model}",
        )  # fmt: skip

    def _table(self) -> Table:
        ranks = (columns.number("effective_rank", digits=1, signed=False),)
        return Table(
            (
                columns.text("point", "depth"), columns.count("written", "written before"),
                columns.count("read", "read after"), columns.count("width", "d_model"),
                columns.number("load", digits=1, signed=False), columns.number("demand", digits=1, signed=False), *(ranks if self.tally is not None else ()),
            ),
            [
                (row.point, row.written, row.read, row.width, row.load, row.demand,
                 *((row.effective_rank,) if self.tally is not None else ()))
                for row in self.rows
            ],
            "depths", key=("point",), value="load", shown=None,
        )  # fmt: skip


def bottlenecks(
    model: Model,
    corpus: Corpus | Source | None = None,
    *,
    limits: Limits = NO_LIMITS,
) -> Bottlenecks:
    """Return the bottleneck table: one row per depth of the stream.

    A head writes d_head dimensions and reads 3 · d_head (queries, keys, values; grouped keys and values once; of latent
    attention the latents and the shared key, once for all heads), an MLP
    writes and reads d_mlp at most (experts of a layer all together); no one writes or reads more than d_model. With a corpus, the effective rank of the
    stream over 20 windows, or those of a `Corpus`; see `Limits` for stopping and resuming. Costs a run
    per window and O(depths · d_model²) memory. Elhage et al. 2021, "Subspaces and Residual Stream Bandwidth".

    Raises PathexpError for a corpus without one whole window.

    >>> import pathexp as px
    >>> rows = px.bottlenecks(px.random_model(layers=1, heads=3, positions="none"))
    >>> [(row.point, row.written, row.read) for row in rows]
    [('embed', 11, 56), ('L0.out', 26, 11)]
    """
    check_model(model, "bottlenecks")
    points = ("embed", *stream_points(model.config))
    sums = None
    ranks: Mapping[str, float] = {}
    if corpus is not None:
        moments = partial(_moments, model, points)
        chosen, what = Corpus.of(corpus, model, WINDOWS), "moments of the stream"
        sums = chosen.accumulate(model, moments, what, limits, together=True)
        ranks = _ranks(sums, points)
    return Bottlenecks(model, tuple(_rows(model.config, points, ranks)), sums)


def _rows(config: Config, points: tuple[str, ...], ranks: Mapping[str, float]) -> Iterator[Bottleneck]:
    written, read = (dict(_counted(config, side)) for side in ("written", "read"))
    wanted = dict(_wanted(config))
    for k, point in enumerate(points):
        before = sum(written[name] for name in points[: k + 1])
        after = sum(read[name] for name in (*points[k + 1 :], "end"))
        demand = sum(wanted[name] for name in points[: k + 1]) / config.d_model
        yield Bottleneck(point, before, after, config.d_model, demand, ranks.get(point))


def _wanted(config: Config) -> Iterator[tuple[str, int]]:
    """Head dimensions and neurons that write by the time of a point and did not before it, all of them."""
    c, both = config, config.parallel is not None
    yield "embed", 0
    for point in stream_points(c):
        attention = both or not c.has_mlps or point.endswith(".mid")
        yield point, c.n_heads * c.d_value * attention + _neurons(c, point) * (both or not attention)


def _counted(config: Config, side: str) -> Iterator[tuple[str, int]]:
    """Dimensions that are written by the time of a point and were not before it, or read in between."""
    c, d = config, config.d_model
    positions = min(c.n_ctx, d) if c.positions in ("learned", "sinusoidal") else 0
    yield "embed", min(c.d_vocab, d) + positions
    heads = c.n_heads * min(c.d_value, d) if side == "written" else _read_by_heads(c)
    for point in stream_points(c):
        both = c.parallel is not None
        attention = both or not c.has_mlps or point.endswith(".mid")
        neurons = min(d, _neurons(c, point) * (2 if c.gated and side == "read" else 1))
        yield point, heads * attention + neurons * (both or not attention)
    yield "end", min(c.d_out, d)


def _read_by_heads(c: Config) -> int:
    """Dimensions that queries, keys and values of a layer read."""
    head = min(c.d_head, c.d_model)
    if c.latent is None:
        return (c.n_heads + 2 * c.n_kv_heads) * head
    queries = min(c.n_heads * head, c.latent.query_rank or c.n_heads * head)
    return min(queries, c.d_model) + min(c.latent.rank + c.latent.d_shared, c.d_model)


def _neurons(config: Config, point: str) -> int:
    """The neurons of the layer of a point of the stream."""
    return config.neurons(read_label(point).layer or 0)


def _moments(model: Model, points: tuple[str, ...], window: Tokens) -> Mapping[str, Array]:
    """First and second moments of the stream at every depth."""
    residuals = streams(model, window).residuals
    first = {f"{point}/first": residuals[point].sum(axis=0) for point in points}
    return first | {f"{point}/second": residuals[point].T @ residuals[point] for point in points}


def _ranks(sums: Tally, points: tuple[str, ...]) -> Mapping[str, float]:
    """The effective rank at each point, on all cores: threads of BLAS wait for each other in eigenvalues of this size."""
    found = [0.0] * len(points)

    def work(at: int) -> None:
        found[at] = effective_rank(_variance(sums, points[at]))

    for_each(work, len(points))
    return dict(zip(points, found, strict=True))


def _variance(sums: Tally, point: str) -> Array:
    sums.mean(f"{point}/first")
    first, second = (sums.sums[f"{point}/{moment}"] / sums.tokens for moment in ("first", "second"))
    return np.asarray(second - np.outer(first, first))


def _is_covariance(value: object) -> bool:
    if not isinstance(value, np.ndarray) or value.ndim != 2 or value.dtype.kind not in "fiu":
        return False
    same = value.shape[0] == value.shape[1] and np.isfinite(value).all()
    return bool(same and np.abs(value - value.T).max(initial=0.0) <= 1e-9 * np.abs(value).max(initial=0.0))


COVARIANCE = Kind("a symmetric array of finite numbers, (d, d)", _is_covariance)


def effective_rank(covariance: Array) -> float:
    """Return exp of the entropy of a covariance's spectrum, (d, d): of k equal variances k, of none 0.

    Roy & Vetterli 2007, "The effective rank". Raises PathexpError unless it is symmetric, of finite real numbers.

    >>> round(effective_rank(np.diag([2.0, 2.0, 0.0])), 9)
    2.0
    """
    expect("effective_rank", covariance=(covariance, COVARIANCE))
    values = np.clip(np.linalg.eigvalsh(covariance), 0.0, None)
    shares = values[values > 0] / values.sum() if values.sum() else np.ones(0)
    return float(np.exp(-(shares * np.log(shares)).sum())) if len(shares) else 0.0
