"""Interference: cosines between directions of the stream, of which there may be more than dimensions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ...answer import Answer, Facts, Figure, Part, Table, columns
from ...arguments import AMOUNT, expect, whole
from ...errors import PathexpError, SizeError
from ...graph import Array
from ...graph.ports import Norms, Ports
from ...model import Model
from ...model.model import check_model
from .overlap import checked_label

MAX_DIRECTIONS = 8192
"""More directions than this have a Gram matrix of over half a GiB, and are refused."""


@dataclass(frozen=True, eq=False, repr=False)
class Interference(Answer):
    """The cosines of directions: `gram` (directions, directions) of their unit vectors, in `width` dimensions.

    `subject` is the owner of the directions, `names` their names: tokens where they are tokens, else numbers.
    """

    subject: str
    gram: Array
    width: int
    names: tuple[str, ...]
    tokens: bool
    k: int

    def headline(self) -> str:
        """Return how many directions there are, in how many dimensions."""
        return f"{self.subject}: {len(self.gram):,} directions in {self.width} dimensions"

    def parts(self) -> Iterator[Part]:
        """Yield the root mean square of cosines and its baselines, the largest pairs, and a heat map."""
        yield Facts({"subject": self.subject, "directions": len(self.gram), "d_model": self.width})
        yield Facts(
            {"rms_cosine": self.rms, "random_directions": self.baseline, "lower_bound": self.least},
            shown=True,
        )
        pairs = self.pairs(self.k) if self.k else ()
        yield self._table(pairs)
        chosen = list(dict.fromkeys(i for pair in pairs for i in pair[:2]))
        names = [self.names[i] for i in chosen]
        yield Figure(
            "heatmap", "cosines",
            {"rows": names, "columns": names, "values": self.gram[np.ix_(chosen, chosen)]},
            f"{self.subject}: cosines of the directions that interfere most",
        )  # fmt: skip

    def _table(self, pairs: tuple[tuple[int, int, float], ...]) -> Table:
        named = columns.token if self.tokens else columns.text
        return Table(
            (
                named("first"), named("second"), columns.number("cosine", digits=3),
                columns.count("first_index"), columns.count("second_index"),
            ),
            [(self.names[a], self.names[b], cosine, a, b) for a, b, cosine in pairs],
            "pairs", key=("first_index", "second_index"), value="cosine", shown=None,
        )  # fmt: skip

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
    def baseline(self) -> float:
        """The rms of random directions."""
        return float(self.width**-0.5)

    @property
    def least(self) -> float:
        """The smallest rms that so many directions can have (Welch 1974): 0 if they can be orthogonal."""
        k, d = len(self.gram), self.width
        return float(np.sqrt((k - d) / (d * (k - 1)))) if k > d else 0.0

    def pairs(self, k: int = 10) -> tuple[tuple[int, int, float], ...]:
        """Return the `k` pairs of largest cosine in absolute value, and their cosines.

        Raises PathexpError for a `k` that is not an integer ≥ 1.
        """
        expect("pairs", k=(k, AMOUNT))
        rows, columns = np.triu_indices(len(self.gram), 1)
        cosines = self.off_diagonal
        order = np.argsort(-np.abs(cosines), kind="stable")[:k]
        return tuple((int(rows[at]), int(columns[at]), float(cosines[at])) for at in order)

    def worst(self) -> tuple[int, int, float]:
        """Return the pair of largest cosine in absolute value, and its cosine."""
        return self.pairs(1)[0]


def directions_of(model: Model, label: str, norms: Norms = "folded") -> Array:
    """Return the directions of a node as rows, (k, d_model), the vectors of Elhage et al. 2022, "Toy Models of Superposition".

    What it writes, one a column of its map: tokens for `E`, positions for `P`, neurons for `L0M`, the dimensions of a
    head for `L0H1.O`; or what it reads, one a row: tokens for `U`, neurons for `L0M.in`, a head's `L0H1.Q`, `.K`, `.V`.
    Raises GraphError for a label that is not there.

    >>> import pathexp as px
    >>> directions_of(px.load("attn-1l"), "U").shape, directions_of(px.load("attn-1l"), "L0H1.O").shape
    ((1024, 128), (16, 128))
    """
    check_model(model, "directions_of")
    ports = Ports(model, norms)
    place = ports.place(checked_label(label))
    reads = place.kind == "sink" or place.side in ("Q", "K", "V", "in", "gate")
    return ports.reader(label).dense() if reads else ports.writer(label).dense().T


def interference(
    what: Model | ArrayLike, *, label: str = "E", norms: Norms = "folded", k: int = 8
) -> Interference:
    """Measure superposition: the cosines between the directions of a node of a model, or between given directions.

    what: a model, whose directions at `label` are taken (see `directions_of`); or directions, (directions, d_model).
    k: how many pairs to list.

    Elhage et al. 2022, "Toy Models of Superposition". O(directions² d_model). Raises PathexpError for fewer than two
    directions or one of zeros, SizeError for over 8,192, GraphError for a label that is not there.

    >>> found = interference([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    >>> found.worst()[:2], round(found.worst()[2], 3), round(found.rms, 3), round(found.least, 3)
    ((0, 2), 0.707, 0.577, 0.5)
    """
    expect("interference", k=(k, whole(0)))
    if not isinstance(what, Model):
        gram, width = _cosines(what)
        return Interference("directions", gram, width, tuple(map(str, range(len(gram)))), False, k)
    gram, width = _cosines(directions_of(what, label, norms))
    tokens = label == "E" or (label == "U" and what.config.predicts_tokens)
    names = tuple(what.token_string(i) if tokens else str(i) for i in range(len(gram)))
    return Interference(f"{what.name or 'model'} {label}", gram, width, names, tokens, k)


def _cosines(directions: ArrayLike) -> tuple[Array, int]:
    """Return the cosines of all pairs of rows, and their width."""
    rows = _numbers(directions)
    if rows.ndim != 2 or len(rows) < 2:
        raise PathexpError(
            f"interference needs two directions or more, as rows (k, d_model); found shape {rows.shape}"
        )
    if len(rows) > MAX_DIRECTIONS:
        raise SizeError(
            f"the cosines of {len(rows):,} directions are {len(rows) ** 2:,} numbers; give at most {MAX_DIRECTIONS:,}"
        )
    sizes = np.linalg.norm(rows, axis=1)
    if not (usable := (sizes > 0) & np.isfinite(sizes)).all():
        at = int(np.argmin(usable))
        raise PathexpError(f"direction {at} has length {sizes[at]}, so no angle with others; leave it out")
    unit = rows / sizes[:, None]
    return unit @ unit.T, int(rows.shape[1])


def _numbers(directions: ArrayLike) -> Array:
    try:
        return np.asarray(directions, dtype=np.float64)
    except (TypeError, ValueError):
        raise PathexpError(
            f"interference takes real numbers, directions as rows (k, d_model); found {directions!r:.60}"
        ) from None
