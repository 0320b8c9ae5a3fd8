"""Worst-case sizes of operators: how long |W||x| can be, whatever cancels, and so how far W x may be off.

A product of factors is computed with an error of at most γ_N |W_1|…|W_m||x| in whatever order its factors are
multiplied, N the sum of the lengths of their inner products (Higham 2002, §3.5). Norms of the factors bound that.
"""

from __future__ import annotations

from functools import reduce
from math import prod

import numpy as np
from numpy.typing import NDArray

from ...algebra import Chain, Dense, Diagonal, Identity, Kron, LinearMap, Scaled, Sum, Zero
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
    is_local,
)
from .rounding import finite, gamma, largest, lengths

_UP = 1 + 1e-9
"""More than the rounding of the few additions of positive numbers that make a size."""


def size(map: LinearMap) -> float:
    """Return a bound on the spectral norm of the entries' absolute values, at most the factors' Frobenius norms."""
    match map:
        case Identity():
            return 1.0
        case Zero():
            return 0.0
        case Diagonal(values=values):
            return float(np.max(np.abs(values), initial=0.0))
        case Scaled(factor=factor, map=inner):
            return _product([abs(factor), size(inner)])
        case Chain(factors=factors):
            return _product([size(factor) for factor in factors])
        case Sum(terms=terms):
            return _UP * sum(size(term) for term in terms)
        case Kron(left=left, right=right):
            return _product([size(left), size(right)])
    return KEPT.get(map, "size", lambda: frobenius(map.array if isinstance(map, Dense) else map.dense()))


KEPT: WeakCache[LinearMap, float] = WeakCache()
"""Sizes of the maps that are alive: an unembedding holds tens of millions of numbers, and every bound asks for its size."""


def frobenius(array: Array) -> float:
    """Return an upper bound on the Frobenius norm, 0 for zeros alone; nothing over- or underflows."""
    with np.errstate(over="ignore", under="ignore"):
        square = float(np.vdot(array, array))
    if 1e-200 < square < 1e200:
        return float(np.sqrt(square)) * _UP
    largest = float(np.max(np.abs(array), initial=0.0))
    if not 0 < largest < np.inf:
        return 0.0 if largest == 0 else float("inf")
    return _product([largest, float(np.linalg.norm((array / largest).reshape(-1)))])


def _product(sizes: list[float]) -> float:
    """A product of sizes: 0 only if one of them is."""
    if 0.0 in sizes:
        return 0.0
    with np.errstate(over="ignore", under="ignore"):
        return max(prod(sizes) * _UP, _TINY)


_TINY = float(np.finfo(np.float64).tiny)


def additions(operator: Operator) -> int:
    """Return how many roundings one number meets on its way through an operator, at most."""
    return len(operator) + sum(map(_additions, operator))


def _additions(part: Part) -> int:
    match part:
        case Gate():
            return 0
        case Action():
            return part.roundings
        case Parallel(terms=terms):
            return len(terms) + max(map(additions, terms), default=0)
    maps = [factor.numbers() for factor in part.position + part.feature]
    return sum(max(map.shape) + _inside(map) for map in maps)


def _inside(map: LinearMap) -> int:
    match map:
        case Scaled(map=inner):
            return 1 + _inside(inner)
        case Chain(factors=factors):
            return sum(max(factor.shape) + _inside(factor) for factor in factors)
        case Sum(terms=terms):
            return len(terms) + sum(max(term.shape) + _inside(term) for term in terms)
        case Kron(left=left, right=right):
            return sum(max(part.shape) + _inside(part) for part in (left, right))
    return 2


