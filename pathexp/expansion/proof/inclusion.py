"""Inclusions in ellipsoids, certified in floating point: one factorization for any number of points and sets.

Let P = L Lᵀ and C Cᵀ + k I ⪯ P. Then {L z : ‖z‖ ≤ 1} holds every C y + e with ‖y‖² + ‖e‖² / k ≤ 1, since for any covector r

    ⟨r, C y + e⟩ ≤ √(‖Cᵀ r‖² + k ‖r‖²) · √(‖y‖² + ‖e‖² / k) ≤ √(rᵀ P r).

C is the Cholesky factor of L Lᵀ − (k + s) I, computed. With γ_n of n roundings, L Lᵀ is computed with an error of at most
γ_d |L| |L|ᵀ, the factor is exact for a matrix that is off by at most γ_{d+1} |C| |C|ᵀ (Higham 2002, theorem 10.3; Rump 2006, "Verification
of Positive Definiteness"), and neither is longer than γ of the squares of all numbers of L: s is more than their sum.

Of a point x any y will do, so y is solved for with a computed inverse; e is what is left, x − C y, computed, with the rounding of
that product and with what x itself may be off by. Of columns B every B z is to be held, ‖z‖ ≤ 1: with B = C Y + E that is
λ(Yᵀ Y) + ‖E‖² / k ≤ 1, the largest eigenvalue, and what is left of one has a Cholesky factorization that runs to the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...graph import Array
from .evaluation import UP, Sure, gamma, long

RIDGES = tuple(range(-27, 0, 3))
"""Powers of two, as shares of a set's mean square, that a ridge may have: the first is less than the sliver that a search adds."""

THIN = -33
"""The power that is tried last: sets that are thin in some direction have no room for more."""


@dataclass(frozen=True, eq=False)
class _Triangle:
    """C, an inverse of it, and a ridge k with C Cᵀ + k I ⪯ P: proven. `around` is the Frobenius norm of C."""

    lower: Array
    inverse: Array
    ridge: float
    around: float

    def holds_points(self, x: Sure) -> NDArray[np.bool_]:
        """Whether points (m, d) are in the set, each wherever it is: (m,)."""
        y = x.value @ self.inverse.T
        size = long(y)
        error = long(x.value - y @ self.lower.T) + self._lost(long(x.value), size) + x.errors
        return np.asarray(size * size + error * error / self.ridge <= 1 / UP)

    def _lost(self, x: Array, y: Array) -> Array:
        """How far x − C y is from what is computed at most, by the lengths of x and y."""
        return np.asarray(gamma(len(self.lower)) * (x + self.around * y) * UP)

    def holds_columns(self, x: Array, off: float) -> bool:
        """Whether all points that columns (d, r) make are in the set, where the columns are off by at most `off` in norm."""
        y = self.inverse @ x
        size = long(y.reshape(-1))
        rest = long((x - self.lower @ y).reshape(-1))
        error = rest + self._lost(long(x.reshape(-1)), size) + off
        left = float(1 / UP - error * error / self.ridge)
        return bool(size * size <= left) or (left > 0 and _is_below(y, left))


def _is_below(y: Array, most: float) -> bool:
    """Whether no eigenvalue of Yᵀ Y is above a number: proven by a Cholesky factorization."""
    d, r = y.shape
    rest = -(y.T @ y if r <= d else y @ y.T)
    size = len(rest)
    lost = gamma(d + r + 64) * float(np.vdot(y, y) + most * size)
    rest[np.diag_indices(size)] += most - lost
    return _factor(rest) is not None


def _factor(matrix: Array) -> Array | None:
    """A Cholesky factor; None if the factorization does not run to the end."""
    try:
        found = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return None
    return np.asarray(found) if np.isfinite(found).all() else None


def _inverse(lower: Array) -> Array:
    """An inverse, as far as it can be computed; nothing is held by one that cannot."""
    try:
        return np.asarray(np.linalg.inv(lower))
    except np.linalg.LinAlgError:
        return np.full_like(lower, np.nan)


