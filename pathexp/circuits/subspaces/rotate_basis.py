"""Rotate the stream's basis: single coordinates change, virtual weights and outputs do not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...algebra import LinearMap
from ...answer import Answer, Check, Facts, Figure, Note, Part, Table, columns
from ...arguments import AMOUNT, expect
from ...errors import PathexpError
from ...expansion.header import counted, model_facts
from ...graph import Array, lengths
from ...graph.ports import Ports, readers_of, writers_of
from ...model import Model, rewrite
from ...model.model import check_model
from ...model.rounding import CONFIDENCE, MEASURED, UNIT
from ...workers import for_each

TOKENS = 256
"""Of a map of more rows or columns than this, so many drawn by the seed are compared."""
BLOCK = 2048
"""How many columns meet all rows at a time."""


@dataclass(frozen=True)
class TopCoordinates:
    """The coordinates of the stream in which a writer is largest, before and after the rotation, largest first."""

    writer: str
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def kept(self) -> int:
        """The number of coordinates that are still among the largest."""
        return len({*self.before} & {*self.after})


@dataclass(frozen=True, eq=False, repr=False)
class RotatedBasis(Answer):
    """One model in two bases of its stream.

    `logits`: the largest change of a logit, and `tolerance` what rounding may change. `weights`: the largest change of
    any entry of any virtual weight, over the lengths of the row and the column that it is the product of; `pairs` how many
    writer-reader pairs were compared. `coordinates`: per writer, its largest coordinates in both bases.
    """

    live: ClassVar[frozenset[str]] = frozenset({"model"})

    model: Model
    coordinates: tuple[TopCoordinates, ...]
    logits: float
    tolerance: float
    weights: float
    pairs: int
    width: int
    reason: str = ""

    @property
    def kept(self) -> float:
        """The share of all listed coordinates that is still listed."""
        return sum(one.kept for one in self.coordinates) / sum(len(one.before) for one in self.coordinates)

    @property
    def baseline(self) -> float:
        """The share that two random lists have in common: their length over d_model."""
        return len(self.coordinates[0].before) / self.width

    def headline(self) -> str:
        """Return what was done."""
        return "coordinates in which each writer is largest, before and after a random rotation of the stream"

    def parts(self) -> Iterator[Part]:
        """Yield the largest coordinates, the share that is kept, both checks, and bars."""
        yield model_facts(self.model)
        yield Facts({"pairs": self.pairs, "kept": self.kept, "baseline": self.baseline})
        yield self._table()
        yield Note(
            f"still among the largest: {self.kept:.1%} of the coordinates; random lists share {self.baseline:.1%}"
        )
        yield from self.checks()
        yield Figure(
            "bars", "coordinates",
            {
                "rows": [one.writer for one in self.coordinates], "series": ["before", "kept"],
                "values": [[len(one.before), one.kept] for one in self.coordinates],
            },
            "largest coordinates, and how many of them are still among the largest",
        )  # fmt: skip

    def checks(self) -> tuple[Check, Check]:
        """Return whether virtual weights and logits stayed."""
        return (
            Check(
                f"{counted(self.pairs, 'virtual weight')} stayed", self.weights, weights_tolerance(self.width),
                "rounding of both, over the lengths of rows and columns", name="virtual weights",
            ),
            Check("the logits stayed", self.logits, self.tolerance, MEASURED, reason=self.reason, name="logits"),
        )  # fmt: skip

    def _table(self) -> Table:
        return Table(
            (columns.text("writer"), columns.text("before"), columns.text("after"), columns.count("kept")),
            [
                (one.writer, " ".join(map(str, one.before)), " ".join(map(str, one.after)), one.kept)
                for one in self.coordinates
            ],
            "writers", key=("writer",), value="kept", shown=20,
        )  # fmt: skip


def rotate_basis(model: Model, *, k: int = 10, seed: int = 0) -> RotatedBasis:
    """Rotate the stream of a model at random, and compare the `k` largest coordinates, virtual weights and logits.

    Gains of norms are folded first, and LayerNorm made RMS norm, as a norm's own basis would forbid the rotation
    (`px.rewrite`). Writers are the embedding, positions, heads and MLPs, each as large in a coordinate as the norm of
    that row of its map; virtual weights are all writer-reader pairs, of which tables over many tokens are sampled.
    Elhage et al. 2021, "Virtual Weights and the Residual Stream as a Communication
    Channel". Costs O(pairs · d_model · 256²) at most.

    Raises RewriteError where no rewrite can take the norms' basis away, PathexpError for more coordinates than
    the stream has.

    >>> import pathexp as px
    >>> found = px.rotate_basis(px.load("attn-2l"))
    >>> found.ok, found.kept < 0.2, found.pairs
    (True, True, 257)
    """
    check_model(model, "rotate_basis")
    expect("rotate_basis", k=(k, AMOUNT))
    width = model.config.d_model
    if k > width:
        raise PathexpError(f"expected k of at most {width}, the coordinates of the stream (d_model); got {k}")
    plain = _without_basis(model)
    rotated = rewrite.rotate(plain, seed)
    first, second = Ports(plain), Ports(rotated)
    writers = tuple(f"{label}.O" if "H" in label else label for label in writers_of(model))
    largest = tuple(
        TopCoordinates(label, _largest(first.writer(label), k), _largest(second.writer(label), k))
        for label in writers
    )
    change, pairs = _change(first, second, writers, seed)
    difference = rewrite.compare(model, rotated)
    return RotatedBasis(
        model, largest, difference.raw, difference.tolerance, change, pairs, width,
        difference.reason,
    )  # fmt: skip


def _without_basis(model: Model) -> Model:
    plain = rewrite.fold_norms(model) if model.config.norm else model
    if model.config.norm == "layernorm":
        plain = rewrite.layernorm_to_rmsnorm(rewrite.center_writing(plain))
    return plain


def _largest(writer: LinearMap, k: int) -> tuple[int, ...]:
    sizes = np.linalg.norm(_sampled(writer, 1, 0), axis=1)
    return tuple(int(place) for place in np.argsort(-sizes, kind="stable")[:k])


def weights_tolerance(width: int) -> float:
    """Return how far an entry of a virtual weight may drift by rounding, over the lengths of its row and column.

    Reader and writer are each turned by a product over d_model, the rotation itself is one, and so are both entries:
    five times a noise of u √d, of which ten deviations are allowed (`pathexp.expansion.tolerance`).

    >>> weights_tolerance(64) < 3e-14
    True
    """
    return CONFIDENCE * UNIT * float(np.sqrt(5 * width))


def _change(first: Ports, second: Ports, writers: Sequence[str], seed: int) -> tuple[float, int]:
    """Return the largest change of an entry of a virtual weight, over the lengths of its row and column, and of how many.

    Readers at one depth meet all that is written before it in one product.
    """
    ordered = sorted(writers, key=lambda label: first.place(label).writes)
    columns = [[_sampled(ports.writer(label), 1, seed) for label in ordered] for ports in (first, second)]
    ends = np.cumsum([0, *(part.shape[1] for part in columns[0])])
    written = [np.concatenate(parts, axis=1) for parts in columns]
    depths: dict[int, list[str]] = {}
    for reader in readers_of(first.model):
        depths.setdefault(first.place(reader).reads, []).append(reader)
    before = {
        depth: sum(first.place(label).writes <= depth for label in ordered) for depth in depths
    }  # writers, the first of their order
    largest = [0.0]
    for depth, readers in depths.items():
        reads = [
            np.concatenate([_sampled(ports.reader(label), 0, seed) for label in readers])
            for ports in (first, second)
        ]
        end = int(ends[before[depth]])
        largest += _met(reads, [each[:, :end] for each in written])
    return max(largest), sum(before[depth] * len(readers) for depth, readers in depths.items())


def _met(reads: Sequence[Array], written: Sequence[Array]) -> list[float]:
    """The largest change of rows that meet columns in both bases, over their lengths, by blocks of columns."""
    begins = range(0, written[0].shape[1], BLOCK)
    found = [0.0] * len(begins)
    rows = lengths(reads[0])

    def block(number: int) -> None:
        some = slice(begins[number], begins[number] + BLOCK)
        columns = lengths(written[0][:, some].T)
        changed = np.abs(reads[0] @ written[0][:, some] - reads[1] @ written[1][:, some])
        changed[(changed > 0) & ((rows == 0)[:, None] | (columns == 0))] = np.inf
        changed /= np.where(columns > 0, columns, 1.0)
        changed /= np.where(rows > 0, rows, 1.0)[:, None]
        found[number] = float(changed.max(initial=0.0))

    for_each(block, len(begins))
    return found


def _sampled(map: LinearMap, axis: int, seed: int) -> Array:
    """A map as an array, (target, source), at most 256 of its rows or columns."""
    dense = map.dense()
    if dense.shape[axis] <= TOKENS:
        return dense
    chosen = np.random.default_rng(seed).choice(dense.shape[axis], TOKENS, replace=False)
    return np.take(dense, np.sort(chosen), axis=axis)
