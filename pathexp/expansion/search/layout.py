"""A graph as the search reads it: heads with orthonormal value readers, and everything that starts paths.

A head is A ⊗ write · read. Its reader is made orthonormal (read = L Q, the triangle L moves into the writer), so
that the norm of a covector in value space is its norm on the stream. What that loses is bounded: `Heads.lost`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...budget import BUDGET
from ...graph import Array, Indices, Operator, Step, Walk, cost
from ...graph.stack import Stack
from ...workers import each, for_each
from .rounding import finite, gamma, largest, lengths, powers
from .single import MATRICES, Single
from .sizes import additions, frobenius, is_zero, spread, underflow


@dataclass(frozen=True, eq=False)
class Heads:
    """Heads of one block and one width: patterns (C, n, n), read (C, r, d) orthonormal, write (C, d, r).

    What a head's own factors make of vectors y and what these arrays make of them differ at most by
    lost · (amounts |y|), `lost` (C,) and `amounts` (C, n, n) at least the patterns; no reader's norm is above `stretch`.
    """

    members: Indices
    patterns: Array
    read: Array
    write: Array
    lost: Array
    amounts: Array
    stretch: float = 1.0
    alike: Indices | None = None
    """For each head which of the different readers it has, in order; None: each has its own."""

    @classmethod
    def of(cls, stack: Stack, operators: list[Operator]) -> Heads:
        """The heads of a stack, their readers made orthonormal; `operators` are what they are made of."""
        alike = _alike(stack.read)
        turned = _orthonormal(stack.read, alike)
        exact = [
            2 * gamma(additions(operator)) * _feature_size(operator) + underflow(operator)
            for operator in operators
        ]
        apart = np.array([_apart(stack.read[row], turned, row) for row in _first(alike)])[alike]
        here = [2 * frobenius(write) * off for write, off in zip(stack.write, apart, strict=True)]
        amounts = np.stack([_amounts(operator) for operator in operators])
        write, lost = stack.write @ turned.triangle, np.add(exact, here)
        stretch = _stretch(turned.read[_first(alike)])
        return cls(stack.members, stack.patterns, turned.read, write, lost, amounts, stretch, alike)

    @property
    def flat(self) -> Array:
        """All writers side by side, (d, C · r); kept within the budget, as `single` is."""
        return BUDGET.get(self, "flat", lambda: _side_by_side(self.write))

    @cached_property
    def scales(self) -> Array:
        """The power of two just above each writer's largest entry, (C,)."""
        return np.asarray(powers(self.write, (1, 2))[:, 0, 0])

    @cached_property
    def growth(self) -> Array:
        """How much longer than a value what each head writes can be: a bound on the norms of its writer, (C,)."""
        flat = self.write / self.scales[:, None, None]
        gram = flat.transpose(0, 2, 1) @ flat
        square = largest(gram) + gamma(flat.shape[1]) * np.trace(gram, axis1=1, axis2=2)
        return np.asarray(np.sqrt(square) * self.scales * (1 + 1e-9))

    def carry(self, row: int, off: Array) -> Array:
        """How long what a head makes of any vectors (..., n) long can be, at most."""
        return finite((off @ self.amounts[row].T) * (self.growth[row] * self.stretch + self.lost[row]))

    @cached_property
    def sizes(self) -> Array:
        """Upper bounds on the Frobenius norms of writers over their scales, (C,)."""
        return lengths(self.write.reshape(len(self.write), -1) / self.scales[:, None])

    @property
    def reader(self) -> Indices:
        """For each head which of the different readers it has, (C,)."""
        return np.arange(len(self.members)) if self.alike is None else self.alike

    @property
    def readers(self) -> Array:
        """The different readers, (at most C, r, d): heads that share a value head read alike."""
        return self.read if self.alike is None else self.read[_first(self.alike)]

    @property
    def single(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The different readers (at most C · r, d), and writers over their scales side by side (d, C · r), in single precision."""
        return BUDGET.get(self, "single", self._single)

    def _single(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        readers = self.readers.reshape(-1, self.read.shape[2]).astype(np.float32)
        return readers, _side_by_side((self.write / self.scales[:, None, None]).astype(np.float32))

    @cached_property
    def seen(self) -> list[tuple[Array, Array]]:
        """The last sets that were looked at through the readers, and how they look."""
        return []

    @property
    def width(self) -> int:
        """The size of a value, r."""
        return int(self.read.shape[1])

    def moved(self, row: int, values: Array) -> Array:
        """Covectors (m, n, r) at the results of one head, at its values."""
        m, n, r = values.shape
        turned = self.patterns[row].T @ values.transpose(1, 0, 2).reshape(n, m * r)
        return np.asarray(turned.reshape(n, m, r).transpose(1, 0, 2))

    def values(self, x: Array) -> Array:
        """Streams (E, n, d) as each head's values before it moves them, (C, E, n, r)."""
        count, n, d = x.shape
        flat = x.reshape(count * n, d) @ self.read.reshape(-1, d).T
        return flat.reshape(count, n, len(self.members), self.width).transpose(2, 0, 1, 3)


class _Turned(NamedTuple):
    """Readers as triangle · read, read nearly orthonormal."""

    triangle: Array
    read: Array


def _side_by_side(write: NDArray[Any]) -> NDArray[Any]:
    """Writers (C, d, r) as one matrix, (d, C · r)."""
    return np.ascontiguousarray(write.transpose(1, 0, 2)).reshape(write.shape[1], -1)


def _alike(read: Array) -> Indices:
    """For each of readers (C, r, d) which of the different ones it is, those in a row that are the same being one."""
    other = [not np.array_equal(one, before) for before, one in pairwise(read)]
    return np.cumsum([0, *other]) if len(read) else np.zeros(0, dtype=np.int64)


def _first(alike: Indices) -> Indices:
    """The first of each of some that are alike."""
    return np.flatnonzero(np.diff(alike, prepend=-1))


def _orthonormal(read: Array, alike: Indices) -> _Turned:
    """Readers (C, r, d) as L Q: by Cholesky where that is stable (Q need only be nearly orthonormal), else by QR.

    Those that are alike are turned once.
    """
    apart = read[_first(alike)]
    scales = powers(apart, (1, 2))
    triangle, turned = _turned(apart / scales, np.bincount(alike))
    return _Turned((triangle * scales)[alike], turned[alike])


def _turned(read: Array, times: Indices) -> tuple[Array, Array]:
    """Readers as triangles and orthonormal ones; each counts as often as heads have it."""
    gram = read @ read.transpose(0, 2, 1)
    try:
        triangle = np.linalg.cholesky(gram)
        inverse = np.linalg.inv(triangle)
    except np.linalg.LinAlgError:
        inverse = np.full_like(gram, np.inf)
    traces = np.repeat(np.trace(gram, axis1=1, axis2=2), times)
    if np.linalg.norm(np.repeat(inverse, times, axis=0)) * np.sqrt(traces.sum()) < _STABLE:
        return np.asarray(triangle), np.asarray(inverse @ read)
    turned, upper = np.linalg.qr(read.transpose(0, 2, 1))
    return np.asarray(upper.transpose(0, 2, 1)), np.ascontiguousarray(turned.transpose(0, 2, 1))


def _apart(read: Array, turned: _Turned, row: int) -> float:
    """How far triangle · read is from what a reader was, in norm."""
    triangle, orthonormal = turned.triangle[row], turned.read[row]
    around = frobenius(triangle) * frobenius(orthonormal)
    apart = frobenius(read - triangle @ orthonormal) + gamma(len(read)) * around
    return apart + gamma(len(read)) * around


def _stretch(read: Array) -> float:
    """A bound on the norms of readers (C, r, d) that are nearly orthonormal."""
    around, width = read @ read.transpose(0, 2, 1), read.shape[1]
    off = lengths((around - np.eye(width)).reshape(len(read), -1)).max(initial=0.0)
    return float(np.sqrt(1 + off + gamma(read.shape[2]) * (width + off)) * (1 + 1e-12))


def _amounts(operator: Operator) -> Array:
    """How much of each position a head moves at most, (n, n)."""
    (step,) = operator
    assert isinstance(step, Step)
    n = int(step.position[-1].numbers().source.size)
    return np.asarray(spread((Step(step.position),), np.eye(n)).T)


def _feature_size(operator: Operator) -> float:
    """How long what a head's features make of a unit vector can be, were all its numbers positive."""
    (step,) = operator
    assert isinstance(step, Step)
    return float(spread((Step((), step.feature),), np.ones(1))[0])


AHEAD = 4
"""How many blocks' norms are found at once."""

_STABLE = 1e6
"""Up to this condition number a reader is made orthonormal through its Gram matrix."""


@dataclass(frozen=True, eq=False)
class Layout:
    """A walk's graph as the search reads it."""

    walk: Walk

    @property
    def size(self) -> tuple[int, int]:
        """(positions, d_model)."""
        n, d, _ = self.walk.graph.sizes
        return n, d

    @cached_property
    def heads(self) -> tuple[tuple[Heads, ...], ...]:
        """The heads of every block, by width."""
        graph = self.walk.graph
        found: list[tuple[Heads, ...]] = [()] * len(graph.blocks)

        def work(b: int) -> None:
            components = graph.blocks[b].components
            found[b] = tuple(
                Heads.of(stack, [components[at].operator for at in stack.members])
                for stack in graph.kernels[b].stacks
            )

        _ = graph.kernels
        for_each(work, len(found))
        return tuple(found)

    @cached_property
    def singles(self) -> tuple[tuple[Single, ...], ...]:
        """The components of every block that are no heads."""
        kernels = self.walk.graph.kernels
        share = MATRICES // max(1, sum(len(kernel.single) for kernel in kernels))
        return tuple(
            tuple(Single.of(index, operator, self.size, share) for index, operator in kernel.single)
            for kernel in kernels
        )

    def prepare(self, b: int) -> None:
        """Find the norms that `carry` asks for, those of `AHEAD` blocks side by side, once for all of them."""
        some = range(b, min(b + AHEAD, len(self.skips)) if b % AHEAD == 0 else b)
        heads, singles = self.heads, self.singles

        def work(at: int) -> None:
            for single in singles[some[at]]:
                if not single.dense:
                    single.carry(np.zeros(self.size[0]))
            for stack in heads[some[at]]:
                _ = stack.growth

        width = self.size[1]
        each(work, len(some), width * sum(cost(single.operator) for at in some for single in singles[at]))

    def carry(self, b: int, component: int, off: Array) -> Array:
        """How long what a component of block b makes of any vectors (..., n) long can be, at most."""
        for single in self.singles[b]:
            if single.index == component:
                return single.carry(off)
        heads = next(heads for heads in self.heads[b] if component in heads.members)
        return heads.carry(int(np.flatnonzero(heads.members == component)[0]), off)

    @cached_property
    def skips(self) -> tuple[Operator, ...]:
        """The map on every block's skip edge."""
        return tuple(block.skip for block in self.walk.graph.blocks)

    @cached_property
    def straight_over(self) -> bool:
        """Whether all skip edges are the identity."""
        return not any(self.skips)

    @cached_property
    def steps(self) -> tuple[Indices, ...]:
        """Per block, the next state (state, component); -1 where no path goes on, or nothing is written."""
        states = range(len(self.walk.automaton.table))
        return tuple(
            np.array(
                [
                    [
                        -1 if silent else self._next(b, state, component.label)
                        for component, silent in zip(block.components, self._silent[b], strict=True)
                    ]
                    for state in states
                ],
                dtype=np.int64,
            ).reshape(len(states), len(block.components))
            for b, block in enumerate(self.walk.graph.blocks)
        )

    @cached_property
    def _silent(self) -> list[list[bool]]:
        """Per block, which components write nothing whatever they read."""
        return [
            [is_zero(component.operator) for component in block.components]
            for block in self.walk.graph.blocks
        ]

    def _next(self, b: int, state: int, label: str) -> int:
        after = self.walk.next_state(state, label)
        return after if after >= 0 and self.walk.completions.leads(b + 1, after) else -1

    @cached_property
    def final(self) -> frozenset[int]:
        """The states in which the sink may be read."""
        states = range(len(self.walk.automaton.table))
        return frozenset(state for state in states if self.walk.finishes(state))

    def before(self, b: int, component: int, states: frozenset[int]) -> frozenset[int]:
        """The states from which a component of block b leads into one of `states`."""
        column = self.steps[b][:, component]
        return frozenset(state for state, after in enumerate(column) if int(after) in states)
