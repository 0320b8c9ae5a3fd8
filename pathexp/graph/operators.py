"""What a component does to a stream: named factors in two words, position ⊗ feature.

An operator is a tuple of parts, the leftmost applied last, as in a printed product. A `Step` is one
Kronecker product: a word of position factors and a word of feature factors, an empty word being the
identity. A `Gate` is elementwise on (position, feature) and does not split as ⊗. `Parallel` operators read the same
stream and add up what they write. An `Action` is any other linear map, known by how it acts. Factors carry names and sizes always, numbers only when the graph was frozen from a run
or built from arrays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..algebra import Dense, Diagonal, LinearMap, compose, in_double
from ..budget import BUDGET
from ..errors import FreezeError, GraphError
from ..read_only import restore
from .tall import Tall

Array: TypeAlias = NDArray[np.float64]
Dim: TypeAlias = int | str
"""A size, or the name of a size that is not known yet, such as "d_model"."""


def doubles(array: Array | None) -> Array | None:
    """Return an array in double precision, itself if it is; None as it is."""
    return None if array is None else np.asarray(array, dtype=np.float64)


Later: TypeAlias = Callable[[], LinearMap]
"""A map that is made when it is used, and may be let go and made again."""


@dataclass(frozen=True)
class Factor:
    """A named linear map of known shape, with or without numbers; `map` may say how they are made when they are used.

    What keeps single precision is raised to double: every error and bound of a graph assumes it.
    """

    name: str
    rows: Dim
    columns: Dim
    map: LinearMap | Later | None = None
    tall: Tall | None = None
    """The same numbers a block of rows at a time, where there are very many rows."""
    picked: Callable[[NDArray[np.int64]], Array] | None = None
    """Some columns as rows, (len(indices), rows), where they can be had without making the map; a map has its own."""

    lower: bool = False
    """Whether it is known to take nothing from later positions: all above the diagonal is zero."""

    alone: Later | None = field(default=None, compare=False, repr=False)
    """Makes the same map without what is otherwise made beside it, for one who needs no other: of all patterns of a layer, one."""

    origin: tuple[object, Hashable] | None = field(default=None, compare=False, repr=False)
    """The weights that it is made of, and of nothing else but this: the same name then stands for the same numbers."""

    def __post_init__(self) -> None:
        if isinstance(self.map, LinearMap):
            object.__setattr__(self, "map", self._check(self.map))
            object.__setattr__(self, "picked", None)
            object.__setattr__(self, "alone", None)
            object.__setattr__(self, "tall", None)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy or a pickle has the numbers themselves."""
        numbers = None if self.map is None else self.numbers()
        return Factor, (self.name, self.rows, self.columns, numbers, None, None, self.lower)

    def _check(self, map: LinearMap) -> LinearMap:
        if map.shape != (self.rows, self.columns):
            raise GraphError(
                f"factor {self.name} was declared {self.rows} × {self.columns}, "
                f"but its map is {map.shape[0]} × {map.shape[1]}"
            )
        return in_double(map)

    def numbers(self) -> LinearMap:
        """Return the map, or say that this graph has no numbers."""
        if self.map is None:
            raise FreezeError(
                f"{self.name} has no numbers: this graph was made from sizes alone. "
                "Run a model and expand its trace to get numbers."
            )
        if isinstance(self.map, LinearMap):
            return self.map
        make = self.map
        return BUDGET.get(self, "map", lambda: self._check(make()))


@dataclass(frozen=True)
class Step:
    """One Kronecker product, (position word) ⊗ (feature word)."""

    position: tuple[Factor, ...] = ()
    feature: tuple[Factor, ...] = ()

    @property
    def position_map(self) -> LinearMap | None:
        """The position word as a linear map, None for an empty one; multiplied together once, as long as the budget holds."""
        return BUDGET.get(self, "position", lambda: word_map(self.position))

    def push_features(self, x: Array) -> Array:
        """Take (..., columns) through the feature word: (..., rows)."""
        if (tall := self.parted) is not None:
            after, table, before = tall
            made = table.push(x if before is None else before.apply(x))
            return made if after is None else after.apply(made)
        feature = self._feature_map
        return x if feature is None else feature.apply(x)

    def pull_features(self, r: Array) -> Array:
        """Take (..., rows) through the transpose of the feature word: (..., columns)."""
        if (tall := self.parted) is not None:
            after, table, before = tall
            made = table.pull(r if after is None else after.T.apply(r))
            return made if before is None else before.T.apply(made)
        feature = self._feature_map
        return r if feature is None else feature.T.apply(r)

    @property
    def parted(self) -> tuple[LinearMap | None, Tall, LinearMap | None] | None:
        """A feature word with a table of very many rows: what follows the table, the table, and what stands before it."""
        for at, factor in enumerate(self.feature):
            if factor.tall is not None:
                return word_map(self.feature[:at]), factor.tall, word_map(self.feature[at + 1 :])
        return None

    @property
    def _feature_map(self) -> LinearMap | None:
        return BUDGET.get(self, "feature", lambda: word_map(self.feature))


