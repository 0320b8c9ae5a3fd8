"""Singular values, eigenvalues and eigenvectors as values: their order, their signs, and what counts as zero."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .arrays import Array

Complex: TypeAlias = NDArray[np.complex128]


class Svd(NamedTuple):
    """U of shape (target, r), singular values S (r,) in descending order, Vh (r, source).

    Signs: in each column of U the entry of largest magnitude is positive, the first of them where several
    are equal (within 1e-9). Inside a block of equal singular values only the subspace is determined, so read
    `projectors` there.
    """

    U: Array
    S: Array
    Vh: Array

    @property
    def null_cutoff(self) -> float:
        """The value up to which a singular value is null; see the function of that name."""
        return null_cutoff(self.S, (self.U.shape[0], self.Vh.shape[1]))

    def blocks(self, tolerance: float = 1e-10) -> tuple[tuple[int, ...], ...]:
        """Return the indices of the singular values that are not null, equal neighbors together.

        Neighbors are equal if they differ by at most tolerance · S[0]. That tolerance and the null cutoff are
        two things.
        """
        rank = int(np.sum(self.null_cutoff < self.S))
        ends = [i for i in range(1, rank) if self.S[i - 1] - self.S[i] > tolerance * self.S[0]]
        return tuple(tuple(range(a, b)) for a, b in pairwise([0, *ends, rank]) if a < b)

    def projector(self, block: tuple[int, ...]) -> Array:
        """Return the projector U Uᵀ onto the left singular subspace of one block, (target, target)."""
        left = self.U[:, block]
        return left @ left.T


class Eigenvalues(NamedTuple):
    """Eigenvalues of an endomorphism of dimension `size`: complex, by descending magnitude.

    `values` are those of the smallest cyclic rotation; the other `zeros` are exactly zero.
    """

    values: Complex
    size: int

    @property
    def zeros(self) -> int:
        """How many eigenvalues are zero by shape alone."""
        return self.size - len(self.values)


class Eigenvectors(NamedTuple):
    """Eigenvalues (k,) and right eigenvectors as columns, (size, k): M @ right == right * values."""

    values: Complex
    right: Complex


def null_cutoff(singular_values: Array, shape: tuple[int, int]) -> float:
    """Return max(shape) · eps · S[0], up to which a singular value is zero as far as float64 can tell."""
    largest = float(singular_values[0]) if len(singular_values) else 0.0
    return max(shape) * float(np.finfo(np.float64).eps) * largest


def by_magnitude(values: NDArray[Any]) -> NDArray[np.intp]:
    """Return the order by descending magnitude, then real part, then imaginary part."""
    return np.lexsort((-values.imag, -values.real, -np.abs(values)))


def descending(values: NDArray[Any]) -> Complex:
    """Return values as complex, by descending magnitude, then real part, then imaginary part."""
    return values[by_magnitude(values)].astype(np.complex128)


def signed(U: NDArray[Any], S: NDArray[Any], Vh: NDArray[Any]) -> Svd:
    """Return the decomposition with the signs of `Svd`."""
    if not U.size:
        return Svd(U, S, Vh)
    magnitudes = np.abs(U)
    first = np.argmax(magnitudes >= (1 - 1e-9) * magnitudes.max(axis=0), axis=0)
    signs = np.where(U[first, np.arange(U.shape[1])] < 0, -1.0, 1.0)
    return Svd(U * signs, S, Vh * signs[:, None])
