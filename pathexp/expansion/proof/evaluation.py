"""Streams and covectors with a bound on the rounding of every number, by running the same operators on absolute values.

A product of factors is off by at most γ_N |W_1|…|W_m||x| in each number, in whatever order it was multiplied (Higham 2002, §3.5).
What underflows on the way is off by an absolute amount besides, which grows in all factors that are multiplied after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np

from ...algebra import Chain, Diagonal, Identity, Kron, LinearMap, Scaled, Sum, Zero
from ...graph import (
    Action,
    Array,
    Factor,
    Gate,
    Operator,
    Parallel,
    Part,
    Step,
    WeakCache,
    lengths,
    pull,
    push,
)

UNIT = float(np.finfo(np.float64).eps) / 2
TINY = 1e-290
"""More than what underflows in the sums of a step, before any factor enlarges it."""


def gamma(roundings: int) -> float:
    """Return γ_n of a little more than n roundings in double precision, for bounds that are rounded themselves."""
    lost = 2 * (roundings + 8) * UNIT
    return lost / (1 - lost)


def from_zero(excess: float) -> float:
    """Return an excess, 0 for none; infinite where it is no number."""
    return max(0.0, excess) if excess == excess else float("inf")


@dataclass(frozen=True, eq=False)
class Sure:
    """Numbers, and how far each of them may be off."""

    value: Array
    off: Array

    @classmethod
    def exactly(cls, value: Array) -> Sure:
        """Numbers that are what they are."""
        return cls(value, np.zeros_like(value))

    def at(self, chosen: int | list[int]) -> Sure:
        """Some of the numbers along the first axis."""
        return Sure(np.asarray(self.value[chosen]), np.asarray(self.off[chosen]))


def pushed(operator: Operator, x: Sure) -> Sure:
    """Apply an operator to streams (..., position, feature)."""
    if not operator:
        return x
    return Sure(push(operator, x.value), sized(operator, x.off) + lost(operator, np.abs(x.value) + x.off))


def pulled(operator: Operator, r: Sure) -> Sure:
    """Pull covectors (..., position, feature) back through an operator."""
    if not operator:
        return r
    if not all(map(_is_there, operator)):
        return Sure.exactly(np.zeros_like(pull(operator, r.value)))
    more = lost(operator, np.abs(r.value) + r.off, back=True)
    return Sure(pull(operator, r.value), sized(operator, r.off, back=True) + more)


def lost(operator: Operator, x: Array, back: bool = False) -> Array:
    """Return how far what is computed of an operator, or of its transpose, on numbers of at most x is from exact."""
    least = prod([TINY, *map(_growth, operator)]) * (1 + float(x.max(initial=0.0)))
    return gamma(roundings(operator)) * sized(operator, x, back) + least


def _growth(part: Part) -> float:
    """How much what underflowed before a part, or among its factors, can grow in it; at least 1."""
    match part:
        case Gate():
            return max(1.0, float(np.max(np.abs(part.numbers()), initial=0.0)))
        case Action():
            return part.grows
        case Parallel(terms=terms):
            return max(1.0, sum(prod(map(_growth, term)) for term in terms))
    return prod(map_growth(factor.numbers()) for factor in part.position + part.feature)


def map_growth(map: LinearMap) -> float:
    """Return how much a number can grow in a map or any part of it, and in its transpose; at least 1."""
    match map:
        case Identity() | Zero():
            return 1.0
        case Diagonal(values=values):
            return max(1.0, float(np.max(np.abs(values), initial=0.0)))
        case Scaled(factor=factor, map=inner):
            return max(1.0, abs(float(factor))) * map_growth(inner)
        case Chain(factors=factors):
            return prod(map_growth(factor) for factor in factors)
        case Sum(terms=terms):
            return max(1.0, sum(map_growth(term) for term in terms))
        case Kron(left=left, right=right):
            return map_growth(left) * map_growth(right)
    return _GROWTH.get(map, "growth", lambda: _dense_growth(map))


def _dense_growth(map: LinearMap) -> float:
    size = absolute(map)
    return max(1.0, float(size.max(initial=0.0)) * max(map.shape))


_GROWTH: WeakCache[LinearMap, float] = WeakCache()
"""Of the maps that are alive: a check applies each to many streams."""


def _is_there(part: Part) -> bool:
    """Whether a part has numbers that are not all zero in every factor."""
    match part:
        case Gate():
            return bool(np.any(part.numbers()))
        case Step():
            return all(np.any(absolute(factor.numbers())) for factor in part.position + part.feature)
    return True


def roundings(operator: Operator) -> int:
    """Return how many roundings a number meets on its way through an operator, at most."""
    return len(operator) + sum(map(_of_part, operator))


def _of_part(part: Part) -> int:
    match part:
        case Gate():
            return 1
        case Action():
            return part.roundings
        case Parallel(terms=terms):
            return len(terms) + max(map(roundings, terms), default=0)
    return sum(map_roundings(factor.numbers()) for factor in part.position + part.feature)


def map_roundings(map: LinearMap) -> int:
    """Return how many roundings a number meets on its way through a map, at most."""
    match map:
        case Chain(factors=parts) | Sum(terms=parts):
            return len(parts) + max(map.shape) + sum(map_roundings(part) for part in parts)
        case Scaled(map=inner):
            return 1 + map_roundings(inner)
        case Kron(left=left, right=right):
            return map_roundings(left) + map_roundings(right)
    return max(map.shape) + 1


def absolute(map: LinearMap) -> Array:
    """Return |W| as an array; of sums and products the sums and products of absolute values."""
    match map:
        case Identity() | Zero() | Diagonal():
            return np.abs(map.dense())
        case Scaled(factor=factor, map=inner):
            return abs(factor) * absolute(inner)
        case Chain(factors=factors):
            return reduce(np.matmul, [absolute(factor) for factor in factors])
        case Sum(terms=terms):
            return np.asarray(sum(absolute(term) for term in terms))
        case Kron(left=left, right=right):
            return np.asarray(np.kron(absolute(left), absolute(right)), dtype=np.float64)
    return np.abs(map.dense(max_entries=2**31))


def sized(operator: Operator, x: Array, back: bool = False) -> Array:
    """Return an operator with absolute values for its numbers, applied to numbers from 0 up; or its transpose."""
    return reduce(lambda y, part: _sized(part, y, back), operator if back else reversed(operator), x)


def _sized(part: Part, x: Array, back: bool) -> Array:
    match part:
        case Gate():
            return np.asarray(np.abs(part.numbers()) * x)
        case Parallel(terms=terms):
            return reduce(np.add, (sized(term, x, back) for term in terms))
        case Action():
            return _reached(part, x, back)
    for factor in part.feature if back else reversed(part.feature):
        x = x @ _matrix(factor, back)
    for factor in part.position if back else reversed(part.position):
        x = np.swapaxes(np.swapaxes(x, -1, -2) @ _matrix(factor, back), -1, -2)
    return x


def _reached(part: Action, x: Array, back: bool) -> Array:
    """What an action can make of numbers from 0 up: no number is larger than its vector can be long."""
    amounts = part.reach(np.eye(part.positions))
    long = lengths(x) * (1 + 1e-9)
    far = long @ (amounts.T if back else amounts)
    width = part.columns if back else part.rows
    return np.asarray(np.broadcast_to(far[..., None], (*far.shape, width)))


def _matrix(factor: Factor, back: bool) -> Array:
    matrix = absolute(factor.numbers())
    return matrix if back else matrix.T
