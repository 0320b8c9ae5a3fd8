"""A shell around the unit ball and one wide part: guessed from a few directions, certified by a Cholesky factorization.

The union of the unit ball with X Xᵀ needs the eigenvectors of X Xᵀ with eigenvalues above 1, few of many. Any guess U, s of
them makes N = I + U (s − 1) Uᵀ, and N grown by 1 + a holds X Xᵀ wherever (1 + a) N − X Xᵀ has a Cholesky factor. The guess
comes from a random subspace that X Xᵀ has been applied to three times in single precision (Halko, Martinsson, Tropp 2011,
§4.5), at a quarter of the cost of all eigenvectors. Where axes differ in size by more than single precision can hold, the subspace
is made orthonormal and X Xᵀ applied once more in double; where no small growth is certain then, there is no shell.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

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
    for guess in _guesses(gram, square):
        for more in GROWTHS:
            grown = guess.values * (1 + more)
            over = grown > 1
            columns = guess.axes[:, over] * np.sqrt(grown[over] - 1)
            if holds(columns, 1 + more, gram, square, part.shape[1]):
                return Shell(guess.axes[:, over], grown[over], columns, 1 + more)
    return None


class _Guess(NamedTuple):
    """Guesses of the largest eigenvalues (m,) and their eigenvectors (d, m)."""

    values: Array
    axes: Array


def _guesses(gram: Array, square: float) -> Iterator[_Guess]:
    """Yield guesses, the second after one more product in double precision."""
    single = np.empty(gram.shape, dtype=np.float32)
    np.divide(gram, square, out=single, casting="unsafe")
    applied: Array = (single @ (single @ (single @ _start(len(gram))))).astype(np.float64)
    for _ in range(2):
        basis = np.asarray(np.linalg.qr(applied)[0])
        applied = gram @ basis
        values, vectors = np.linalg.eigh(basis.T @ applied)
        yield _Guess(np.asarray(values), np.asarray(basis @ vectors))


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
    rest = columns @ columns.T
    rest *= growth
    rest -= gram
    diagonal = np.einsum("ii->i", rest)
    diagonal += growth
    around = growth * (1 + float(np.vdot(columns, columns))) + square
    lost = gamma(max(width, columns.shape[1]) + 8) * around
    diagonal -= 2 * (lost + gamma(size + 2) * (float(diagonal.sum()) + lost))
    try:
        return bool(np.isfinite(np.linalg.cholesky(rest)).all())
    except np.linalg.LinAlgError:
        return False
