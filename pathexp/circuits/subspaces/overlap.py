"""Overlap: principal angles between the subspace that a writer writes and the one that a reader reads.

Elhage et al. 2021, "Subspaces and Residual Stream Bandwidth": many more dimensions are written and read than the
stream has, so writers and readers share it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ...algebra import LinearMap
from ...answer import Answer, Facts, Figure, Note, Part, Table, columns
from ...arguments import TEXT, expect, index_of, instance, one_of
from ...errors import GraphError, PathexpError, SpaceError
from ...expansion.header import counted, model_facts
from ...graph import Array
from ...graph.ports import Norms, Ports, readers_of, writers_of
from ...model import Model
from ...model.model import check_model
from ...workers import in_turn, own_workers
from ..composition.gram import Flags
from .ranges import read_basis, shared, written_basis


@dataclass(frozen=True, eq=False)
class SubspaceOverlap:
    """The overlap of a written subspace with a read one.

    `cosines` (the smaller rank) of the principal angles, largest first. `overlap` is the mean of their squares, from 0
    (orthogonal) to 1 (the smaller lies in the larger), NaN if a subspace has no dimension; `baseline` that of two random
    subspaces of these ranks, and `deviation` its standard deviation, both exact.
    """

    writer: str
    reader: str
    ranks: tuple[int, int]
    width: int
    overlap: float
    bases: tuple[Array, Array]
    """Orthonormal bases of what is written and of what is read, (d_model, rank) each."""

    @cached_property
    def cosines(self) -> Array:
        """The cosines of the principal angles, largest first: computed when first asked for."""
        written, read = self.bases
        return _cosines(written, read)

    @property
    def angles(self) -> Array:
        """The principal angles in degrees, smallest first."""
        return np.asarray(np.degrees(np.arccos(np.clip(self.cosines, 0.0, 1.0))))

    @property
    def baseline(self) -> float:
        """The mean overlap of random subspaces: the larger rank / d_model."""
        return max(self.ranks) / self.width

    @cached_property
    def deviation(self) -> float:
        """The standard deviation of the overlap of random subspaces (second moments of a random rotation)."""
        a, b, d = *self.ranks, self.width
        if d < 2 or not min(a, b):
            return 0.0
        return float(np.sqrt(2.0 * a * (d - a) * b * (d - b) / (d * d * (d - 1) * (d + 2)))) / min(a, b)

    @cached_property
    def z(self) -> float:
        """Standard deviations of the overlap above the baseline; NaN where it cannot vary."""
        return (self.overlap - self.baseline) / self.deviation if self.deviation > 1e-9 else float("nan")

    def table(self) -> Table:
        """Return the principal angles as a table."""
        rows = [(n, c, a) for n, (c, a) in enumerate(zip(self.cosines, self.angles, strict=True), 1)]
        return Table(
            (columns.count("number"), columns.number("cosine", signed=False),
             columns.number("angle", unit="degrees", digits=0, signed=False)),
            rows, "angles", "principal angles", key=("number",), value="cosine", shown=None,
        )  # fmt: skip

    def bars(self) -> Figure:
        """Return the cosines of the principal angles as bars."""
        data = {"rows": [f"{angle:.0f}°" for angle in self.angles], "values": self.cosines[:, None]}
        return Figure("bars", "angles", data, "cosines of the principal angles")


@dataclass(frozen=True, eq=False, repr=False)
class Overlap(Answer):
    """Overlaps of writers with readers, the most surprising first; a sequence of `SubspaceOverlap`."""

    live: ClassVar[frozenset[str]] = frozenset({"model"})

    model: Model
    pairs: tuple[SubspaceOverlap, ...]

    def __iter__(self) -> Iterator[SubspaceOverlap]:
        return iter(self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, row: int) -> SubspaceOverlap:
        """Return a pair by its rank. Raises PathexpError if there is none."""
        expect("__getitem__", row=(row, index_of(self.pairs)))
        return self.pairs[row]

    def headline(self) -> str:
        """Return how many pairs there are, in how many dimensions."""
        width = self.model.config.d_model
        return f"overlap of {counted(len(self), 'pair')} of a writer and a reader, in {width} dimensions"

    def parts(self) -> Iterator[Part]:
        """Yield the pairs, their principal angles if they are few, what is undefined, and a heat map."""
        yield model_facts(self.model)
        yield Facts({"d_model": self.model.config.d_model})
        yield self._table()
        if len(self) == 1:
            yield self[0].table()
        yield Note(
            "overlap: mean squared cosine of the principal angles, from 0 (orthogonal) to 1 (inside)\n"
            "baseline: random subspaces of these ranks; z: standard deviations above it"
        )
        yield from self._undefined()
        yield self._picture()

    def _table(self) -> Table:
        return Table(
            (
                columns.text("writer"), columns.text("reader"), columns.count("writer_rank"),
                columns.count("reader_rank"), columns.number("overlap", digits=3, signed=False),
                columns.number("baseline", digits=3, signed=False),
                columns.number("deviation", digits=3, signed=False), columns.number("z", digits=1),
            ),
            [
                (p.writer, p.reader, *p.ranks, p.overlap, p.baseline, p.deviation, p.z) for p in self.pairs
            ],
            name="pairs", key=("writer", "reader"), value="overlap",
        )  # fmt: skip

    def _undefined(self) -> Iterator[Note]:
        empty = {
            name
            for p in self.pairs
            for name, rank in zip((p.writer, p.reader), p.ranks, strict=True)
            if not rank
        }
        if empty:
            yield Note(
                f"no overlap with {', '.join(sorted(empty))}: that map is zero, so its subspace is empty"
            )
        full = any(np.isnan(p.z) and min(p.ranks) for p in self.pairs)
        if full:
            yield Note("no z where one of the two fills the stream: every overlap with it is certain")

    def _picture(self) -> Figure:
        """Overlap minus baseline, writers by readers; those that fill the stream are left out if others are there."""
        if len(self) == 1:
            return self[0].bars()
        pairs = [p for p in self.pairs if not np.isnan(p.z)] or list(self.pairs)
        rows = _in_order((p.writer for p in pairs), writers_of(self.model))
        read = _in_order((p.reader for p in pairs), readers_of(self.model))
        values = np.full((len(rows), len(read)), np.nan)
        row, column = ({label: at for at, label in enumerate(labels)} for labels in (rows, read))
        for p in pairs:
            values[row[p.writer], column[p.reader]] = p.overlap - p.baseline
        return Figure(
            "heatmap", "overlap", {"rows": rows, "columns": read, "values": values},
            "overlap minus baseline: writers by readers",
        )  # fmt: skip


def overlap(
    model: Model, *, writer: str | None = None, reader: str | None = None, norms: Norms = "folded"
) -> Overlap:
    """Return the overlap of every writer with every later reader, the most surprising first; or of chosen ones.

    Writers are `E`, `P`, heads `L0H1` and MLPs `L0M`; readers `L1H0.Q`, `.K`, `.V` (keys and values once for heads that
    share them), `L1M.in`, `L1M.gate` and `U`. With `writer`, its pairs alone; with `reader`, its pairs; with both, that
    pair and its principal angles, also of a head with itself (`L0H2` and `L0H2.V`), and any label of `px.virtual_weight`.
    Order is by |z|; where every overlap is certain, because one side fills the stream, it comes last.

    Jordan 1875; Björck & Golub 1973. Costs O((writers + readers) · d_model² · rank + pairs · d_model · rank²). Raises
    GraphError for labels that are not there, and PathexpError for a reader that is before the writer.

    >>> import pathexp as px
    >>> [(found.writer, found.reader) for found in px.overlap(px.load("attn-2l"))][:2]
    [('L0H2', 'L1H0.K'), ('L0H2', 'L1H3.K')]
    >>> px.overlap(px.load("attn-2l"), writer="L0H2", reader="L0H2.V")[0].ranks
    (16, 16)
    """
    check_model(model, "overlap")
    expect("overlap", norms=(norms, one_of("folded", "raw")))
    ports = Ports(model, norms)
    with own_workers():  # bases are small factorizations
        written = dict(
            in_turn(lambda label: written_basis(ports.writer(label)), _chosen(writer, writers_of(model)))
        )
        read = dict(
            in_turn(lambda label: read_basis(ports.reader(label)), _chosen(reader, readers_of(model)))
        )
        pairs = _pairs(written, read, _allowed(ports, tuple(written), tuple(read), bool(writer and reader)))
    if writer and reader and not pairs:
        raise PathexpError(f"{reader} reads the stream before {writer} has written to it")
    return Overlap(model, tuple(sorted(pairs, key=lambda pair: 0.0 if np.isnan(pair.z) else -abs(pair.z))))


def _allowed(ports: Ports, writers: tuple[str, ...], readers: tuple[str, ...], one_pair: bool) -> Flags:
    """Which readers come after which writers, (readers, writers); of one pair, also a component with itself."""
    writes = np.array([ports.place(label).writes for label in writers])
    reads = np.array([ports.place(label).reads for label in readers])
    alone = one_pair and _same(writers[0], readers[0])
    return np.asarray((writes[None, :] <= reads[:, None]) | alone)


def _pairs(written: Mapping[str, Array], read: Mapping[str, Array], allowed: Flags) -> list[SubspaceOverlap]:
    squares = shared(written, read, allowed)
    found = []
    for j, (writer, left) in enumerate(written.items()):
        for i, (reader, right) in enumerate(read.items()):
            if allowed[i, j]:
                ranks = left.shape[1], right.shape[1]
                value = float(min(squares[i, j] / min(ranks), 1.0)) if min(ranks) else float("nan")
                found.append(SubspaceOverlap(writer, reader, ranks, len(left), value, (left, right)))
    return found


def _in_order(labels: Iterable[str], every: tuple[str, ...]) -> list[str]:
    """Labels once each, along the stream; those of no list of the model first."""
    place = {label: at for at, label in enumerate(every)}
    return sorted(set(labels), key=lambda label: place.get(label, -1))


def _chosen(label: str | None, every: tuple[str, ...]) -> tuple[str, ...]:
    return every if label is None else (checked_label(label),)


def _same(writer: str, reader: str) -> bool:
    """Whether a writer and a reader are the same component."""
    return writer.partition(".")[0] == reader.partition(".")[0]


def checked_label(label: object) -> str:
    """Return the label of a node, as text. Raises GraphError for anything else."""
    if not isinstance(label, str):
        raise GraphError(
            f"a writer or a reader goes by its label, such as 'L0H1' or 'L1H0.K', not {label!r:.60}"
        )
    return label


def subspace_overlap(
    written: LinearMap, read: LinearMap, writer: str = "writer", reader: str = "reader"
) -> SubspaceOverlap:
    """Return the principal angles between the range of one map, (d_model, k), and the row space of another, (m, d_model).

    Jordan 1875; Björck & Golub 1973, by the singular values of the product of orthonormal bases. `writer` and `reader`
    are their names in the result. Raises PathexpError for what is not a linear map, SpaceError where the first does not
    write what the second reads.

    >>> from pathexp.algebra import Dense, Space
    >>> stream, left, right = Space("stream", 3), Space("in", 1), Space("out", 1)
    >>> written, read = Dense([[1.0], [1.0], [0.0]], stream, left), Dense([[1.0, 0.0, 0.0]], right, stream)
    >>> subspace_overlap(written, read).angles.round(6)
    array([45.])
    """
    linear = instance(LinearMap, "a linear map, such as px.virtual_weight gives,")
    expect(
        "subspace_overlap",
        written=(written, linear),
        read=(read, linear),
        writer=(writer, TEXT),
        reader=(reader, TEXT),
    )
    if written.target.size != read.source.size:
        raise SpaceError(
            f"{writer} writes {written.target} and {reader} reads {read.source}: no subspaces of one space, and no angles "
            "between them; give maps whose target and source are the same stream"
        )
    bases = written_basis(written), read_basis(read)
    (pair,) = _pairs({writer: bases[0]}, {reader: bases[1]}, np.ones((1, 1), dtype=np.bool_))
    return pair


def _cosines(written: Array, read: Array) -> Array:
    """The cosines of the principal angles between two subspaces, as many as the smaller rank."""
    found = np.linalg.svd(read.T @ written, compute_uv=False)
    return np.asarray(np.clip(found[: min(written.shape[1], read.shape[1])], 0.0, 1.0))
