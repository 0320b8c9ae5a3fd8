"""One term of an attention score: a path into the query times a path into the key, `A ⊗ B ⊗ W`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ...algebra import LinearMap, compose, scale
from ...graph import Array
from ..term import Term
from . import symbols
from .pair import Pair

if TYPE_CHECKING:
    import sympy as sp

DIRECT, Q_COMPOSITION, K_COMPOSITION, JOINT = "direct", "Q-composition", "K-composition", "joint"
POSITION_BIAS = "position bias"
KINDS = (DIRECT, Q_COMPOSITION, K_COMPOSITION, JOINT, POSITION_BIAS)
"""What a term of a score is, by whether its query path and its key path pass other components."""


def kind_of(query_order: int, key_order: int) -> str:
    """Return the kind of a pair of paths of given orders.

    Elhage et al. 2021, "Three Kinds of Composition"; "joint" is Q- and K-composition at once.

    >>> kind_of(0, 0), kind_of(1, 0), kind_of(0, 2), kind_of(1, 1)
    ('direct', 'Q-composition', 'K-composition', 'joint')
    """
    return ((DIRECT, K_COMPOSITION), (Q_COMPOSITION, JOINT))[query_order > 0][key_order > 0]


@dataclass(frozen=True, eq=False, repr=False)
class ScoreTerm:
    """The contribution of one pair of paths to the score of one pair of positions.

    >>> import pathexp as px
    >>> trace = px.random_model(layers=2, heads=2, positions="none").run([3, 1, 4, 1])
    >>> term = px.score(trace, "L1H0", query=3, key=2)["E Q", "E L0H1 K"]
    >>> term.kind, term.formula
    ('K-composition', '0.4472 · Id ⊗ A_L0H1 ⊗ W_Eᵀ W_QK_L1H0 W_OV_L0H1 W_E')
    """

    pair: Pair
    query_term: Term
    key_term: Term

    def __repr__(self) -> str:
        return f"ScoreTerm({str(self)!r})"

    def __str__(self) -> str:
        return f"{self.query_term.path} × {self.key_term.path}"

    @property
    def orders(self) -> tuple[int, int]:
        """How many components the query path and the key path pass."""
        return self.query_term.order, self.key_term.order

    @property
    def kind(self) -> str:
        """One of `KINDS`."""
        return kind_of(*self.orders)

    # As numbers ----------------------------------------------------------------------------------------

    @cached_property
    def query_vector(self) -> Array:
        """What the query path brings to the query, (d_head,)."""
        return np.array(self.query_term.logits()[self.pair.query])

    @cached_property
    def key_vectors(self) -> Array:
        """What the key path brings to the keys as this query meets them, (position, d_head)."""
        return self.pair.form.met(self.key_term.logits(), self.pair.query)

    @cached_property
    def row(self) -> Array:
        """What the pair of paths adds to this query's score of every key, (position,); NaN where masked."""
        scales = self.pair.form.scale * self.pair.ratios
        return self.pair.row(scales * (self.key_vectors @ self.query_vector))

    @property
    def value(self) -> float:
        """What the pair of paths adds to the score."""
        return float(self.row[self.pair.key])

    @property
    def advantage(self) -> float:
        """What it adds to the score above the mean of the other visible keys: all that the softmax sees."""
        return self.pair.advantage(self.row)

    @property
    def no_effect(self) -> bool:
        """Whether the term is the same for every key that the query can see, so that the softmax cancels it.

        So it is with `q · b_K` (and not with `b_Q · k`), unless keys are turned by their position.
        """
        keys = np.linalg.norm(self.key_vectors[self.pair.visible], axis=-1).max()
        return self.pair.is_flat(
            self.row, self.pair.form.scale * float(np.linalg.norm(self.query_vector) * keys)
        )

    # As matrices and formulas --------------------------------------------------------------------------

    @property
    def patterns(self) -> tuple[Array, Array]:
        """(A, B): the position parts of the query path and of the key path; FreezeError around gates."""
        return self.query_term.pattern, self.key_term.pattern

    @property
    def weight(self) -> LinearMap:
        """W: the factored bilinear form from the key path's source space to the query path's, scale included.

        The term at (i, j) is the sum over positions a, b of A[i, a] B[j, b] · xᵀ W y, with x and y what stands
        at a and b. Under rotary it holds for this pair's distance. Raises FreezeError around gates.
        """
        turn = self.pair.form.rotation(self.pair.query - self.pair.key)
        between = [] if turn is None else [turn.numbers()]
        return scale(self.pair.scale, compose(self.query_term.weight.T, *between, self.key_term.weight))

    @property
    def formula(self) -> str:
        """The term as one line of plain text."""
        return symbols.formula(self.query_term.operator, self.key_term.operator, self.pair)

    def latex(self) -> str:
        """The term in the papers' notation, A ⊗ B ⊗ W."""
        return symbols.latex(self.query_term.operator, self.key_term.operator, self.pair)

    @property
    def expr(self) -> sp.MatrixExpr:
        """The term's score matrix, (query position, key position), as a sympy expression.

        `X_t` stands for the one-hot tokens, (position, d_vocab), `X_p` for the positions. Under rotary the
        form is that of this pair's distance, and only entries at that distance are scores.
        """
        return symbols.expression(self.query_term, self.key_term, self.pair)

    def arrays(self) -> dict[str, Array]:
        """The dense arrays behind the symbols of `expr`, by name."""
        return symbols.arrays(self.query_term, self.key_term, self.pair)


@dataclass(frozen=True, eq=False)
class PositionBias:
    """What distance alone adds to a score: ALiBi's -slope · (query - key). No path brings it."""

    pair: Pair

    def __str__(self) -> str:
        return "ALiBi"

    @property
    def kind(self) -> str:
        """Always "position bias"."""
        return POSITION_BIAS

    @cached_property
    def row(self) -> Array:
        """What is added to this query's score of every key, (position,); NaN where masked."""
        return self.pair.row(self.pair.form.bias(self.pair.query, len(self.pair.visible)))

    @property
    def value(self) -> float:
        """What is added to the score."""
        return float(self.row[self.pair.key])

    @property
    def error(self) -> float:
        """How far the value may be off: by the rounding of one product."""
        return abs(self.value) * 2.0**-52 + 5e-324

    @property
    def advantage(self) -> float:
        """What is added above the mean of the other visible keys."""
        return self.pair.advantage(self.row)

    @property
    def no_effect(self) -> bool:
        """Whether all visible keys get the same."""
        return self.pair.is_flat(self.row, float(np.nanmax(np.abs(self.row))))

    @property
    def formula(self) -> str:
        """The term as one line of plain text."""
        return f"-{self.pair.form.slope:.4g} · {self.pair.query - self.pair.key}"

    def latex(self) -> str:
        """The term in LaTeX."""
        return rf"-{self.pair.form.slope:.4g} \cdot {self.pair.query - self.pair.key}"