def spread(operator: Operator, far: Array) -> Array:
    """Return how long what an operator makes of vectors can be, were all its numbers positive.

    far (..., n) bound the vectors at the positions it reads, the result those at the positions it writes. What underflows
    is raised to the least normal number, so that 0 means that nothing is there.
    """
    for part in reversed(operator):
        match part:
            case Gate():
                far = _times_each(far, np.max(np.abs(part.numbers()), axis=-1, initial=0.0))
            case Step():
                far = _times_each(far, _product([1.0, *(size(factor.numbers()) for factor in part.feature)]))
                for factor in reversed(part.position):
                    weights = np.abs(factor.numbers().dense()).T
                    far = _raised(far @ weights, (far > 0) @ (weights > 0))
            case Parallel(terms=terms):
                far = np.asarray(np.sum([spread(term, far) for term in terms], axis=0))
            case Action():
                far = _raised(part.reach(far), part.reach(np.asarray(far > 0, dtype=np.float64)) > 0)
    return finite(far * _UP)


def _times_each(far: Array, factor: Array | float) -> Array:
    return _raised(far * factor, (far > 0) & (np.asarray(factor) > 0))


def _raised(product: Array, positive: NDArray[np.bool_]) -> Array:
    """A product of numbers from 0 up, no smaller than the least normal number where all factors are positive."""
    return np.asarray(np.where(positive, np.maximum(product, _TINY), product))


def magnitude(operator: Operator, x: Array) -> Array:
    """Return |W||x| for numbers x (..., n, d) from 0 up: what an operator makes of them were its numbers positive."""
    for part in reversed(operator):
        match part:
            case Gate():
                x = np.abs(part.numbers()) * x
            case Step():
                for factor in reversed(part.feature):
                    x = _times(factor.numbers(), x)
                for factor in reversed(part.position):
                    x = np.swapaxes(_times(factor.numbers(), np.swapaxes(x, -1, -2)), -1, -2)
            case Parallel(terms=terms):
                x = np.asarray(np.sum([magnitude(term, x) for term in terms], axis=0))
            case Action():
                far = part.reach(lengths(x))[..., None]
                x = np.broadcast_to(far, (*far.shape[:-1], part.rows))
    return finite(x * _UP)


def _times(map: LinearMap, x: Array) -> Array:
    """|W| x along the last axis."""
    match map:
        case Identity():
            return x
        case Diagonal(values=values):
            return np.asarray(x * np.abs(values))
        case Dense(array=array):
            return np.asarray(x @ np.abs(array).T)
        case Scaled(factor=factor, map=inner):
            return abs(factor) * _times(inner, x)
        case Chain(factors=factors):
            return reduce(lambda y, factor: _times(factor, y), reversed(factors), x)
        case Sum(terms=terms):
            return np.asarray(sum(_times(term, x) for term in terms))
    return np.asarray(x @ np.abs(map.dense(max_entries=2**31)).T)


def shed(operator: Operator, x: Array) -> Array:
    """Return how far what is computed of an operator on streams x (..., n, d) is from exact, in norm: (..., n)."""
    if not operator:
        return np.zeros(x.shape[:-1])
    far, least = lengths(magnitude(operator, np.abs(x))), underflow(operator)
    return finite(2 * gamma(additions(operator)) * far + least * (1 + lengths(x).max(initial=0.0)))


def shed_alike(operator: Operator, x: Array) -> Array:
    """Return the same bounds as `shed` for many streams x (E, n, d) at once, at most `ALIKE` times as large for all but the shortest.

    Streams of about the same length at a position share the bound of numbers that are as large as those of any of them: a
    hundred streams cost no more than six. Where an operator moves between positions every stream has a bound of its own.
    """
    if len(x) <= CLASSES or not is_local(operator):
        return shed(operator, x)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        far = lengths(x)
        steps = np.log(far.max(axis=0) / far) / np.log(ALIKE)
    classes = np.where(steps >= 0, np.minimum(steps, CLASSES - 1), 0).astype(np.int64)
    most, positions = np.zeros((CLASSES, *x.shape[1:])), np.arange(x.shape[1])
    for at, stream in zip(classes, x, strict=True):
        most[at, positions] = np.maximum(most[at, positions], np.abs(stream))
    return np.asarray(np.take_along_axis(shed(operator, most), classes, axis=0))


