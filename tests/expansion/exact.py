"""An oracle without rounding: every path of a small graph in integers times powers of two, by brute force.

Floating-point numbers are dyadic rationals, so sums and products of them are exact here, whatever their range. Shares
nothing with the library but the graph's own factors.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, reduce
from math import frexp, prod
from weakref import finalize

import numpy as np

from pathexp.algebra import Chain, Dense, Diagonal, Identity, Scaled, Sum, Zero
from pathexp.graph import Difference, Gate, One, OneHot, Parallel, Step, Values
from pathexp.graph.actions import Dyad
from pathexp.graph.contrast.turning import Turn
from pathexp.graph.contrast.weighing import ByKeys, ByQueries


@dataclass(frozen=True, eq=False)
class Exact:
    """An array of integers times one power of two, over one whole number (1 but for what divides)."""

    integers: np.ndarray
    exponent: int
    over: int = 1

    @classmethod
    def of(cls, array) -> Exact:
        """The exact value of an array of floating-point numbers."""
        array = np.asarray(array, dtype=np.float64)
        parts = [(int(m * 2.0**53), e - 53) for m, e in map(frexp, array.reshape(-1).tolist())]
        least = min((exponent for whole, exponent in parts if whole), default=0)
        integers = np.empty(array.size, dtype=object)
        integers[:] = [whole << (exponent - least) if whole else 0 for whole, exponent in parts]
        return cls(integers.reshape(array.shape), least)

    def __matmul__(self, other: Exact) -> Exact:
        return Exact(self.integers @ other.integers, self.exponent + other.exponent, self.over * other.over)

    def __mul__(self, other: Exact) -> Exact:
        return Exact(self.integers * other.integers, self.exponent + other.exponent, self.over * other.over)

    def __add__(self, other: Exact) -> Exact:
        least = min(self.exponent, other.exponent)
        here, there = self.at(least), other.at(least)
        if self.over == other.over:
            return Exact(here + there, least, self.over)
        return Exact(here * other.over + there * self.over, least, self.over * other.over)

    def __neg__(self) -> Exact:
        return Exact(-self.integers, self.exponent, self.over)

    def sums(self) -> Exact:
        """Sums along the last axis, which is kept."""
        return Exact(self.integers.sum(axis=-1, keepdims=True), self.exponent, self.over)

    def at(self, exponent: int) -> np.ndarray:
        """The integers over a smaller power of two."""
        return self.integers * (1 << (self.exponent - exponent))

    @property
    def T(self) -> Exact:
        return Exact(self.integers.T, self.exponent, self.over)

    def rows(self, indices) -> Exact:
        return Exact(self.integers[indices], self.exponent, self.over)

    def inverse(self) -> Exact:
        """One over every number, none of which is zero."""
        whole = [int(n) for n in self.integers.reshape(-1)]
        found = np.empty(len(whole), dtype=object)
        found[:] = [prod(whole) // n * self.over for n in whole]
        return Exact(found.reshape(self.integers.shape), -self.exponent, prod(whole))

    def flat(self) -> Exact:
        """The same without the last axis."""
        return Exact(self.integers[..., 0], self.exponent, self.over)

    def fraction(self) -> Fraction:
        """The one number of an array of one."""
        whole, scale = int(self.integers.reshape(-1)[0]), 1 << abs(self.exponent)
        return Fraction(whole * scale, self.over) if self.exponent > 0 else Fraction(whole, self.over * scale)


_KEPT: dict[int, Exact] = {}


def exact(array) -> Exact:
    """The exact value of an array that lives as long as its graph: found once."""
    if id(array) not in _KEPT:
        _KEPT[id(array)] = Exact.of(array)
        finalize(array, _KEPT.pop, id(array), None)
    return _KEPT[id(array)]


@lru_cache(maxsize=256)
def dense(map) -> Exact:
    """The matrix that a map stands for."""
    match map:
        case Dense(array=array):
            return Exact.of(array)
        case Diagonal(values=values):
            return Exact.of(np.diag(values))
        case Identity():
            return Exact.of(np.eye(map.shape[0]))
        case Zero():
            return Exact.of(np.zeros(map.shape))
        case Scaled(factor=factor, map=inner):
            return Exact.of(np.float64(factor)) * dense(inner)
        case Chain(factors=factors):
            return reduce(lambda a, b: a @ b, map_all(factors))
        case Sum(terms=terms):
            return reduce(lambda a, b: a + b, map_all(terms))
    raise NotImplementedError(type(map))


def map_all(maps) -> list[Exact]:
    return [dense(map) for map in maps]


def pushed(operator, x: Exact) -> Exact:
    """An operator applied to a stream (position, feature)."""
    for part in reversed(operator):
        if not isinstance(part, Step):
            x = _through(part, x)
            continue
        for factor in reversed(part.feature):
            x = x @ dense(factor.numbers()).T
        for factor in reversed(part.position):
            x = dense(factor.numbers()) @ x
    return x


def _through(part, x: Exact) -> Exact:
    match part:
        case Gate():
            return exact(part.numbers()) * x
        case Parallel(terms=terms):
            return reduce(lambda a, b: a + b, [pushed(term, x) for term in terms])
        case Dyad(left=left, right=right):
            return exact(left) * (exact(right) * x).sums()
        case Turn(cos=cos, sin=sin, pairs=(first, second), columns=columns):
            turn = np.zeros((2, len(cos), columns, columns))
            turn[0][:, first, first] = turn[0][:, second, second] = cos
            turn[1][:, second, first], turn[1][:, first, second] = sin, -sin
            turns = exact(turn[0] + turn[1])
            return (turns * Exact(x.integers[:, None, :], x.exponent, x.over)).sums().flat()
        case ByKeys(weighing=weighing):
            return _weighed(weighing, exact(weighing.queries) @ x.T)
        case ByQueries(weighing=weighing):
            return _weighed(weighing, x @ exact(weighing.keys).T)
    raise NotImplementedError(type(part))


def _weighed(weighing, products: Exact) -> Exact:
    """Changes of attention weights Λ (Δs − Σ Λ Δs / Σ Λ), without rounding, and what they make of the values."""
    means, scores = exact(weighing.means), exact(weighing.slopes) * products
    totals = means.sums()
    ones = Exact.of((totals.integers == 0).astype(np.float64))
    middle = (means * scores).sums() * (totals + ones).inverse()
    return (means * (scores + -middle)) @ exact(weighing.values)


def started(start, operator, positions: int) -> Exact:
    """What a source writes, one row per position."""
    match start:
        case Values(array=array):
            found = pushed(operator, exact(array))
        case Difference(indices=indices, others=others, size=size):
            found = pushed(operator, exact(np.eye(size)[indices] - np.eye(size)[others]))
        case OneHot(indices=indices, size=size):
            found = pushed(operator, exact(np.eye(size)[indices]))
        case One():
            found = pushed(operator, Exact.of(np.ones((1, 1))))
    rows = len(found.integers)
    return found if rows == positions else found.rows([0] * positions)


@dataclass(frozen=True, eq=False)
class Oracle:
    """The exact values of all paths of a graph toward a target."""

    graph: object
    target: object

    @cached_property
    def _streams(self) -> dict[tuple[str, ...], Exact]:
        return {}

    @cached_property
    def _places(self) -> dict[str, tuple[int, object]]:
        return {c.label: (b, c) for b, block in enumerate(self.graph.blocks) for c in block.components}

    @cached_property
    def _sources(self) -> dict[str, object]:
        return {source.label: source for source in self.graph.sources}

    def value(self, word: tuple[str, ...]) -> Fraction:
        """The exact value of one path, labels from source to sink."""
        graph, target = self.graph, self.target
        read = Exact.of(np.asarray(target.direction)[:, None])
        if (
            len(word) == 2
            and graph.sink.label in self._sources[word[0]].into
            and not self._on_stream(word[0])
        ):
            source = self._sources[word[0]]
            x = started(source.start, source.into[graph.sink.label], graph.positions)
            return (x.rows([target.position]) @ read).fraction() if target.space == "logits" else Fraction(0)
        x, depth = self._prefix(word[:-1])
        x = self._over(x, depth, len(graph.blocks))
        x = pushed(graph.sink.operator, x) if target.space == "logits" else x
        return (x.rows([target.position]) @ read).fraction()

    def _on_stream(self, label: str) -> bool:
        return self._sources[label].depth is not None

    def _over(self, x: Exact, depth: int, end: int) -> Exact:
        return reduce(lambda y, block: pushed(block.skip, y), self.graph.blocks[depth:end], x)

    def _prefix(self, word: tuple[str, ...]) -> tuple[Exact, int]:
        if word not in self._streams:
            self._streams[word] = self._made(word)
        return self._streams[word]

    def _made(self, word: tuple[str, ...]) -> tuple[Exact, int]:
        source = self._sources[word[0]]
        if len(word) == 1:
            return started(source.start, source.write, self.graph.positions), source.depth
        b, component = self._places[word[-1]]
        if len(word) == 2 and word[1] in source.into:
            return started(source.start, source.into[word[1]], self.graph.positions), b + 1
        x, depth = self._prefix(word[:-1])
        return pushed(component.operator, self._over(x, depth, b)), b + 1
