"""Maps made of maps: Scaled, Chain, Sum and Kron. They check their spaces when made and multiply nothing.

These classes hold what they are given; `combine` simplifies first and is what the operators call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from numbers import Real
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from ..errors import SpaceError, WeightsError
from .arrays import Array
from .maps import LinearMap, within

SHOWN_TERMS = 8


@final
@dataclass(frozen=True, eq=False, repr=False)
class Scaled(LinearMap):
    """A finite real number times a map."""

    factor: float
    map: LinearMap

    def __post_init__(self) -> None:
        self._between(self.map.target, self.map.source)
        object.__setattr__(self, "factor", finite(self.factor))

    @property
    def word(self) -> tuple[LinearMap, ...]:
        return self.map.word

    def apply(self, x: ArrayLike) -> Array:
        return self.factor * self.map.apply(x)

    def transpose(self) -> LinearMap:
        return Scaled(self.factor, self.map.T)

    @property
    def formula(self) -> str:
        return f"{'-' if self.factor == -1 else f'{self.factor:.4g} · '}{within(self.map, 1)}"

    @property
    def level(self) -> int:
        return 1

    @property
    def rank_bound(self) -> int:
        return self.map.rank_bound

    @property
    def apply_cost(self) -> int:
        return self.map.apply_cost + self.target.size


@final
@dataclass(frozen=True, eq=False, repr=False, init=False)
class Chain(LinearMap):
    """A product of maps, the leftmost applied last.

    Raises SpaceError where a map does not read the space that the map on its right writes.
    """

    factors: tuple[LinearMap, ...]

    def __init__(self, factors: Iterable[LinearMap]) -> None:
        object.__setattr__(self, "factors", chained(tuple(factors)))
        self._between(self.factors[0].target, self.factors[-1].source)

    @property
    def word(self) -> tuple[LinearMap, ...]:
        return self.factors

    def apply(self, x: ArrayLike) -> Array:
        return reduce(lambda y, factor: factor.apply(y), reversed(self.factors), self._taken(x))

    def transpose(self) -> LinearMap:
        return Chain(factor.T for factor in reversed(self.factors))

    @property
    def formula(self) -> str:
        return " · ".join(within(factor, 2) for factor in self.factors)

    @property
    def level(self) -> int:
        return 1

    @property
    def rank_bound(self) -> int:
        return min(factor.rank_bound for factor in self.factors)

    @property
    def apply_cost(self) -> int:
        return sum(factor.apply_cost for factor in self.factors)


@final
@dataclass(frozen=True, eq=False, repr=False, init=False)
class Sum(LinearMap):
    """A sum of maps that share both spaces; raises SpaceError if they do not."""

    terms: tuple[LinearMap, ...]

    def __init__(self, terms: Iterable[LinearMap]) -> None:
        object.__setattr__(self, "terms", parallel(tuple(terms)))
        self._between(self.terms[0].target, self.terms[0].source)

    def apply(self, x: ArrayLike) -> Array:
        taken = self._taken(x)
        total = np.array(self.terms[0].apply(taken))  # a copy: an identity returns x itself
        for term in self.terms[1:]:
            total = total + term.apply(taken)
        return total

    def transpose(self) -> LinearMap:
        return Sum(term.T for term in self.terms)

    @property
    def formula(self) -> str:
        shown = [within(term, 1) for term in self.terms[:SHOWN_TERMS]]
        rest = len(self.terms) - len(shown)
        text = " + ".join([*shown, f"… ({rest} more)"] if rest else shown)
        return text.replace(" + -", " - ")

    @property
    def level(self) -> int:
        return 0

    @property
    def rank_bound(self) -> int:
        return min(*self.shape, sum(term.rank_bound for term in self.terms))

    @property
    def apply_cost(self) -> int:
        return sum(term.apply_cost + self.target.size for term in self.terms)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Kron(LinearMap):
    """The Kronecker product left ⊗ right on product spaces: X goes to left @ X @ right.T.

    It acts on the flattened product axis (left coordinate slow, right coordinate fast) by reshaping, and is
    never formed. Its dense form is numpy's kron(left, right).
    """

    left: LinearMap
    right: LinearMap

    def __post_init__(self) -> None:
        maps_only((self.left, self.right), "a Kronecker product")
        self._between(self.left.target * self.right.target, self.left.source * self.right.source)

    def apply(self, x: ArrayLike) -> Array:
        taken = self._taken(x)
        y = taken.reshape(*taken.shape[:-1], self.left.source.size, self.right.source.size)
        right_first, left_first = self._costs
        y = self.left @ self.right.apply(y) if right_first <= left_first else self.right.apply(self.left @ y)
        return y.reshape(*taken.shape[:-1], self.target.size)

    @property
    def _costs(self) -> tuple[int, int]:
        """Multiply-adds for one stream: the right factor first, the left factor first."""
        left, right = self.left, self.right
        return (
            left.source.size * right.apply_cost + right.target.size * left.apply_cost,
            right.source.size * left.apply_cost + left.target.size * right.apply_cost,
        )

    def transpose(self) -> LinearMap:
        return Kron(self.left.T, self.right.T)

    @property
    def formula(self) -> str:
        return f"{within(self.left, 2)} ⊗ {within(self.right, 2)}"

    @property
    def level(self) -> int:
        return 1

    @property
    def rank_bound(self) -> int:
        return self.left.rank_bound * self.right.rank_bound

    @property
    def apply_cost(self) -> int:
        return min(self._costs)


def finite(factor: float) -> float:
    """Return a scalar as a float; raises WeightsError if it is not real or not finite."""
    if not isinstance(factor, Real) or not np.isfinite(float(factor)):
        raise WeightsError(f"a map is scaled by a finite real number, found {factor!r}")
    return float(factor)


def chained(maps: tuple[LinearMap, ...]) -> tuple[LinearMap, ...]:
    """Return the maps, checked to be a product; raises SpaceError for the first pair that does not meet."""
    maps_only(maps, "a product")
    for left, right in pairwise(maps):
        if left.source != right.target:
            raise SpaceError(
                f"cannot compose {left.formula} after {right.formula}: {left.formula} reads {left.source}, "
                f"but {right.formula} writes {right.target}{_hint(left, right)}"
            )
    return maps


def parallel(maps: tuple[LinearMap, ...]) -> tuple[LinearMap, ...]:
    """Return the maps, checked to share both spaces; raises SpaceError for the first that does not."""
    maps_only(maps, "a sum")
    first = maps[0]
    for map in maps[1:]:
        if (map.target, map.source) != (first.target, first.source):
            raise SpaceError(
                f"cannot add {first.formula} : {first.source} -> {first.target} "
                f"and {map.formula} : {map.source} -> {map.target}; the terms of a sum share both spaces"
            )
    return maps


def maps_only(maps: Sequence[object], what: str) -> None:
    """Raise SpaceError unless there is at least one map and nothing but maps."""
    if not maps:
        raise SpaceError(f"{what} needs at least one map, found none; its spaces would be unknown")
    for map in maps:
        if not isinstance(map, LinearMap):
            found = type(map).__name__
            raise SpaceError(f"{what} takes linear maps, found {found}; wrap an array in Dense first")


def _hint(left: LinearMap, right: LinearMap) -> str:
    if left.target == right.target:
        return f"; did you mean the transpose of {left.formula}?"
    return f"; did you mean the transpose of {right.formula}?" if left.source == right.source else ""
