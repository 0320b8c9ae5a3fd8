"""Components that are no heads, such as MLPs with frozen gates: as they are, or as one matrix for each position."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...graph import Array, Gate, Indices, Operator, Part, Step, cost, is_local, pull, push, word_map
from ...workers import each, for_each
from .fields import ROWS, Fields
from .gated import gated_norms
from .rounding import finite, gamma, lengths
from .sizes import lost, magnitude, tight

MATRICES = 2**27
"""How many numbers the matrices of all components of a graph may hold (1 GiB of float64)."""


@dataclass(frozen=True, eq=False)
class Single:
    """A component by its index in the block; `folded` if a matrix for each position is cheaper than its factors.

    It is `dense` if these matrices fit in memory as well.
    """

    index: int
    operator: Operator
    size: tuple[int, int]
    folded: bool
    dense: bool

    @classmethod
    def of(cls, index: int, operator: Operator, size: tuple[int, int], room: int) -> Single:
        """A component on streams of a size (n, d), of which so many may be kept as matrices of `room` numbers."""
        n, d = size
        folded = _is_simple(operator) and cost(operator) > d * d
        return cls(index, operator, size, folded, folded and n * d * d <= room)

    @cached_property
    def matrices(self) -> Array:
        """What a dense component does at each position, transposed: (n, d, d), rows by what it reads."""
        n, d = self.size
        found, made = np.empty((n, d, d)), self._maker()

        def work(at: int) -> None:
            found[at] = made(at)

        for_each(work, n)
        return found

    @property
    def matrix(self) -> Callable[[int], Array]:
        """What gives the matrix of a position: kept, or made each time anew."""
        return self.matrices.__getitem__ if self.dense else self._maker()

    def _maker(self) -> Callable[[int], Array]:
        *others, last = self.operator
        shared = _along_features(last, np.eye(self.size[1]))

        def made(at: int) -> Array:
            matrix, scale = shared, _scale(last, at)
            for part in reversed(others):
                scale = scale * _scale(part, at)
                if isinstance(part, Step) and part.feature:
                    matrix, scale = _along_features(part, matrix * scale), 1.0
            return matrix * scale

        return made

    def carry(self, off: Array) -> Array:
        """How long what the component makes of any vectors (..., n) long can be, at most."""
        if not self.dense:
            return self._spread(off)
        return finite(off * self._norms + lost(self.operator, off))

    def _spread(self, off: Array) -> Array:
        """Through factors: for actions, of which only lengths are known, as if every number were as large as all of them."""
        if _is_simple(self.operator):
            far = tight(self.operator, off)
            known = self._gated
            return far if known is None else np.fmin(far, off * known + lost(self.operator, off))
        each = np.broadcast_to(off[..., None], (*off.shape, self.size[1]))
        return lengths(magnitude(self.operator, each))

    @cached_property
    def _gated(self) -> Array | None:
        return gated_norms(self.operator, self.size)

    @cached_property
    def _norms(self) -> Array:
        """Schatten's 4-norms of the matrices, which bound what they do to any vector, (n,)."""
        n, d = self.size
        found = np.empty(n)

        def work(at: int) -> None:
            matrix = self.matrices[at]
            whole = lengths(matrix.reshape(-1))
            fourth = lengths((matrix @ matrix.T).reshape(-1)) + gamma(d) * np.square(whole)
            found[at] = np.fmin(whole, np.sqrt(fourth) * (1 + 1e-12))

        _ = self.matrices
        for_each(work, n)
        return finite(found)

    def push(self, x: Array) -> Array:
        """What the component makes of streams (E, n, d)."""
        if not self.dense:
            return self._pushed(x)
        found = np.empty_like(x)

        def work(at: int) -> None:
            found[:, at] = x[:, at] @ self.matrices[at]

        _ = self.matrices
        for_each(work, self.size[0])
        return found

    def _pushed(self, x: Array) -> Array:
        """What the component makes of streams, some of them at a time: shared out where that is much."""
        some = max(1, ROWS // self.size[0])
        starts = range(0, len(x), some)
        parts = [np.zeros(0)] * len(starts)

        def work(at: int) -> None:
            parts[at] = push(self.operator, x[starts[at] : starts[at] + some])

        each(work, len(starts), len(x) * self.size[0] * cost(self.operator))
        return np.concatenate(parts) if parts else push(self.operator, x)

    def pull(self, fields: Fields) -> Fields:
        """Covectors on what it writes as covectors on what it reads."""
        _, d = self.size
        if not self.dense:
            simple = _is_simple(self.operator)
            return (
                fields.mapped(self._pulled, d) if simple else Fields.of(pull(self.operator, fields.dense()))
            )
        found = np.empty_like(fields.rows)

        def work(at: int, rows: Indices) -> None:
            found[rows] = fields.rows[rows] @ self.matrices[at].T

        _ = self.matrices
        fields.at_positions(work, d * d)
        return fields.holding(found)

    def _pulled(self, rows: Array, positions: Indices) -> Array:
        """Rows (R, d) at some positions (R,), pulled back through parts that keep to every position."""
        for part in self.operator:
            if isinstance(part, Gate):
                rows = rows * part.numbers()[positions]
                continue
            assert isinstance(part, Step), "simple components are gates and steps"
            if (position := word_map(part.position)) is not None:
                rows = rows * np.diagonal(position.dense())[positions, None]
            rows = part.pull_features(rows)
        return rows


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