ALIKE, CLASSES = 8.0, 6
"""Streams whose lengths differ by less than a factor share a bound, in so many classes."""


def shed_each(operator: Operator, most: Array) -> Array:
    """Return how far each number of what is computed of an operator is from exact, on streams of at most (n, d) in size."""
    far, least = magnitude(operator, most), underflow(operator)
    return finite(2 * gamma(additions(operator)) * far + least * (1 + lengths(most).max(initial=0.0)))


def tight(operator: Operator, far: Array) -> Array:
    """Return how long what an operator makes of vectors (..., n) can be, by the spectral norms of its factors.

    Costs a product of every factor with itself, unless there are no vectors but zeros.
    """
    if not np.any(far):
        return spread(operator, far)
    shrink = [_shrunk(factor.numbers()) for factor in _features(operator)]
    return finite(_times_each(spread(operator, far), float(np.prod([1.0, *shrink]))))


def _shrunk(map: LinearMap) -> float:
    """By how much the spectral norm of a map is below its size."""
    whole = size(map)
    return spectral(map) / whole if 0 < whole < np.inf else 1.0


def _features(operator: Operator) -> list[Factor]:
    steps = [part for part in operator if isinstance(part, Step)]
    return [factor for step in steps for factor in step.feature if isinstance(factor.numbers(), Dense)]


def spectral(map: LinearMap) -> float:
    """Return a bound on the spectral norm of a map: Schatten's 8-norm of arrays, `size` of what is not an array."""
    whole = size(map)
    if not isinstance(map, Dense) or not 0 < whole < np.inf:
        return whole
    return KEPT.get(map, "spectral", lambda: min(whole, _schatten(map.array, whole)))


def _schatten(array: Array, whole: float) -> float:
    """Schatten's 8-norm of an array of a Frobenius norm, with room for its rounding."""
    unit = (array if array.shape[0] <= array.shape[1] else array.T) / whole
    square = float(largest(unit @ unit.T)) + gamma(unit.shape[1])
    return whole * float(np.sqrt(square)) * _UP


def is_zero(operator: Operator) -> bool:
    """Return whether an operator writes nothing, because all numbers of one of its factors are zero."""
    return any(map(_is_zero, operator))


def _is_zero(part: Part) -> bool:
    match part:
        case Gate():
            return not np.any(part.numbers())
        case Step():
            return any(_nothing(factor.numbers()) for factor in part.position + part.feature)
        case Parallel(terms=terms):
            return all(map(is_zero, terms))
    return False


def _nothing(map: LinearMap) -> bool:
    """Whether all numbers of a map are zero."""
    return not np.any(map.array) if isinstance(map, Dense) else size(map) == 0.0


def lost(operator: Operator, far: Array) -> Array:
    """Return how far what is computed of an operator on vectors (..., n) long is from exact, per position.

    Twice the a-priori bound, for the factors that other code multiplied beforehand, and what may underflow.
    """
    return finite(
        2 * gamma(additions(operator)) * spread(operator, far)
        + underflow(operator) * (1 + far.max(initial=0.0))
    )


def underflow(operator: Operator) -> float:
    """Return more than what underflows where the factors of an operator are multiplied, for vectors of length one."""
    return _product([LEAST, *map(_grown, operator)])


def _grown(part: Part) -> float:
    """How much what underflowed before or inside a part can grow in it, at least 1."""
    match part:
        case Gate():
            return max(1.0, float(np.max(np.abs(part.numbers()), initial=0.0)))
        case Action():
            return part.grows
        case Parallel(terms=terms):
            return max(1.0, sum(underflow(term) / LEAST for term in terms))
    return _product([max(1.0, size(factor.numbers())) for factor in part.position + part.feature] or [1.0])


LEAST = 1e-300
"""More than what is lost where fewer than 10⁷ products underflow."""
