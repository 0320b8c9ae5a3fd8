"""What can be asked of a linear map. Everything goes through factors; nothing larger than needed is formed.

Each function is generic: the algorithm here serves any map that can be cut at a waist, and `rules` registers
what a kind knows better. A new kind registers `halves`, and `dense` if it knows a way better than acting on
the identity.
"""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING

import numpy as np

from ..budget import BUDGET
from ..errors import SizeError, SpaceError
from .arrays import Array, frobenius, within_range
from .spectra import Eigenvalues, Eigenvectors, Svd, by_magnitude, descending, null_cutoff, signed

if TYPE_CHECKING:
    from .maps import LinearMap

MAX_ENTRIES = 2**25
"""How many entries `dense` forms without being asked: 256 MB of float64."""

MAX_WAIST = 2**28
"""How many entries a side of a waist may have: 2 GB of float64."""


@singledispatch
def composed(left: LinearMap, right: LinearMap) -> LinearMap:
    """Return left after right; what `@` means."""
    raise NotImplementedError(f"no product registered for {type(left).__name__}")


@singledispatch
def added(left: LinearMap, right: LinearMap) -> LinearMap:
    """Return the sum; what `+` means."""
    raise NotImplementedError(f"no sum registered for {type(left).__name__}")


@singledispatch
def scaled(map: LinearMap, factor: float) -> LinearMap:
    """Return the multiple; what `*` by a number means."""
    raise NotImplementedError(f"no multiple registered for {type(map).__name__}")


@singledispatch
def dense(map: LinearMap, max_entries: int = MAX_ENTRIES) -> Array:
    """Return the array of shape (target, source), multiplied in the order of the cheapest plan.

    Raises SizeError, naming the size, if that is more than max_entries. A Dense map returns its own
    read-only array, of any size.
    """
    guard(map, max_entries)
    return np.ascontiguousarray(map.apply(np.eye(map.source.size)).T)


@singledispatch
def halves(map: LinearMap) -> tuple[LinearMap, LinearMap]:
    """Return (left, right), still factored, with map == left @ right and inner size map.rank_bound."""
    raise NotImplementedError(f"no halves registered for {type(map).__name__}")


def waist(map: LinearMap) -> tuple[Array, Array]:
    """Return dense (left, right) with map == left @ right and the smallest inner size, map.rank_bound.

    Shapes decide where to cut; each side is multiplied in the order of its cheapest plan.
    Raises SizeError if a side would have more than 2**28 entries.
    """
    left, right = halves(map)
    return wide(left), wide(right)


@singledispatch
def norm(map: LinearMap) -> float:
    """Return the Frobenius norm, through the triangular factors of the waist, O((m + n) r²).

    They are the Cholesky factors of the sides' Gram matrices, found without squaring condition numbers.
    """
    return frobenius(reduced(map))


@singledispatch
def trace(map: LinearMap) -> float:
    """Return the trace, from the smallest cyclic rotation; raises SpaceError if target and source differ."""
    endomorphism(map, "trace")
    return float(np.trace(turned(map)))


@singledispatch
def svd(map: LinearMap) -> Svd:
    """Return the singular value decomposition through the smallest waist, O((m + n) r²), signs fixed.

    `Svd` states the sign rule. As many singular values as the waist is wide, null ones included.
    """
    if not is_narrow(map):
        return signed(*np.linalg.svd(wide(map), full_matrices=False))
    left, right = waist(map)
    q_left, lower = np.linalg.qr(left)
    q_right, upper = np.linalg.qr(right.T)
    with within_range(map.formula):
        u, s, vh = np.linalg.svd(lower @ upper.T, full_matrices=False)
    return signed(q_left @ u, s, vh @ q_right.T)


@singledispatch
def singular_values(map: LinearMap) -> Array:
    """Return the singular values in descending order, as many as the smallest waist is wide."""
    return np.asarray(np.linalg.svd(reduced(map), compute_uv=False), dtype=np.float64)


@singledispatch
def eigenvalues(map: LinearMap) -> Eigenvalues:
    """Return the eigenvalues of an endomorphism from its smallest cyclic rotation.

    L R and R L share their nonzero eigenvalues, so those of the r × r product R L are all that can differ
    from zero; the rest is counted. Raises SpaceError if target and source differ.
    """
    endomorphism(map, "eigenvalues")
    return Eigenvalues(descending(np.linalg.eigvals(turned(map))), map.target.size)


def eigenvectors(map: LinearMap) -> Eigenvectors:
    """Return the eigenvalues above the null cutoff, and their right eigenvectors as unit columns.

    If R L w = λ w then (L R)(L w) = λ (L w). Those of a map that equals its transpose, but for the rounding of its product, are
    real and orthonormal, equal eigenvalues included. Raises SpaceError if target and source differ.
    """
    endomorphism(map, "eigenvectors")
    if not is_narrow(map) and np.array_equal(whole := wide(map), whole.T):
        return _symmetric_eigenvectors(whole)
    if is_narrow(map) or len(map.word) > 1:
        sides = waist(map)
        basis = np.linalg.qr(sides[0])[0]
        if (seen := _seen_in(basis, *sides)) is not None:
            values, vectors = _symmetric_eigenvectors(seen)
            return Eigenvectors(values, (basis @ vectors.real).astype(np.complex128))
    left, _ = halves(map)
    rotated = turned(map)
    values, small = np.linalg.eig(rotated)
    cutoff = null_cutoff(np.asarray(np.linalg.svd(rotated, compute_uv=False)), map.shape)
    kept = [i for i in by_magnitude(values) if abs(values[i]) > cutoff]
    vectors = (left @ small[:, kept].real) + 1j * (left @ small[:, kept].imag)
    return Eigenvectors(values[kept].astype(np.complex128), vectors / np.linalg.norm(vectors, axis=0))


