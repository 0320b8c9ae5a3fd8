"""What can be asked of a linear map; everything goes through factors, nothing larger than needed is formed.

Each function is generic: the algorithm here serves any map that can be cut at a waist, and `rules` registers
what a kind knows better. A new kind registers `dense` and, where it has a narrow waist, `halves`.
"""

from __future__ import annotations

from functools import singledispatch
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import SizeError, SpaceError
from .arrays import Array

if TYPE_CHECKING:
    from .maps import LinearMap

MAX_ENTRIES = 2**25
"""How many entries `dense` forms without being asked: 256 MB of float64."""

MAX_WAIST = 2**28
"""How many entries a side of a waist may have: 2 GB of float64."""


class Svd(NamedTuple):
    """U of shape (target, r), singular values S (r,) in descending order, Vh (r, source).

    Signs: in each column of U the entry of largest magnitude is positive, the first of them where several
    are equal. Inside a block of equal singular values only the subspace is determined; see `blocks`.
    """

    U: Array
    S: Array
    Vh: Array

    def blocks(self, tolerance: float = 1e-10) -> tuple[tuple[int, ...], ...]:
        """Return the nonzero singular values' indices, grouped where neighbors differ by ≤ tolerance · S[0].

        What is null is a question of its own, answered by `null_cutoff`.
        """
        rank = int(np.sum(null_cutoff(self.S, (len(self.U), self.Vh.shape[1])) < self.S))
        ends = [i for i in range(1, rank) if self.S[i - 1] - self.S[i] > tolerance * self.S[0]]
        edges = [0, *ends, rank]
        return tuple(tuple(range(a, b)) for a, b in pairwise(edges) if a < b)


class Eigenvalues(NamedTuple):
    """Eigenvalues of an endomorphism of dimension `size`: complex, by descending magnitude.

    `values` are those of the smallest cyclic rotation; the other `zeros` are exactly zero.
    """

    values: NDArray[np.complex128]
    size: int

    @property
    def zeros(self) -> int:
        """How many eigenvalues are zero by shape alone."""
        return self.size - len(self.values)


class Eigenvectors(NamedTuple):
    """Eigenvalues (k,) and right eigenvectors as columns, (size, k): M @ right == right * values."""

    values: NDArray[np.complex128]
    right: NDArray[np.complex128]


def null_cutoff(singular_values: Array, shape: tuple[int, int]) -> float:
    """Return max(shape) · eps · S[0], below which a singular value is zero as far as float64 can tell."""
    largest = float(singular_values[0]) if len(singular_values) else 0.0
    return max(shape) * float(np.finfo(np.float64).eps) * largest


def fits(map: LinearMap, max_entries: int) -> bool:
    """Return whether the map has at most max_entries entries."""
    return map.target.size * map.source.size <= max_entries


def guard(map: LinearMap, max_entries: int) -> None:
    """Raise SizeError if the dense form of a map would have more than max_entries entries."""
    if not fits(map, max_entries):
        rows, columns = map.shape
        raise SizeError(
            f"the dense form of {map.formula} is {rows:,} × {columns:,} = {rows * columns:,} entries "
            f"({rows * columns * 8 / 1e9:,.1f} GB), the limit is {max_entries:,}; ask for row, column, "
            f"top_entries, norm or svd, which need no dense form, or give dense(max_entries=...)"
        )


def guard_waist(map: LinearMap) -> None:
    """Raise SizeError if a side of the waist would have more than 2**28 entries."""
    longest = max(map.shape)
    if longest * map.rank_bound > MAX_WAIST:
        raise SizeError(
            f"a side of the waist of {map.formula} is {longest:,} × {map.rank_bound:,} = "
            f"{longest * map.rank_bound:,} entries, the limit is {MAX_WAIST:,}"
        )


@singledispatch
def dense(map: LinearMap, max_entries: int = MAX_ENTRIES) -> Array:
    """Return the array of shape (target, source), multiplied in the order of the cheapest plan.

    Raises SizeError, naming the size, if that is more than max_entries. A Dense map returns its own read-only
    array, of any size.
    """
    guard(map, max_entries)
    return np.ascontiguousarray(map.apply(np.eye(map.source.size)).T)


