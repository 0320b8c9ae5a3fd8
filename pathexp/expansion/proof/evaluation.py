"""Streams and covectors with a bound on the rounding of every number, by running the same operators on absolute values.

A product of factors is off by at most γ_N |W_1|…|W_m||x| in each number, in whatever order it was multiplied (Higham 2002, §3.5).
What underflows on the way is off by an absolute amount besides, which grows in all factors that are multiplied after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np

from ...algebra import Chain, Diagonal, Identity, Kron, LinearMap, Scaled, Sum, Zero
from ...graph import (
    Action,
    Array,
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
    """Numbers, and how far each of them may be off.

    `far` (..., position) bounds how long the vectors of what they are off by can be, where that is known better.
    """

    value: Array
    off: Array
    far: Array | None = None

    @classmethod
    def exactly(cls, value: Array) -> Sure:
        """Numbers that are what they are."""
        return cls(value, np.zeros_like(value))

    def at(self, chosen: int | list[int]) -> Sure:
        """Some of the numbers along the first axis."""
        far = None if self.far is None else np.asarray(self.far[chosen])
        return Sure(np.asarray(self.value[chosen]), np.asarray(self.off[chosen]), far)

    @property
    def errors(self) -> Array:
        """Bounds on the lengths of what the vectors are off by, (..., position)."""
        found = long(self.off)
        return found if self.far is None else np.fmin(found, self.far)


def stacked(all: Sequence[Sure]) -> Sure:
    """Put numbers side by side along a new first axis."""
    value, off, far = (np.stack([getattr(x, name) for x in all]) for name in ("value", "off", "errors"))
    return Sure(value, off, far)


def joined(all: Sequence[Sure]) -> Sure:
    """Put numbers one after the other along the first axis."""
    value, off, far = (np.concatenate([getattr(x, name) for x in all]) for name in ("value", "off", "errors"))
    return Sure(value, off, far)


FLOOR = 1e-150
"""More than the length of what is lost where squares underflow."""


def long(vectors: Array) -> Array:
    """Return bounds on lengths along the last axis, what underflows included; infinite where they are no numbers."""
    square = np.einsum("...d,...d->...", vectors, vectors)
    return bounding(np.sqrt(square) * (UP + gamma(vectors.shape[-1])) + FLOOR)


def bounding(bounds: Array) -> Array:
    """Return bounds, infinite where they are no numbers."""
    return np.asarray(np.where(np.isnan(bounds), np.inf, bounds))


UP = 1 + 1e-9
"""More than the rounding of the sums of numbers from 0 up that make a bound."""


def pushed(operator: Operator, x: Sure, stretch: Array | None = None) -> Sure:
    """Apply an operator to streams (..., position, feature).

    What they are off by is carried on by absolute values of factors, and where its `stretch` (m, n) is known, as lengths besides.
    """
    if not operator:
        return x
    rounding = lost(operator, np.abs(x.value))
    value, off = applied(operator, x.value), sized(operator, x.off) + rounding
    return _carried(x, value, off, rounding, stretch)


def pulled(operator: Operator, r: Sure, stretch: Array | None = None) -> Sure:
    """Pull covectors (..., position, feature) back through an operator; what they are off by as `pushed` does."""
    if not operator:
        return r
    if not all(map(_is_there, operator)):
        return Sure.exactly(np.zeros_like(applied(operator, r.value, back=True)))
    rounding = lost(operator, np.abs(r.value), back=True)
    value, off = applied(operator, r.value, back=True), sized(operator, r.off, back=True) + rounding
    return _carried(r, value, off, rounding, None if stretch is None else stretch.T)


def _carried(x: Sure, value: Array, off: Array, rounding: Array, stretch: Array | None) -> Sure:
    """What is computed of x, and by how much it is off by absolute values, and by lengths where it is known how these grow."""
    if stretch is None:
        return Sure(value, off)
    far = bounding((x.errors @ stretch.T + long(rounding)) * UP)
    return Sure(value, np.fmin(off, far[..., None]), far)


def applied(operator: Operator, x: Array, back: bool = False) -> Array:
    """Return an operator on numbers (..., position, feature), or its transpose: `push` or `pull`, all vectors in one product."""
    return reduce(lambda y, part: _applied(part, y, back), operator if back else reversed(operator), x)


def _applied(part: Part, x: Array, back: bool) -> Array:
    if not isinstance(part, Step) or part.parted is not None:
        return pull((part,), x) if back else push((part,), x)
    flat = x.reshape(-1, x.shape[-1])
    flat = part.pull_features(flat) if back else part.push_features(flat)
    x, position = flat.reshape(*x.shape[:-1], flat.shape[-1]), part.position_map
    match position:
        case None:
            return x
        case Diagonal(values=values):
            return np.asarray(values[:, None] * x)
    amounts = position.dense()
    return np.asarray((amounts.T if back else amounts) @ x)


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
        x = _along_features(factor.numbers(), x, back)
    for factor in part.position if back else reversed(part.position):
        size = absolute(factor.numbers())
        x = (size.T if back else size) @ x
    return x


def _along_features(map: LinearMap, x: Array, back: bool) -> Array:
    """|W| x along the last axis, or |W|ᵀ x; all vectors in one product."""
    match map:
        case Identity():
            return x
        case Diagonal(values=values):
            return np.asarray(np.abs(values) * x)
        case Scaled(factor=factor, map=inner):
            return abs(factor) * _along_features(inner, x, back)
        case Chain(factors=factors):
            return reduce(
                lambda y, each: _along_features(each, y, back), factors if back else reversed(factors), x
            )
    size = absolute(map)
    flat = x.reshape(-1, x.shape[-1]) @ (size if back else size.T)
    return np.asarray(flat.reshape(*x.shape[:-1], flat.shape[-1]))


def _reached(part: Action, x: Array, back: bool) -> Array:
    """What an action can make of numbers from 0 up: no number is larger than its vector can be long."""
    amounts = part.reach(np.eye(part.positions))
    long = lengths(x) * (1 + 1e-9)
    far = long @ (amounts.T if back else amounts)
    width = part.columns if back else part.rows
    return np.asarray(np.broadcast_to(far[..., None], (*far.shape, width)))
