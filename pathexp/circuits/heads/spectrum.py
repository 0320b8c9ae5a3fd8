"""The eigenvalues of a map of a space to itself, and who wins each row of a table.

Elhage et al. 2021, "Detecting Copying Behavior".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...algebra import LinearMap, waist
from ...algebra.operations import endomorphism
from ...arguments import expect, instance
from ...graph import Array
from .row_maxima import maximum_at

NO_EIGENVALUES = "no nonzero eigenvalues"


@dataclass(frozen=True)
class Spectrum:
    """The eigenvalues of a map of a space to itself, zeros left out, and what their signs say.

    `eigenvalues` are complex, by descending magnitude; `size` is the dimension of the space, all other
    eigenvalues being zero. `score` is Σλ / Σ|λ|, from -1 to 1, and `positive` the share of Σ|λ| that
    eigenvalues of positive real part hold; both are None, with a `reason`, where that is 0/0. Of weights of
    extreme size (beyond 2^±40) the eigenvalues are `eigenvalues` · 2^`exponent`, which float64 may not hold.
    """

    eigenvalues: NDArray[np.complex128]
    size: int
    exponent: int = 0

    @property
    def total(self) -> float:
        """Σ|λ|."""
        return float(np.abs(self.eigenvalues).sum())

    @cached_property
    def score(self) -> float | None:
        """The copying score Σλ / Σ|λ|; real, since eigenvalues come in conjugate pairs."""
        return None if self.reason else float(self.eigenvalues.real.sum()) / self.total + 0.0

    @property
    def positive(self) -> float | None:
        """The share of Σ|λ| with positive real part."""
        if self.reason:
            return None
        return float(np.abs(self.eigenvalues[self.eigenvalues.real > 0]).sum()) / self.total

    @property
    def reason(self) -> str | None:
        """Why the scores are undefined, or None where they are defined."""
        return None if len(self.eigenvalues) else NO_EIGENVALUES

    def __reduce__(self) -> tuple[Any, ...]:
        return Spectrum, (self.eigenvalues, self.size, self.exponent)

    def __post_init__(self) -> None:
        self.eigenvalues.setflags(write=False)

    def __repr__(self) -> str:
        found = self.reason if self.score is None else f"score {self.score:+.4f}"
        return f"<Spectrum: {len(self.eigenvalues)} of {self.size} eigenvalues, {found}>"


def spectrum(map: LinearMap) -> Spectrum:
    """Return the eigenvalues of a map that can be told from zero.

    They are those of the smallest cyclic rotation, r × r for a map of rank r. An eigenvalue no larger than its
    own rounding error (its condition number times ε times the norm) counts as zero, so that a nilpotent map has
    none instead of a ring of tiny ones. Raises SpaceError unless the map goes from a space to itself.
    O((size) r² + r³).

    >>> from pathexp.algebra import Dense, Space
    >>> plane = Space("plane", 2)
    >>> spectrum(Dense([[0, -1], [1, 0]], plane, plane)).score  # a quarter turn: λ = ±i
    0.0
    >>> spectrum(Dense([[0, 1], [0, 0]], plane, plane))  # nilpotent
    <Spectrum: 0 of 2 eigenvalues, no nonzero eigenvalues>
    """
    expect("spectrum", map=(map, instance(LinearMap, "a linear map")))
    endomorphism(map, "spectrum")
    left, right = waist(map)
    return turned_spectrum(right @ left, float(np.linalg.norm(left) * np.linalg.norm(right)), map.target.size)


def turned_spectrum(turned: Array, scale: float, size: int) -> Spectrum:
    """Return the spectrum of a map of a space of `size` dimensions from its cyclic rotation, (r, r).

    `scale` is the product of the norms of what was multiplied to `turned`: its entries are known to about ε times
    that.
    """
    values, errors = _values_and_errors(turned, scale)
    kept = values[np.abs(values) > errors]
    order = np.lexsort((-kept.imag, -kept.real, -np.abs(kept).round(12)))
    return Spectrum(kept[order].astype(np.complex128), size)


def _values_and_errors(turned: Array, scale: float) -> tuple[NDArray[np.complex128], Array]:
    """Eigenvalues, and how far rounding may have moved each: scale · ε / |yᴴ x| (Golub & Van Loan, 7.2.2)."""
    if not turned.size or not turned.any():
        return np.zeros(0, dtype=np.complex128), np.zeros(0)
    values, right = np.linalg.eig(turned)
    condition = _conditions(right)
    rounding = len(turned) * np.finfo(np.float64).eps
    return values.astype(np.complex128), rounding * condition * scale


def _conditions(right: NDArray[np.complex128]) -> Array:
    """The condition number of each eigenvalue, from unit right eigenvectors; infinite where they are dependent."""
    try:
        left = np.linalg.inv(right)
    except np.linalg.LinAlgError:
        return np.full(len(right), np.inf)
    with np.errstate(over="ignore"):  # an infinite condition number is one
        return np.asarray(np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=0))


def row_maximum_on_diagonal(map: LinearMap) -> float:
    """Return the share of rows whose largest entry stands on the diagonal; ties count for the diagonal.

    For an OV table: of how many tokens the logit is raised most by attending to that token itself. Each row is formed
    only until an entry is above the one on the diagonal. Raises SpaceError unless the map goes from a space to itself.

    >>> from pathexp.algebra import Dense, Space
    >>> three = Space("three", 3)
    >>> row_maximum_on_diagonal(Dense([[5, 1, 0], [9, 2, 0], [0, 0, 1]], three, three))
    0.6666666666666666
    """
    expect("row_maximum_on_diagonal", map=(map, instance(LinearMap, "a linear map")))
    endomorphism(map, "row maximum on the diagonal")
    left, right = waist(map)
    return float(maximum_at(left, right, np.arange(len(left)), ties=True).mean())