@singledispatch
def halves(map: LinearMap) -> tuple[LinearMap, LinearMap]:
    """Return (left, right), still factored, with map == left @ right and the smallest inner size."""
    raise NotImplementedError(f"{type(map).__name__} registers no halves")


def waist(map: LinearMap) -> tuple[Array, Array]:
    """Return dense (left, right) with map == left @ right and the smallest inner size, map.rank_bound.

    Shapes decide where to cut; each side is multiplied in the order of its cheapest plan.
    Raises SizeError if a side would have more than 2**28 entries.
    """
    left, right = halves(map)
    return wide(left), wide(right)


def wide(map: LinearMap) -> Array:
    """Return the dense form of one side of a waist, in float64."""
    return dense(map, MAX_WAIST).astype(np.float64, copy=False)


@singledispatch
def norm(map: LinearMap) -> float:
    """Return the Frobenius norm, through the triangular factors of the waist.

    They are the Gram matrices' Cholesky factors, found without squaring the condition number: O((m + n) r²).
    """
    return frobenius(map)


def frobenius(map: LinearMap) -> float:
    """Return the Frobenius norm through the triangular factors of the waist, whatever the kind."""
    return float(np.linalg.norm(_small(map)))


@singledispatch
def trace(map: LinearMap) -> float:
    """Return the trace of an endomorphism, from the smallest cyclic rotation; raises SpaceError otherwise."""
    endomorphism(map, "trace")
    return float(np.trace(_turned(map)))


@singledispatch
def svd(map: LinearMap) -> Svd:
    """Return the singular value decomposition through the smallest waist, O((m + n) r²), signs fixed.

    See `Svd` for the sign rule.
    """
    (left, lower), (right, upper) = _orthonormal(map)
    u, s, vh = np.linalg.svd(lower @ upper.T, full_matrices=False)
    return signed(left @ u, s, vh @ right.T)


@singledispatch
def singular_values(map: LinearMap) -> Array:
    """Return the singular values in descending order, as many as the smallest waist is wide."""
    return np.linalg.svd(_small(map), compute_uv=False)


@singledispatch
def eigenvalues(map: LinearMap) -> Eigenvalues:
    """Return the eigenvalues of an endomorphism from its smallest cyclic rotation.

    L R and R L share their nonzero eigenvalues, so those of the r × r product R L are all that can differ
    from zero; the rest is counted. Raises SpaceError if target and source differ.
    """
    endomorphism(map, "eigenvalues")
    return Eigenvalues(descending(np.linalg.eigvals(_turned(map))), map.target.size)


def eigenvectors(map: LinearMap) -> Eigenvectors:
    """Return the eigenvalues above the null cutoff, and their right eigenvectors as unit columns.

    If R L w = λ w then (L R)(L w) = λ (L w). Raises SpaceError if target and source differ.
    """
    endomorphism(map, "eigenvectors")
    left, _ = halves(map)
    turned = _turned(map)
    values, small = np.linalg.eig(turned)
    cutoff = null_cutoff(np.array([np.linalg.norm(turned, 2)]), map.shape)
    kept = [i for i in _order(values) if abs(values[i]) > cutoff]
    vectors = (left @ small[:, kept].real) + 1j * (left @ small[:, kept].imag)
    return Eigenvectors(values[kept].astype(np.complex128), vectors / np.linalg.norm(vectors, axis=0))


def rank(map: LinearMap, tolerance: float | None = None) -> int:
    """Return how many singular values exceed tolerance (absolute), by default `null_cutoff`."""
    values = singular_values(map)
    return int(np.sum(values > (null_cutoff(values, map.shape) if tolerance is None else tolerance)))


def gain(map: LinearMap) -> float:
    """Return norm² / source.size, the mean factor on the squared length of a white-noise input."""
    return norm(map) ** 2 / map.source.size