@dataclass(frozen=True, eq=False)
class Gate:
    """A frozen elementwise factor on (position, feature), such as an MLP's gates."""

    name: str
    positions: Dim
    features: Dim
    values: Array | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", doubles(self.values))

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Take over what a copy or a pickle holds, arrays read-only as they were."""
        restore(self, state)

    def numbers(self) -> Array:
        """Return the values, shape (position, feature), or say that there are none."""
        if self.values is None:
            raise FreezeError(f"{self.name} has no numbers: this graph was made from sizes alone.")
        return self.values


class Action(ABC):
    """A linear map on streams (position, feature) that is no Kronecker product; its numbers are always there.

    `positions`, `rows` and `columns` are its sizes: streams (positions, columns) go in, (positions, rows) come out.
    """

    name: str
    positions: int
    rows: int
    columns: int

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Take over what a copy or a pickle holds, arrays read-only as they were."""
        restore(self, state)

    @abstractmethod
    def push(self, x: Array) -> Array:
        """Return the image of streams (..., position, columns): (..., position, rows)."""

    @abstractmethod
    def pull(self, r: Array) -> Array:
        """Return covector fields (..., position, rows) through the transpose: (..., position, columns)."""

    @abstractmethod
    def first(self, positions: int) -> Action:
        """Return the action on the first positions alone; exact where it does not look ahead."""

    @abstractmethod
    def at(self, positions: NDArray[np.int64]) -> Action:
        """Return an action that keeps positions to themselves on chosen ones, each as often as it is named."""

    @abstractmethod
    def spread(self, noise: Array, backward: bool = False) -> Array:
        """Return the deviation per coordinate (n,) of independent noise of deviation (n,) that was pushed or pulled."""

    @abstractmethod
    def reach(self, far: Array) -> Array:
        """Return how long images (..., n) of vectors so long (..., n) can be, were all numbers positive."""

    @property
    @abstractmethod
    def roundings(self) -> int:
        """How many roundings one number meets on its way through, at most."""

    @property
    @abstractmethod
    def grows(self) -> float:
        """A bound on how much a number that is lost before or inside it, either way, can grow; at least 1."""

    @property
    @abstractmethod
    def cost(self) -> int:
        """Multiply-adds of one application at one position."""

    @property
    def looks_ahead(self) -> bool:
        """Whether a position may take something from a later one."""
        return False

    @property
    def local(self) -> bool:
        """Whether every position keeps to itself."""
        return True

    def dense(self) -> Array:
        """Return the map on row-major (position, feature) vectors as one matrix: for small cases."""
        size = self.positions * self.columns
        each = self.push(np.eye(size).reshape(size, self.positions, self.columns))
        return np.ascontiguousarray(each.reshape(size, -1).T)

    def image(self, parts: Array) -> Array:
        """Return factors (n, rows, r) of ellipsoids that hold the images of those of factors (n, columns, r)."""
        return self.push(parts.transpose(2, 0, 1)).transpose(1, 2, 0)


@dataclass(frozen=True, eq=False)
class Parallel:
    """Operators side by side that read the same stream and add up what they write."""

    name: str
    terms: tuple[Operator, ...]


Part: TypeAlias = Step | Gate | Parallel | Action
Operator: TypeAlias = tuple[Part, ...]
IDENTITY: Operator = ()


