"""Linear maps between named spaces: the kinds, and how they combine without being multiplied out.

A kind knows its spaces, its transpose and how it acts; `operations` computes with it. Every kind is final and
a value; a composite checks its spaces when made. New kinds subclass LinearMap and register with operations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import KW_ONLY, InitVar, dataclass
from functools import cached_property, reduce
from itertools import pairwise
from numbers import Real
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ..errors import SpaceError, WeightsError
from . import operations
from .arrays import Array, checked, real
from .plan import Plan, plan
from .spaces import Space


class LinearMap(ABC):
    """A linear map from one space to another, kept factored; see `operations` for what can be asked of it.

    >>> vocab, model, head = Space("vocab", 1024), Space("model", 128), Space("head", 16)
    >>> W_V = Dense(np.ones((16, 128)), head, model, name="W_V")
    >>> W_O = Dense(np.ones((128, 16)), model, head, name="W_O")
    >>> W_O @ W_V
    W_O · W_V : model(128) -> model(128), rank <= 16
    >>> (W_O @ W_V).trace()
    2048.0
    """

    __array_ufunc__ = None  # numpy then leaves `array @ map` and `number * map` to us

    target: Space
    source: Space

    @abstractmethod
    def apply(self, x: ArrayLike) -> Array:
        """Act on the last axis, (..., source.size) to (..., target.size); SpaceError if the size is wrong."""

    @abstractmethod
    def transpose(self) -> LinearMap:
        """Return the transposed map, from target to source."""

    @property
    @abstractmethod
    def formula(self) -> str:
        """The map as a printed product."""

    @property
    @abstractmethod
    def rank_bound(self) -> int:
        """The largest rank that the shapes allow; also the inner size of the smallest waist."""

    @property
    @abstractmethod
    def apply_cost(self) -> int:
        """Multiply-adds that applying the map to one vector takes."""

    @property
    def shape(self) -> tuple[int, int]:
        """(target.size, source.size)."""
        return self.target.size, self.source.size

    @property
    def word(self) -> tuple[LinearMap, ...]:
        """The factors whose product this is, the leftmost applied last; a scalar factor is left out."""
        return (self,)

    @property
    def level(self) -> int:
        """How tightly the formula binds: 0 a sum, 1 a product, 2 one symbol."""
        return 2

    @cached_property
    def T(self) -> LinearMap:
        """The transposed map."""
        return self.transpose()

    def __matmul__(self, other: Any) -> Any:
        """Compose with a map, or multiply an array as numpy would: M @ v, M @ X with X (..., source, k)."""
        if isinstance(other, LinearMap):
            return compose(self, other)
        x = np.asarray(other)
        return self.apply(x) if x.ndim == 1 else np.swapaxes(self.apply(np.swapaxes(x, -1, -2)), -1, -2)

    def __rmatmul__(self, other: ArrayLike) -> Array:
        """Multiply an array of shape (..., target) from the right, as numpy would: v @ M, X @ M."""
        return self.T.apply(other)

    def __add__(self, other: LinearMap) -> LinearMap:
        return add(self, other)

    def __sub__(self, other: LinearMap) -> LinearMap:
        return add(self, scale(-1.0, other))

    def __mul__(self, factor: float) -> LinearMap:
        return scale(factor, self) if isinstance(factor, Real) else NotImplemented

    __rmul__ = __mul__

    def __truediv__(self, factor: float) -> LinearMap:
        return scale(1.0 / factor, self) if isinstance(factor, Real) else NotImplemented

    def __neg__(self) -> LinearMap:
        return scale(-1.0, self)

    def __repr__(self) -> str:
        return f"{self.formula} : {self.source} -> {self.target}, rank <= {self.rank_bound}"

    def dense(self, max_entries: int = operations.MAX_ENTRIES) -> Array:
        """See `operations.dense`."""
        return operations.dense(self, max_entries)

    def norm(self) -> float:
        """See `operations.norm`."""
        return operations.norm(self)

    def trace(self) -> float:
        """See `operations.trace`."""
        return operations.trace(self)

    def svd(self) -> operations.Svd:
        """See `operations.svd`."""
        return operations.svd(self)

    def eigenvalues(self) -> operations.Eigenvalues:
        """See `operations.eigenvalues`."""
        return operations.eigenvalues(self)

    def plan(self, columns: int | None = 1) -> Plan:
        """See `plan.plan`."""
        return plan(self, columns)

    def _taken(self, x: ArrayLike) -> Array:
        """Return x as a real array whose last axis is the source."""
        array = np.asarray(x)
        if array.dtype not in (np.float64, np.float32):
            array = real(array, "what a map is applied to")
        if array.ndim == 0 or array.shape[-1] != self.source.size:
            raise SpaceError(
                f"{self.formula} reads {self.source}, so the last axis must have size {self.source.size}; "
                f"found an array of shape {array.shape}"
            )
        return array


@final
@dataclass(frozen=True, eq=False, repr=False)
class Dense(LinearMap):
    """A map given by its array of shape (target.size, source.size), read-only.

    Half precision and integers are upcast to float64; dtype=np.float32 keeps the map in single precision.
    A writable array is copied. Raises WeightsError for a wrong shape or kind, and for entries not finite.
    """

    array: Array
    target: Space
    source: Space
    name: str | None = None
    _: KW_ONLY
    dtype: InitVar[DTypeLike | None] = None

    def __post_init__(self, dtype: DTypeLike | None) -> None:
        what = f"the array of {self.formula} : {self.source} -> {self.target}"
        shape = (self.target.size, self.source.size)
        object.__setattr__(self, "array", checked(self.array, shape, what, dtype))

    def apply(self, x: ArrayLike) -> Array:
        return np.asarray(self._taken(x) @ self.array.T)

    def transpose(self) -> Dense:
        return Dense(self.array.T, self.source, self.target, _primed(self.name), dtype=self.array.dtype)

    @property
    def formula(self) -> str:
        return self.name or "Dense"

    @property
    def rank_bound(self) -> int:
        return min(self.shape)

    @property
    def apply_cost(self) -> int:
        return self.target.size * self.source.size


@final
@dataclass(frozen=True, eq=False, repr=False)
class Diagonal(LinearMap):
    """A map that scales each coordinate of a space by its own value; values have shape (space.size,)."""

    values: Array
    space: Space
    name: str | None = None
    _: KW_ONLY
    dtype: InitVar[DTypeLike | None] = None

    def __post_init__(self, dtype: DTypeLike | None) -> None:
        what = f"the values of {self.formula} on {self.space}"
        object.__setattr__(self, "values", checked(self.values, (self.space.size,), what, dtype))

    @property
    def target(self) -> Space:  # type: ignore[override]
        return self.space

    @property
    def source(self) -> Space:  # type: ignore[override]
        return self.space

    def apply(self, x: ArrayLike) -> Array:
        return np.asarray(self._taken(x) * self.values)

    def transpose(self) -> Diagonal:
        return self

    @property
    def formula(self) -> str:
        return self.name or "Diagonal"

    @property
    def rank_bound(self) -> int:
        return self.space.size

    @property
    def apply_cost(self) -> int:
        return self.space.size


@final
@dataclass(frozen=True, repr=False)
class Identity(LinearMap):
    """The identity of a space."""

    space: Space

    @property
    def target(self) -> Space:  # type: ignore[override]
        return self.space

    @property
    def source(self) -> Space:  # type: ignore[override]
        return self.space

    def apply(self, x: ArrayLike) -> Array:
        return self._taken(x)

    def transpose(self) -> Identity:
        return self

    @property
    def formula(self) -> str:
        return "I"

    @property
    def rank_bound(self) -> int:
        return self.space.size

    @property
    def apply_cost(self) -> int:
        return 0


@final
@dataclass(frozen=True, repr=False)
class Zero(LinearMap):
    """The map that sends everything to zero."""

    target: Space
    source: Space

    def apply(self, x: ArrayLike) -> Array:
        taken = self._taken(x)
        return np.zeros((*taken.shape[:-1], self.target.size), taken.dtype)

    def transpose(self) -> Zero:
        return Zero(self.source, self.target)

    @property
    def formula(self) -> str:
        return "0"

    @property
    def rank_bound(self) -> int:
        return 0

    @property
    def apply_cost(self) -> int:
        return 0


@final
@dataclass(frozen=True, eq=False, repr=False)
class Scaled(LinearMap):
    """A number times a map; `scale` merges, this class only holds."""

    factor: float
    map: LinearMap

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", _finite(self.factor))

    @property
    def target(self) -> Space:  # type: ignore[override]
        return self.map.target

    @property
    def source(self) -> Space:  # type: ignore[override]
        return self.map.source

    @property
    def word(self) -> tuple[LinearMap, ...]:
        return self.map.word

    def apply(self, x: ArrayLike) -> Array:
        return np.asarray(self.factor * self.map.apply(x))

    def transpose(self) -> LinearMap:
        return Scaled(self.factor, self.map.T)

    @property
    def formula(self) -> str:
        return f"{self.factor:.4g} · {_within(self.map, 1)}"

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
@dataclass(frozen=True, eq=False, repr=False)
class Chain(LinearMap):
    """A product of maps, the leftmost applied last; `compose` simplifies, this class only checks and holds.

    Raises SpaceError where a map does not read the space that the map on its right writes.
    """

    factors: tuple[LinearMap, ...]

    def __init__(self, factors: Iterable[LinearMap]) -> None:
        object.__setattr__(self, "factors", _chained(tuple(factors)))

    @property
    def target(self) -> Space:  # type: ignore[override]
        return self.factors[0].target

    @property
    def source(self) -> Space:  # type: ignore[override]
        return self.factors[-1].source

    @property
    def word(self) -> tuple[LinearMap, ...]:
        return self.factors

    def apply(self, x: ArrayLike) -> Array:
        return reduce(lambda y, factor: factor.apply(y), reversed(self.factors), self._taken(x))

    def transpose(self) -> LinearMap:
        return Chain(factor.T for factor in reversed(self.factors))

    @property
    def formula(self) -> str:
        return " · ".join(_within(factor, 1) for factor in self.factors)

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
@dataclass(frozen=True, eq=False, repr=False)
class Sum(LinearMap):
    """A sum of maps between the same spaces; `add` simplifies, this class only checks and holds."""

    terms: tuple[LinearMap, ...]

    def __init__(self, terms: Iterable[LinearMap]) -> None:
        object.__setattr__(self, "terms", _parallel(tuple(terms)))

    @property
    def target(self) -> Space:  # type: ignore[override]
        return self.terms[0].target

    @property
    def source(self) -> Space:  # type: ignore[override]
        return self.terms[0].source

    def apply(self, x: ArrayLike) -> Array:
        taken = self._taken(x)
        return reduce(np.add, (term.apply(taken) for term in self.terms))

    def transpose(self) -> LinearMap:
        return Sum(term.T for term in self.terms)

    @property
    def formula(self) -> str:
        return " + ".join(term.formula for term in self.terms)

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
    """The Kronecker product left ⊗ right on product spaces; a stream X goes to left @ X @ right.T.

    It acts by reshaping the flattened product axis (left coordinate slow, right coordinate fast) and is never
    formed. Equals numpy's kron(left, right) on row-major vec.
    """

    left: LinearMap
    right: LinearMap

    @cached_property
    def target(self) -> Space:  # type: ignore[override]
        return self.left.target * self.right.target

    @cached_property
    def source(self) -> Space:  # type: ignore[override]
        return self.left.source * self.right.source

    def apply(self, x: ArrayLike) -> Array:
        taken = self._taken(x)
        y = taken.reshape(*taken.shape[:-1], self.left.source.size, self.right.source.size)
        y = self._left(self.right.apply(y)) if self._right_first else self.right.apply(self._left(y))
        return y.reshape(*taken.shape[:-1], self.target.size)

    def _left(self, x: Array) -> Array:
        return np.swapaxes(self.left.apply(np.swapaxes(x, -1, -2)), -1, -2)

    @property
    def _costs(self) -> tuple[int, int]:
        left, right = self.left, self.right
        return (
            left.source.size * right.apply_cost + right.target.size * left.apply_cost,
            right.source.size * left.apply_cost + left.target.size * right.apply_cost,
        )

    @property
    def _right_first(self) -> bool:
        right_first, left_first = self._costs
        return right_first <= left_first

    def transpose(self) -> LinearMap:
        return Kron(self.left.T, self.right.T)

    @property
    def formula(self) -> str:
        return f"({self.left.formula}) ⊗ ({self.right.formula})"

    @property
    def level(self) -> int:
        return 1

    @property
    def rank_bound(self) -> int:
        return self.left.rank_bound * self.right.rank_bound

    @property
    def apply_cost(self) -> int:
        return min(self._costs)


def scale(factor: float, map: LinearMap) -> LinearMap:
    """Return factor times map, with factors merged: 2·(3·M) is 6·M, 1·M is M, 0·M is Zero."""
    number = _finite(factor)
    if isinstance(map, Scaled):
        return scale(number * map.factor, map.map)
    if isinstance(map, Zero) or number == 1.0:
        return map
    return Scaled(number, map) if number else Zero(map.target, map.source)


def compose(*maps: LinearMap) -> LinearMap:
    """Return the product of maps, the leftmost applied last, flat and never multiplied out.

    Chains are opened, identities dropped, scalars pulled out in front, Zero absorbs, neighboring diagonals
    are multiplied, and neighboring Kronecker products merge by `mixed_product` where that rule holds.
    Raises SpaceError where two neighbors do not meet.

    >>> vocab, model = Space("vocab", 5), Space("model", 3)
    >>> W_U = Dense(np.ones((5, 3)), vocab, model, name="W_U")
    >>> compose(W_U, Identity(model), 2 * W_U.T)
    2 · W_U · W_Uᵀ : vocab(5) -> vocab(5), rank <= 3
    """
    factors, number = _opened(_chained(maps))
    target, source = maps[0].target, maps[-1].source
    if number == 0.0 or any(isinstance(factor, Zero) for factor in factors):
        return Zero(target, source)
    merged = _merged([factor for factor in factors if not isinstance(factor, Identity)])
    if not merged:
        return scale(number, Identity(source))
    if any(isinstance(factor, Identity | Scaled | Zero) for factor in merged):
        return scale(number, compose(*merged))
    return scale(number, merged[0] if len(merged) == 1 else Chain(merged))


def add(*maps: LinearMap) -> LinearMap:
    """Return the sum of maps between the same spaces, flat, with zeros dropped.

    Raises SpaceError where spaces differ.
    """
    terms: list[LinearMap] = []
    for map in _parallel(maps):
        terms.extend(map.terms if isinstance(map, Sum) else (map,))
    kept = [term for term in terms if not isinstance(term, Zero)]
    if not kept:
        return maps[0] if isinstance(maps[0], Zero) else terms[0]
    return kept[0] if len(kept) == 1 else Sum(kept)


def mixed_product(first: Kron, second: Kron) -> LinearMap:
    """Return (A ⊗ B)(C ⊗ D) as AC ⊗ BD if A meets C and B meets D, and as an unmerged Chain otherwise.

    The spaces of the whole can agree although those of the parts do not ((2·3) with (3·2)); the law does not
    hold then. Raises SpaceError if not even the whole composes.
    """
    if first.left.source == second.left.target and first.right.source == second.right.target:
        return tensor(compose(first.left, second.left), compose(first.right, second.right))
    return Chain((first, second))


def tensor(left: LinearMap, right: LinearMap) -> LinearMap:
    """Return left ⊗ right, with scalars pulled out, Zero absorbing, and I ⊗ I the identity."""
    if isinstance(left, Scaled):
        return scale(left.factor, tensor(left.map, right))
    if isinstance(right, Scaled):
        return scale(right.factor, tensor(left, right.map))
    if isinstance(left, Zero) or isinstance(right, Zero):
        return Zero(left.target * right.target, left.source * right.source)
    if isinstance(left, Identity) and isinstance(right, Identity):
        return Identity(left.space * right.space)
    return Kron(left, right)


def _opened(maps: tuple[LinearMap, ...]) -> tuple[list[LinearMap], float]:
    """Open chains and scalars to any depth: the flat factors, and the product of the scalars."""
    factors: list[LinearMap] = []
    number = 1.0
    for map in maps:
        match map:
            case Scaled():
                inner, inner_number = _opened((map.map,))
                factors, number = factors + inner, number * map.factor * inner_number
            case Chain():
                inner, inner_number = _opened(map.factors)
                factors, number = factors + inner, number * inner_number
            case _:
                factors.append(map)
    return factors, number


def _merged(factors: list[LinearMap]) -> list[LinearMap]:
    """Merge neighbors that have a closed product: diagonals, and Kronecker products that meet."""
    done: list[LinearMap] = []
    for factor in factors:
        product = _closed(done[-1], factor) if done else None
        if product is None:
            done.append(factor)
        else:
            done[-1] = product
    return done


def _closed(left: LinearMap, right: LinearMap) -> LinearMap | None:
    match left, right:
        case Diagonal(), Diagonal():
            name = f"{left.name}·{right.name}" if left.name and right.name else None
            return Diagonal(left.values * right.values, left.space, name)
        case Kron(), Kron():
            product = mixed_product(left, right)
            return None if isinstance(product, Chain) else product
    return None


def _chained(maps: tuple[LinearMap, ...]) -> tuple[LinearMap, ...]:
    _maps_only(maps, "a product")
    for left, right in pairwise(maps):
        if left.source != right.target:
            raise SpaceError(
                f"cannot compose {left.formula} after {right.formula}: {left.formula} reads {left.source}, "
                f"but {right.formula} writes {right.target}{_transposed_hint(left, right)}"
            )
    return maps


def _transposed_hint(left: LinearMap, right: LinearMap) -> str:
    if left.target == right.target:
        return f"; did you mean the transpose of {left.formula}?"
    return f"; did you mean the transpose of {right.formula}?" if left.source == right.source else ""


def _parallel(maps: tuple[LinearMap, ...]) -> tuple[LinearMap, ...]:
    _maps_only(maps, "a sum")
    for map in maps[1:]:
        if (map.target, map.source) != (maps[0].target, maps[0].source):
            raise SpaceError(
                f"cannot add {maps[0].formula} : {maps[0].source} -> {maps[0].target} "
                f"and {map.formula} : {map.source} -> {map.target}; the terms of a sum share both spaces"
            )
    return maps


def _maps_only(maps: tuple[Any, ...], what: str) -> None:
    if not maps:
        raise SpaceError(f"{what} needs at least one map, found none; its spaces would be unknown")
    for map in maps:
        if not isinstance(map, LinearMap):
            found = type(map).__name__
            raise SpaceError(f"{what} takes linear maps, found {found}; wrap an array in Dense first")


def _finite(factor: float) -> float:
    if not isinstance(factor, Real) or not np.isfinite(float(factor)):
        raise WeightsError(f"a map is scaled by a finite real number, found {factor!r}")
    return float(factor)


def _within(map: LinearMap, level: int) -> str:
    return map.formula if map.level >= level else f"({map.formula})"


def _primed(name: str | None) -> str | None:
    if name is None:
        return None
    return name.removesuffix("ᵀ") if name.endswith("ᵀ") else f"{name}ᵀ"
