"""Who shares which part of the stream: principal angles between what is written and what is read.

Elhage et al. 2021, "Subspaces and Residual Stream Bandwidth": many more dimensions are written and read than the
stream has, so writers and readers share it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..algebra import LinearMap
from ..arguments import TEXT, expect, instance
from ..errors import GraphError, PathexpError, SpaceError
from ..graph import Array
from ..model import Model
from ..model.model import check_model
from .ports import Norms, Ports, readers_of, writers_of

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
    check_model(model, "overlap")
    ports = Ports(model, norms)
    start, end = (ports.place(checked_label(label)) for label in (writer, reader))
    if end.reads < start.writes:
        raise PathexpError(f"{reader} reads the stream before {writer} has written to it")
    return between(ports.writer(writer), ports.reader(reader), writer, reader)


def overlaps(model: Model, norms: Norms = "folded") -> tuple[Overlap, ...]:
    """Return the overlap of every writer with every later reader, the most surprising first.

    Writers are E, P, heads and MLPs; readers are Q, K and V of heads (keys and values once for heads that share them),
    MLPs and U. Order is by |z|; where every overlap is certain, because one side fills the stream, it comes last.
    As `overlap`: Jordan 1875; Björck & Golub 1973. Costs O((writers + readers) · d_model² · rank + pairs · d_model
    · rank²).

    >>> import pathexp as px
    >>> [(found.writer, found.reader) for found in px.overlaps(px.load("attn-2l"))[:2]]
    [('L0H2', 'L1H0.K'), ('L0H2', 'L1H3.K')]
    """
    check_model(model, "overlaps")
    ports = Ports(model, norms)
    written = {label: _written(ports.writer(label)) for label in writers_of(model)}
    read = {label: _read(ports.reader(label)) for label in readers_of(model)}
    found = [
        _met(left, right, writer, reader)
        for writer, left in written.items()
        for reader, right in read.items()
        if ports.place(writer).writes <= ports.place(reader).reads
    ]
    return tuple(sorted(found, key=lambda pair: -abs(np.nan_to_num(pair.z))))


def checked_label(label: object) -> str:
    """The label of a node, as text. Raises GraphError for anything else."""
    if not isinstance(label, str):
        raise GraphError(
            f"a writer or a reader goes by its label, such as 'L0H1' or 'L1H0.K', not {label!r:.60}"
        )
    return label


def between(written: LinearMap, read: LinearMap, writer: str = "writer", reader: str = "reader") -> Overlap:
    """Return the principal angles between the range of one map, (d_model, k), and the row space of another, (m, d_model).

    Jordan 1875; Björck & Golub 1973, by the singular values of the product of orthonormal bases. `writer` and `reader`
    are their names in the result. Raises PathexpError for what is no linear map, SpaceError where the first does not
    write what the second reads.

    >>> from pathexp.algebra import Dense, Space
    >>> stream, left, right = Space("stream", 3), Space("in", 1), Space("out", 1)
    >>> written, read = Dense([[1.0], [1.0], [0.0]], stream, left), Dense([[1.0, 0.0, 0.0]], right, stream)
    >>> between(written, read).angles.round(6)
    array([45.])
    """
    linear = instance(LinearMap, "a linear map, such as px.virtual_weight gives")
    expect(
        "between",
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
    return _met(_written(written), _read(read), writer, reader)


def _written(map: LinearMap) -> Array:
    """An orthonormal basis of what a map writes, (d_model, rank)."""
    vectors, values, _ = map.svd()
    return _kept(vectors, values)


def _read(map: LinearMap) -> Array:
    """An orthonormal basis of what a map reads, (d_model, rank)."""
    _, values, vectors = map.svd()
    return _kept(vectors.T, values)


def _kept(vectors: Array, values: Array) -> Array:
    found: Array = vectors[:, values > TINY * values.max(initial=0.0)]
    return found


def _met(left: Array, right: Array, writer: str, reader: str) -> Overlap:
    cosines = np.linalg.svd(right.T @ left, compute_uv=False)
    ranks = left.shape[1], right.shape[1]
    return Overlap(writer, reader, ranks, left.shape[0], np.clip(cosines[: min(ranks)], 0.0, 1.0))