def _seen_in(basis: Array, left: Array, right: Array) -> Array | None:
    """The symmetric array that left @ right is in an orthonormal basis of what left writes; None if it is not symmetric.

    M is symmetric if and only if M Q = Mᵀ Q for such a basis Q. Both sides are rounded by u √K of the factors' lengths, K the
    inner sizes; ten times as much is allowed.
    """
    with within_range("the symmetric part of a map"):
        forward, backward = left @ (right @ basis), right.T @ (left.T @ basis)
        unit = float(np.finfo(np.float64).eps) / 2 * float(np.sqrt(sum(left.shape) * basis.shape[1]))
        allowed = 10 * unit * frobenius(left) * frobenius(right)
        if not (np.isfinite(allowed) and frobenius(forward - backward) <= allowed):
            return None
        seen = basis.T @ forward
        return np.asarray((seen + seen.T) / 2)


def _symmetric_eigenvectors(whole: Array) -> Eigenvectors:
    """Real eigenvalues above the null cutoff, the largest in magnitude first, and orthonormal eigenvectors."""
    values, vectors = np.linalg.eigh(whole)
    cutoff = null_cutoff(np.sort(np.abs(values))[::-1], whole.shape)
    kept = [i for i in by_magnitude(values.astype(np.complex128)) if abs(values[i]) > cutoff]
    return Eigenvectors(values[kept].astype(np.complex128), vectors[:, kept].astype(np.complex128))


def rank(map: LinearMap, tolerance: float | None = None) -> int:
    """Return how many singular values exceed an absolute tolerance, by default `null_cutoff`."""
    values = singular_values(map)
    return int(np.sum(values > (null_cutoff(values, map.shape) if tolerance is None else tolerance)))


def gain(map: LinearMap) -> float:
    """Return norm² / source.size, the mean factor on the squared length of a white-noise input."""
    return norm(map) ** 2 / map.source.size


def adjoint_gap(map: LinearMap, rng: np.random.Generator) -> float:
    """Return |⟨y, M x⟩ - ⟨Mᵀ y, x⟩| for random x and y, relative to ‖y‖ ‖M x‖ + ‖Mᵀ y‖ ‖x‖: the dot test.

    A correct transpose leaves rounding, about 1e-16; a wrong one leaves a fraction of 1.
    """
    x, y = rng.standard_normal(map.source.size), rng.standard_normal(map.target.size)
    forward, backward = map.apply(x), map.T.apply(y)
    size = np.linalg.norm(y) * np.linalg.norm(forward) + np.linalg.norm(backward) * np.linalg.norm(x)
    gap = abs(y @ forward - backward @ x)
    return float(gap / size) if size else 0.0


def is_narrow(map: LinearMap) -> bool:
    """Return whether the map has a waist narrower than both its spaces; if not, factors save nothing."""
    return map.rank_bound < min(map.shape)


def wide(map: LinearMap) -> Array:
    """Return the dense form of one side of a waist, in float64."""
    return dense(map, MAX_WAIST).astype(np.float64, copy=False)


def reduced(map: LinearMap) -> Array:
    """Return a small array with the map's singular values: r × r if it has a waist, else the dense form."""
    if not is_narrow(map):
        return wide(map)
    lower, upper = triangles(map)
    with within_range(map.formula):
        return np.asarray(lower @ upper.T)


def triangles(map: LinearMap) -> tuple[Array, Array]:
    """Return the triangular factors of the sides of a map's waist, of left and of rightᵀ, kept for all who ask: O((m + n) r²)."""
    return BUDGET.get(map, "triangles", lambda: _triangles(*waist(map)))


def _triangles(left: Array, right: Array) -> tuple[Array, Array]:
    return np.asarray(np.linalg.qr(left, mode="r")), np.asarray(np.linalg.qr(right.T, mode="r"))


def guard(map: LinearMap, max_entries: int) -> None:
    """Raise SizeError if the dense form of a map would have more than max_entries entries."""
    rows, columns = map.shape
    if rows * columns > max_entries:
        raise SizeError(
            f"the dense form of {map.formula} is {rows:,} × {columns:,} = {rows * columns:,} entries "
            f"({rows * columns * 8 / 1e9:,.1f} GB), the limit is {max_entries:,}; ask for row, column, "
            f"top_entries, norm or svd, which need no dense form, or give dense(max_entries=...)"
        )


def endomorphism(map: LinearMap, what: str) -> None:
    """Raise SpaceError unless target and source are the same space."""
    if map.target != map.source:
        raise SpaceError(
            f"{what} asked of {map.formula}, which goes from {map.source} to {map.target}; "
            f"only a map of a space to itself has one"
        )


def turned(map: LinearMap) -> Array:
    """Return the smallest cyclic rotation R L of map == L R as an array."""
    left, right = halves(map)
    return wide(composed(right, left))