def chain(*operators: Operator) -> Operator:
    """Return the product of operators, the leftmost applied last, with neighboring steps merged.

    Merging is the mixed-product rule (A ⊗ W)(B ⊗ V) = AB ⊗ WV; a gate stands between words unmerged.
    """
    parts: list[Part] = []
    for part in (part for operator in operators for part in operator):
        if parts and isinstance(part, Step) and isinstance(parts[-1], Step):
            last = parts[-1]
            parts[-1] = Step(last.position + part.position, last.feature + part.feature)
        else:
            parts.append(part)
    return tuple(parts)


def has_numbers(operator: Operator) -> bool:
    """Return whether every part of the operator carries numbers."""
    return all(map(_has_numbers, operator))


def _has_numbers(part: Part) -> bool:
    match part:
        case Step():
            return all(factor.map is not None for factor in part.position + part.feature)
        case Gate():
            return part.values is not None
        case Parallel():
            return all(map(has_numbers, part.terms))
    return True


def word_map(word: tuple[Factor, ...]) -> LinearMap | None:
    """Return the product of a word as one linear map, or None for the empty word (the identity)."""
    if len(word) == 1:
        return word[0].numbers()
    return compose(*(factor.numbers() for factor in word)) if word else None


def is_lower(word: tuple[Factor, ...]) -> bool:
    """Return whether a word of position factors is known to take nothing from later positions."""
    return all(factor.lower or isinstance(factor.numbers(), Diagonal) for factor in word)


def _along_positions(apply: Callable[[Array], Array], x: Array) -> Array:
    return np.swapaxes(apply(np.swapaxes(x, -1, -2)), -1, -2)


def _push(part: Part, x: Array) -> Array:
    if isinstance(part, Step):
        position = part.position_map
        x = part.push_features(x)
        return x if position is None else _along_positions(position.apply, x)
    if isinstance(part, Parallel):
        return reduce(np.add, (push(term, x) for term in part.terms))
    if isinstance(part, Gate):
        return part.numbers() * x
    return part.push(x)


def _pull(part: Part, x: Array) -> Array:
    if isinstance(part, Step):
        position = part.position_map
        x = part.pull_features(x)
        return x if position is None else _along_positions(position.T.apply, x)
    if isinstance(part, Parallel):
        return reduce(np.add, (pull(term, x) for term in part.terms))
    if isinstance(part, Gate):
        return part.numbers() * x
    return part.pull(x)


def push(operator: Operator, x: Array) -> Array:
    """Apply an operator to streams of shape (..., position, feature): A @ X @ W.T for a step."""
    return reduce(lambda y, part: _push(part, y), reversed(operator), x)


def pull(operator: Operator, r: Array) -> Array:
    """Apply the transpose: pull a covector field (..., position, feature) back through an operator."""
    return reduce(lambda y, part: _pull(part, y), operator, r)


def act_at(operator: Operator, positions: NDArray[np.int64], rows: Array, backward: bool = False) -> Array:
    """Return rows (K, feature) that stand at positions (K,) through an operator that stays in place, or its transpose."""
    parts = operator if backward else reversed(operator)
    return reduce(lambda y, part: _act_at(part, positions, y, backward), parts, rows)


def _act_at(part: Part, positions: NDArray[np.int64], rows: Array, backward: bool) -> Array:
    match part:
        case Gate():
            return part.numbers()[positions] * rows
        case Parallel():
            return reduce(np.add, (act_at(term, positions, rows, backward) for term in part.terms))
        case Action():
            here = part.at(positions)
            return here.pull(rows) if backward else here.push(rows)
    position = part.position_map
    rows = part.pull_features(rows) if backward else part.push_features(rows)
    return position.values[positions, None] * rows if isinstance(position, Diagonal) else rows


def gather(word: tuple[Factor, ...], indices: NDArray[np.int64]) -> Array:
    """Return the columns `indices` of a word's product as rows, shape (len(indices), rows)."""
    if word[-1].picked is not None:
        columns = word[-1].picked(indices)
    elif isinstance(first := word[-1].numbers(), Dense):
        columns = first.array[:, indices].T.astype(np.float64, copy=False)
    else:
        one_hot = np.zeros((len(indices), first.shape[1]))
        one_hot[np.arange(len(indices)), indices] = 1.0
        columns = first.apply(one_hot)
    rest = word_map(word[:-1])
    return columns if rest is None else rest.apply(columns)
