"""Linear maps between named spaces: what every map can do, and the elementary kinds.

A kind knows its spaces, its transpose and how it acts; `operations` computes with it. Every kind is final
and a value. A new kind subclasses LinearMap and registers with `operations` what it knows better.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, InitVar, dataclass
from functools import cached_property
from numbers import Real
from typing import Any, final, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ..budget import BUFFERS
from ..errors import SpaceError, WeightsError
from ..read_only import restore
from . import operations
from .arrays import Array, checked, real, within_range
from .plan import Plan, plan
from .spaces import Space
from .spectra import Eigenvalues, Svd


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

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Take over what a copy or a pickle holds, arrays read-only as they were."""
        restore(self, state)

    @abstractmethod
    def apply(self, x: ArrayLike) -> Array:
        """Act on the last axis, (..., source.size) to (..., target.size); SpaceError if the size is wrong."""

    @abstractmethod
    def transpose(self) -> LinearMap:
        """Return the transposed map, from target to source; `T` keeps it."""

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

    @overload
    def __matmul__(self, other: LinearMap) -> LinearMap: ...
    @overload
    def __matmul__(self, other: ArrayLike) -> Array: ...
    def __matmul__(self, other: LinearMap | ArrayLike) -> LinearMap | Array:
        """Compose with a map, or multiply an array as numpy would: M @ v, M @ X with X (..., source, k)."""
        if isinstance(other, LinearMap):
            return operations.composed(self, other)
        x = np.asarray(other)
        return self.apply(x) if x.ndim < 2 else np.swapaxes(self.apply(np.swapaxes(x, -1, -2)), -1, -2)

    def __rmatmul__(self, other: ArrayLike) -> Array:
        """Multiply an array of shape (..., target) from the right, as numpy would: v @ M, X @ M."""
        return self.T.apply(other)

    def __add__(self, other: LinearMap) -> LinearMap:
        return operations.added(self, other)

    def __sub__(self, other: LinearMap) -> LinearMap:
        return operations.added(self, -other)

    def __mul__(self, factor: float) -> LinearMap:
        if not isinstance(factor, Real):
            return NotImplemented
        return operations.scaled(self, factor)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> LinearMap:
        if not isinstance(divisor, Real):
            return NotImplemented
        if divisor == 0:
            raise WeightsError(f"{self.formula} was divided by zero; a map is scaled by a finite number")
        return operations.scaled(self, 1.0 / divisor)

    def __neg__(self) -> LinearMap:
        return operations.scaled(self, -1.0)

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

    def svd(self) -> Svd:
        """See `operations.svd`."""
        return operations.svd(self)

    def eigenvalues(self) -> Eigenvalues:
        """See `operations.eigenvalues`."""
        return operations.eigenvalues(self)

    def plan(self, columns: int | None = 1) -> Plan:
        """See `plan.plan`."""
        return plan(self, columns)

    def _between(self, target: Space, source: Space) -> None:
        """Set the spaces of a frozen value under construction."""
        object.__setattr__(self, "target", target)
        object.__setattr__(self, "source", source)

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


def within(map: LinearMap, level: int) -> str:
    """Return the formula of a part, in parentheses if it binds less tightly than the level."""
    return map.formula if map.level >= level else f"({map.formula})"


@final
@dataclass(frozen=True, eq=False, repr=False)
class Dense(LinearMap):
    """A map given by its array of shape (target.size, source.size), read-only.

    Half precision and integers are upcast to float64; dtype=np.float32 keeps the map in single precision.
    A writable array is copied. Raises WeightsError for a wrong shape or kind, and for entries not finite.

    >>> Dense([[0, 1], [2, 3]], Space("out", 2), Space("in", 2), name="W").apply([1, 10])
    array([10., 32.])
    """

    array: Array
    target: Space
    source: Space
    name: str | None = None
    _: KW_ONLY
    dtype: InitVar[DTypeLike | None] = None

    def __post_init__(self, dtype: DTypeLike | None) -> None:
        what = f"the array of {self.formula} : {self.source} -> {self.target}"
        object.__setattr__(self, "array", checked(self.array, self.shape, what, dtype))

    def apply(self, x: ArrayLike) -> Array:
        with within_range(self.formula):
            product: Array = self._taken(x) @ self.array.T
        return product

    def transpose(self) -> Dense:
        name = self.name and (self.name[:-1] if self.name.endswith("ᵀ") else f"{self.name}ᵀ")
        made = object.__new__(Dense)  # its numbers were looked at when this map was made
        vars(made).update(array=self.array.T, target=self.source, source=self.target, name=name)
        return made

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
    """A map that scales each coordinate of a space by its own value; values have shape (space.size,).

    >>> Diagonal([1, 10], Space("model", 2)).apply([3, 4])
    array([ 3., 40.])
    """

    values: Array
    space: Space
    name: str | None = None
    _: KW_ONLY
    dtype: InitVar[DTypeLike | None] = None

    def __post_init__(self, dtype: DTypeLike | None) -> None:
        self._between(self.space, self.space)
        what = f"the values of {self.formula} on {self.space}"
        object.__setattr__(self, "values", checked(self.values, (self.space.size,), what, dtype))

    def apply(self, x: ArrayLike) -> Array:
        taken = self._taken(x)
        if taken.dtype != np.float64 or self.values.dtype != np.float64:
            return np.asarray(taken * self.values)
        return np.multiply(taken, self.values, out=BUFFERS.array(taken.shape))

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

    def __post_init__(self) -> None:
        self._between(self.space, self.space)

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