@singledispatch
def column(map: LinearMap, index: int) -> Array:
    """Return one column, shape (target,): the image of one source coordinate."""
    return map.apply(_one_hot(map.source.size, within(map.source.size, index, "column", map)))


def row(map: LinearMap, index: int) -> Array:
    """Return one row, shape (source,): how one target coordinate reads the source."""
    within(map.target.size, index, "row", map)
    return column(map.T, index)


@singledispatch
def entry(map: LinearMap, i: int, j: int) -> float:
    """Return the entry of target coordinate i and source coordinate j."""
    within(map.target.size, i, "row", map)
    return float(column(map, j)[i])


@singledispatch
def diagonal(map: LinearMap) -> Array:
    """Return the diagonal of a square map, shape (size,), through the smallest waist."""
    square(map, "diagonal")
    left, right = waist(map)
    return np.asarray(np.einsum("ir,ri->i", left, right))


def adjoint_gap(map: LinearMap, rng: np.random.Generator) -> float:
    """Return |⟨y, M x⟩ - ⟨Mᵀ y, x⟩| for random x and y, relative to ‖y‖ ‖M x‖ + ‖Mᵀ y‖ ‖x‖: the dot test.

    A correct transpose leaves rounding, about 1e-16; a wrong one leaves about 1.
    """
    x, y = rng.standard_normal(map.source.size), rng.standard_normal(map.target.size)
    forward, backward = map.apply(x), map.T.apply(y)
    size = np.linalg.norm(y) * np.linalg.norm(forward) + np.linalg.norm(backward) * np.linalg.norm(x)
    gap = abs(y @ forward - backward @ x)
    return float(gap / size) if size else float(gap)


def endomorphism(map: LinearMap, what: str) -> None:
    """Raise SpaceError unless target and source are the same space."""
    if map.target != map.source:
        raise SpaceError(
            f"{what} asked of {map.formula}, which goes from {map.source} to {map.target}; "
            f"only a map of a space to itself has one"
        )


def square(map: LinearMap, what: str) -> None:
    """Raise SpaceError unless target and source have the same size."""
    if map.target.size != map.source.size:
        rows, columns = map.shape
        raise SpaceError(f"{what} asked of {map.formula}, which is {rows} × {columns}, not square")


def within(size: int, index: int, what: str, map: LinearMap) -> int:
    """Return the index, or raise SpaceError if there is no such row or column."""
    if not 0 <= index < size:
        raise SpaceError(f"{what} {index} asked of {map!r}; the {what}s are 0 to {size - 1}")
    return index


def descending(values: Array) -> NDArray[np.complex128]:
    """Return values as complex, by descending magnitude, then real part, then imaginary part."""
    return values[_order(values)].astype(np.complex128)


def signed(U: Array, S: Array, Vh: Array) -> Svd:
    """Fix the signs: the first entry within 1e-9 of the largest magnitude of each column of U is positive."""
    magnitudes = np.abs(U)
    if not U.size:
        return Svd(U, S, Vh)
    first = np.argmax(magnitudes >= (1 - 1e-9) * magnitudes.max(axis=0), axis=0)
    signs = np.where(U[first, np.arange(U.shape[1])] < 0, -1.0, 1.0)
    return Svd(U * signs, S, Vh * signs[:, None])


def _order(values: Array) -> NDArray[np.intp]:
    return np.lexsort((-values.imag, -values.real, -np.abs(values)))


def _one_hot(size: int, index: int) -> Array:
    x = np.zeros(size)
    x[index] = 1.0
    return x


def _turned(map: LinearMap) -> Array:
    """Return the smallest cyclic rotation R L of map == L R as an array."""
    left, right = halves(map)
    return wide(right @ left)


def _orthonormal(map: LinearMap) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Return QR factors of the left side and of the transposed right side."""
    left, right = waist(map)
    return np.linalg.qr(left), np.linalg.qr(right.T)


def _small(map: LinearMap) -> Array:
    """Return a small matrix with the map's singular values."""
    left, right = waist(map)
    lower, upper = (np.asarray(np.linalg.qr(side, mode="r")) for side in (left, right.T))
    return lower @ upper.T
