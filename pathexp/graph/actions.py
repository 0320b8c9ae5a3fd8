"""Maps of rank one that differ from position to position, and how operators of any kind carry noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np

from ..algebra import Chain, Dense, Diagonal, LinearMap, waist
from ..algebra.operations import is_narrow, wide
from ..budget import BUDGET
from .measures import lengths, lengths_along, product_norm
from .mixing import mix_noise
from .operators import Action, Array, Gate, Operator, Parallel, Part, Step, word_map
from .stack import Indices

_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class Dyad(Action):
    """A map of rank one at every position: left (n, rows) times the product with right (n, columns).

    >>> import numpy as np
    >>> Dyad("d", np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]])).push(np.array([[1.0, 1.0]]))
    array([[ 7., 14.]])
    """

    name: str
    left: Array
    right: Array

    @property
    def positions(self) -> int:  # type: ignore[override]
        return len(self.left)

    @property
    def rows(self) -> int:  # type: ignore[override]
        return int(self.left.shape[1])

    @property
    def columns(self) -> int:  # type: ignore[override]
        return int(self.right.shape[1])

    def push(self, x: Array) -> Array:
        return np.asarray(np.einsum("...nd,nd->...n", x, self.right)[..., None] * self.left)

    def pull(self, r: Array) -> Array:
        return np.asarray(np.einsum("...nd,nd->...n", r, self.left)[..., None] * self.right)

    def first(self, positions: int) -> Dyad:
        return Dyad(self.name, self.left[:positions], self.right[:positions])

    def at(self, positions: Indices) -> Dyad:
        return Dyad(self.name, self.left[positions], self.right[positions])

    def spread(self, noise: Array, backward: bool = False) -> Array:
        return np.asarray(noise * self._sizes / np.sqrt(self.columns if backward else self.rows))

    def reach(self, far: Array) -> Array:
        return np.asarray(far * self._sizes * (1 + 1e-9))

    @property
    def _sizes(self) -> Array:
        return met(lengths(self.left), lengths(self.right))

    @property
    def roundings(self) -> int:
        return max(self.rows, self.columns) + 2

    @property
    def grows(self) -> float:
        return grown(self.left, self.right)

    @property
    def cost(self) -> int:
        return self.rows + self.columns


def met(left: Array, right: Array) -> Array:
    """Return products of numbers from 0 up; what underflows is the least normal number: 0 says that nothing is there.

    >>> met(np.array([1e-200, 0.0, 2.0]), np.array([1e-200, 1.0, 3.0])).tolist()
    [2.2250738585072014e-308, 0.0, 6.0]
    """
    return np.where((left == 0) | (right == 0), 0.0, np.maximum(left * right, _TINY))


def grown(*factors: Array) -> float:
    """Return a bound on how much a number can grow in products with all entries of some arrays, and sums along them."""
    with np.errstate(over="ignore"):
        sizes = [max(1.0, float(np.abs(factor).max(initial=0.0)) * factor.size) for factor in factors]
        return float(np.prod(sizes)) * (1 + 1e-9)


def spread(operator: Operator, noise: Array, backward: bool = False) -> Array:
    """Carry noise of a deviation (n,) per coordinate through an operator; the identity leaves it as it is."""
    parts = operator if backward else reversed(operator)
    return reduce(lambda carried, part: _spread(part, carried, backward), parts, noise)


def _spread(part: Part, noise: Array, backward: bool) -> Array:
    match part:
        case Action():
            return part.spread(noise, backward)
        case Parallel():  # the terms carry the same noise, so that deviations add
            return reduce(np.add, (spread(term, noise, backward) for term in part.terms))
        case Gate():
            values = part.numbers()
            return np.asarray(noise * lengths(values) / np.sqrt(values.shape[-1]))
    position = word_map(part.position)
    noise = noise * _gain(part, backward) if part.feature else noise
    if position is None:
        return noise
    return mix_noise(position.T.dense() if backward else position.dense(), noise)


def _gain(step: Step, backward: bool) -> float:
    """How deviations per coordinate grow: the Frobenius norm over the root of how many coordinates come out."""
    coordinates = step.feature[-1].columns if backward else step.feature[0].rows
    return feature_norm(step) / float(np.sqrt(int(coordinates)))


def feature_norm(step: Step) -> float:
    """Return the Frobenius norm of a feature word that is not empty, of very many rows a block at a time."""
    if (tall := step.parted) is None or tall[0] is not None:
        word = word_map(step.feature)
        assert word is not None, "asked for only where there is one"
        return frobenius_norm(word)
    _, table, before = tall
    through = (lambda rows: rows) if before is None else before.T.apply
    return BUDGET.get(step, "norm", lambda: float(lengths(table.lengths(through, lengths))))


def frobenius_norm(map: LinearMap) -> float:
    """Return the Frobenius norm of a word of factors; nothing is multiplied out for a matrix beside diagonals.

    Rows or columns of such a matrix are measured once, while the budget holds: O(its numbers), then O(d_model).
    """
    match map.word:
        case (Dense() as only,) if only is map:
            return float(lengths(_measured(only, 0)))
        case (Dense() as weight, Diagonal() as gain) if isinstance(map, Chain):
            return float(lengths(_measured(weight, 0) * gain.values))
        case (Diagonal() as gain, Dense() as weight) if isinstance(map, Chain):
            return float(lengths(_measured(weight, 1) * gain.values))
    return float(product_norm(*waist(map)) if is_narrow(map) else lengths(lengths_along(wide(map), 0)))


def _measured(map: Dense, axis: int) -> Array:
    """The lengths of a matrix's columns (axis 0) or rows (axis 1)."""
    return BUDGET.get(map, ("lengths", axis), lambda: lengths_along(map.array, axis))


def cost(operator: Operator) -> int:
    """Return the multiply-adds of one application of an operator at one position."""
    return sum(map(_cost, operator))


def _cost(part: Part) -> int:
    match part:
        case Action():
            return part.cost
        case Parallel():
            return sum(map(cost, part.terms))
        case Gate():
            return 0
    return sum(factor.numbers().apply_cost for factor in part.feature)