@dataclass(frozen=True, eq=False)
class Ellipsoid:
    """{L z : ‖z‖ ≤ 1}, L (d, d), in coordinates that are `scale` (d,) times as large: powers of two."""

    original: Array
    scale: Array

    @classmethod
    def of(cls, axes: Array, alike: bool) -> Ellipsoid:
        """A set in coordinates of which the largest, or each, reaches to about one."""
        size = np.abs(axes).max(axis=1, initial=0.0)
        most = np.full(len(axes), size.max(initial=0.0)) if alike else size
        powers = np.where((most > 0) & (most < np.inf), np.frexp(most)[1], 0)
        scale = np.ldexp(1.0, np.clip(-powers, -1022, 1023))
        return cls(axes, scale)

    @cached_property
    def axes(self) -> Array:
        """L in these coordinates."""
        return np.asarray(self.original * self.scale[:, None])

    @cached_property
    def _square(self) -> float:
        """The sum of the squares of all numbers of L."""
        return float(np.vdot(self.axes, self.axes))

    @cached_property
    def _shape(self) -> Array:
        return np.asarray(self.axes @ self.axes.T)

    @cached_property
    def _triangles(self) -> dict[int, _Triangle | None]:
        return {}

    def _triangle(self, power: int) -> _Triangle | None:
        if power not in self._triangles:
            self._triangles[power] = self._made(power)
        return self._triangles[power]

    def _made(self, power: int) -> _Triangle | None:
        if not 0 < self._square < np.inf:
            return None
        size, ridge = len(self.axes), self._ridge(power)
        shape = self._shape.copy()
        shape[np.diag_indices(size)] -= ridge + gamma(2 * size + 64) * self._square
        lower = _factor(shape)
        if lower is None:
            return None
        return _Triangle(lower, _inverse(lower), ridge, float(long(lower.reshape(-1))))

    def _ridge(self, power: int) -> float:
        return self._square / len(self.axes) * 2.0**power

    def _tries(self, error: float) -> Iterator[_Triangle]:
        """The triangles whose ridges may cover an error, those that leave most of the set first."""
        for power in (*RIDGES, THIN):
            if error * error < self._ridge(power) and (made := self._triangle(power)) is not None:
                yield made

    def holds_points(self, x: Sure) -> NDArray[np.bool_]:
        """Whether points (m, d), each wherever it may be, are in the set: (m,)."""
        x = Sure(x.value * self.scale, x.off * self.scale, x.errors * self.scale.max())
        held, errors = np.zeros(len(x.value), dtype=bool), x.errors
        for power in (*RIDGES, THIN):
            some = np.flatnonzero(~held & (errors**2 < self._ridge(power)))
            if len(some) and (made := self._triangle(power)) is not None:
                held[some] = made.holds_points(x.at(some.tolist()))
        return held

    def holds_columns(self, x: Array, off: Array) -> bool:
        """Whether all points that columns (d, r) make are in the set, where rows are off by at most `off` (d,) in norm."""
        error = float(long(off * self.scale))
        columns = x * self.scale[:, None]
        return any(made.holds_columns(columns, error) for made in self._tries(error))


@dataclass(frozen=True, eq=False)
class Enclosure:
    """Sets L (n, d, d), one at each position."""

    axes: Array

    @cached_property
    def _sets(self) -> tuple[tuple[Ellipsoid, Ellipsoid], ...]:
        """At each position the set as it is, and with every coordinate brought to about one."""
        usable = np.asarray(np.isfinite(self.axes).all(axis=(1, 2), keepdims=True))
        finite = np.where(usable, self.axes, 0.0)
        return tuple((Ellipsoid.of(each, alike=True), Ellipsoid.of(each, alike=False)) for each in finite)

    def holds_points(self, x: Sure) -> NDArray[np.bool_]:
        """Whether points (m, n, d) are in the sets of all positions, each wherever it may be: (m,)."""
        found = np.ones(len(x.value), dtype=bool)
        for at, sets in enumerate(self._sets):
            here = Sure(x.value[:, at], x.off[:, at], x.errors[:, at])
            held = np.zeros(len(found), dtype=bool)
            for each in sets:
                some = np.flatnonzero(found & ~held)
                held[some] = each.holds_points(here.at(some.tolist()))
            found &= held
        return found

    def holds_columns(self, x: Array, off: Array) -> bool:
        """Whether the sets hold all that columns (n, d, r) make with ‖z‖ ≤ 1, rows off by at most `off` (n, d) in norm."""
        return all(
            any(each.holds_columns(x[at], off[at]) for each in sets) for at, sets in enumerate(self._sets)
        )
