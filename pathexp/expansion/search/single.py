"""Components that are no heads, such as MLPs with frozen gates: as they are, or as one matrix for each position."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...graph import Array, Gate, Operator, Part, Step, cost, is_local, pull, push, word_map
from ...workers import for_each
from .rounding import lengths
from .sizes import lost, magnitude, tight

MATRICES = 2**28
"""How many numbers the matrices of all components of a graph may hold (2 GiB of float64)."""


@dataclass(frozen=True, eq=False)
class Single:
    """A component by its index in the block; `dense` if a matrix for each position is cheaper than its factors."""

    index: int
    operator: Operator
    size: tuple[int, int]
    dense: bool

    @classmethod
    def of(cls, index: int, operator: Operator, size: tuple[int, int], room: int) -> Single:
        """A component on streams of a size (n, d), of which so many may be kept as matrices of `room` numbers."""
        n, d = size
        dense = n * d * d <= room and _is_simple(operator) and cost(operator) > d * d
        return cls(index, operator, size, dense)

    @cached_property
    def matrices(self) -> Array:
        """What a dense component does at each position, transposed: (n, d, d), rows by what it reads."""
        n, d = self.size
        found = np.empty((n, d, d))
        last = self.operator[-1]
        shared = _along_features(last, np.eye(d))

        def work(at: int) -> None:
            matrix = _scale(last, at) * shared
            for part in reversed(self.operator[:-1]):
                matrix = _scale(part, at) * _along_features(part, matrix)
            found[at] = matrix

        for_each(work, n)
        return found

    def carry(self, off: Array) -> Array:
        """How long what the component makes of any vectors (..., n) long can be, at most."""
        if not self.dense:
            return self._spread(off)
        return np.asarray(off * self._norms + lost(self.operator, off))

    def _spread(self, off: Array) -> Array:
        """Through factors: for actions, of which only lengths are known, as if every number were as large as all of them."""
        if _is_simple(self.operator):
            return tight(self.operator, off)
        each = np.broadcast_to(off[..., None], (*off.shape, self.size[1]))
        return lengths(magnitude(self.operator, each))

    @cached_property
    def _norms(self) -> Array:
        """The Frobenius norms of the matrices, (n,)."""
        return lengths(self.matrices.reshape(len(self.matrices), -1))

    def push(self, x: Array) -> Array:
        """What the component makes of streams (E, n, d)."""
        if not self.dense:
            return push(self.operator, x)
        return (x.transpose(1, 0, 2) @ self.matrices).transpose(1, 0, 2)

    def pull(self, r: Array) -> Array:
        """Covectors (m, n, d) on what it writes as covectors on what it reads."""
        if not self.dense:
            return pull(self.operator, r)
        return (r.transpose(1, 0, 2) @ self.matrices.transpose(0, 2, 1)).transpose(1, 0, 2)


def _along_features(part: Part, rows: Array) -> Array:
    """Rows (d, f) through a part's feature word; a gate has none."""
    feature = word_map(part.feature) if isinstance(part, Step) else None
    return rows if feature is None else feature.apply(rows)


def _scale(part: Part, at: int) -> Array | float:
    """By what a local part scales at one position: a gate's values, or a step's entry on the diagonal."""
    assert isinstance(part, Step | Gate), "components with other parts are never dense"
    if isinstance(part, Gate):
        return np.asarray(part.numbers()[at])
    position = word_map(part.position)
    return 1.0 if position is None else float(position.dense()[at, at])


def _is_simple(operator: Operator) -> bool:
    """Whether every position keeps to itself, through gates and scaled feature maps alone."""
    return all(isinstance(part, Step | Gate) for part in operator) and is_local(operator)
