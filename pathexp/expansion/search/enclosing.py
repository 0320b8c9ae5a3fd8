"""A shell around the unit ball and one wide part: guessed from a few directions, certified by a Cholesky factorization.

The union of the unit ball with X Xᵀ needs the eigenvectors of X Xᵀ with eigenvalues above 1, few of many. Any guess U, s of
them makes N = I + U (s − 1) Uᵀ, and N grown by 1 + a holds X Xᵀ wherever (1 + a) N − X Xᵀ has a Cholesky factor. The guess
comes from a random subspace that X Xᵀ has been applied to three times, the last one in double precision (Halko,
Martinsson, Tropp 2011, §4.5), at a quarter of the cost of all eigenvectors; where no small growth is certain there is no shell.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ...graph import Array
from .rounding import gamma

SHARE = 1 / 3
"""How many directions are guessed, as a share of all: in trained models a tenth exceeds the ball."""

GROWTHS = (2.0**-10, 2.0**-7, 2.0**-5)
"""By which shares a shell is grown until it is certain."""


@dataclass(frozen=True, eq=False)
class Shell:
    """Axes U (d, m), nearly orthonormal, and sizes s (m,) above 1: growth · (I + C Cᵀ) holds the ball and the part.

    C = U √(s − 1) are the `columns`.
    """

    axes: Array
    sizes: Array
    columns: Array
    growth: float


def enclosing(part: Array) -> Shell | None:
    """Return a shell around the unit ball and X Xᵀ, X (d, r); None if none is certain."""
    gram = part @ part.T
    square = float(np.vdot(part, part)) * (1 + 1e-9)
    if not 0 < square < np.inf:
        return None
    found, axes = _ritz(gram, square)
    for more in GROWTHS:
        grown = found * (1 + more)
        over = grown > 1
        columns = axes[:, over] * np.sqrt(grown[over] - 1)
        if holds(columns, 1 + more, gram, square, part.shape[1]):
            return Shell(axes[:, over], grown[over], columns, 1 + more)
    return None


def _ritz(gram: Array, square: float) -> tuple[Array, Array]:
    """Guesses of the largest eigenvalues (m,) and their eigenvectors (d, m)."""
    single = (gram / square).astype(np.float32)
    basis = np.asarray(np.linalg.qr((single @ (single @ (single @ _start(len(gram))))).astype(np.float64))[0])
    small = basis.T @ (gram @ basis)
    values, vectors = np.linalg.eigh(small)
    return np.asarray(values), np.asarray(basis @ vectors)


@cache
def _start(size: int) -> NDArray[np.float32]:
    """Random directions, the same in every run."""
    width = max(1, round(SHARE * size))
    return np.random.default_rng(0).standard_normal((size, width), dtype=np.float32)


def holds(columns: Array, growth: float, gram: Array, square: float, width: int) -> bool:
    """Return whether growth · (I + C Cᵀ) ⪰ X Xᵀ is certain, for X (d, width) with its computed Gram matrix and ‖X‖².

    A Cholesky factorization that succeeds shows that a matrix is at least −γ of its trace (Higham 2002, theorem 10.3;
    Rump 2006), and how far the computed difference is from the exact one is bounded as well: both are taken off first.
    """
    size = len(gram)
    rest = growth * (columns @ columns.T) - gram
    rest[np.diag_indices(size)] += growth
    around = growth * (1 + float(np.vdot(columns, columns))) + square
    lost = gamma(max(width, columns.shape[1]) + 8) * around
    rest[np.diag_indices(size)] -= 2 * (lost + gamma(size + 2) * (float(np.trace(rest)) + lost))
    try:
        return bool(np.isfinite(np.linalg.cholesky(rest)).all())
    except np.linalg.LinAlgError:
        return False
