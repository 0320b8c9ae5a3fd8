"""Interference: how directions of the stream, of which there may be more than dimensions, get into each other's way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..arguments import AMOUNT, expect
from ..errors import PathexpError, SizeError
from ..graph import Array
from ..model import Model
from ..model.model import check_model
from .ports import Norms, Ports
from .subspaces import checked_label

MAX_DIRECTIONS = 8192
"""More directions than this have a Gram matrix of over half a GiB, and are refused."""


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

    def pairs(self, k: int = 10) -> tuple[tuple[int, int, float], ...]:
        """The `k` pairs with the largest cosine by size, and it.

        Raises PathexpError for a `k` that is no whole number from 1 up.
        """
        expect("pairs", k=(k, AMOUNT))
        rows, columns = np.triu_indices(len(self.gram), 1)
        cosines = self.off_diagonal
        order = np.argsort(-np.abs(cosines), kind="stable")[:k]
        return tuple((int(rows[at]), int(columns[at]), float(cosines[at])) for at in order)

    def worst(self) -> tuple[int, int, float]:
        """The pair with the largest cosine by size, and it."""
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


def interference(directions: ArrayLike) -> Interference:
    """Measure superposition: the cosines between directions, (k, d_model), of which there may be more than dimensions.

    Elhage et al. 2022, "Toy Models of Superposition". O(k² d_model). Raises PathexpError for fewer than two
    directions or one of zeros, SizeError for over 8,192.

    >>> found = interference([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    >>> found.worst()[:2], round(found.worst()[2], 3), round(found.rms, 3), round(found.least, 3)
    ((0, 2), 0.707, 0.577, 0.5)
    """
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
    return Interference(unit @ unit.T, rows.shape[1])


def _numbers(directions: ArrayLike) -> Array:
    try:
        return np.asarray(directions, dtype=np.float64)
    except (TypeError, ValueError):
        raise PathexpError(
            f"interference takes real numbers, directions as rows (k, d_model); found {directions!r:.60}"
        ) from None
