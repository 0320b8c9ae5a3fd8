"""Terms of attention scores as formulas: `A ⊗ B ⊗ W` in plain text and LaTeX, and as sympy expressions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from ...errors import FreezeError
from ...graph import Array, Factor, One, Operator, Step
from .. import symbolic
from ..term import Term
from .pair import Pair

if TYPE_CHECKING:
    import sympy as sp

Turned = tuple[str, bool]
"""A factor's name, and whether it is transposed."""


def formula(query: Operator, key: Operator, pair: Pair) -> str:
    """Return a term as one line of plain text."""
    head = "" if pair.scale == 1.0 else f"{pair.scale:.4g} · "
    if (steps := _steps(query, key)) is None:
        return f"{head}⟨{symbolic.formula(query)}, {_turn(pair)}{symbolic.formula(key)}⟩"
    q, k = steps
    words = [" ".join(f.name for f in step.position) or "Id" for step in (q, k)]
    weight = " ".join(f"{name}ᵀ" if turned else name for name, turned in _weight(q, k, pair))
    return head + " ⊗ ".join([*words, weight])


def latex(query: Operator, key: Operator, pair: Pair) -> str:
    """Return a term in LaTeX."""
    head = "" if pair.scale == 1.0 else rf"{pair.scale:.4g} \, "
    if (steps := _steps(query, key)) is None:
        turn = rf"{symbolic.latex_name(_turn(pair).strip())} \, " if _turn(pair) else ""
        return rf"{head}\left\langle {symbolic.latex(query)} ,\; {turn}{symbolic.latex(key)} \right\rangle"
    q, k = steps
    words = [_product(symbolic.latex_name(f.name) for f in step.position) for step in (q, k)]
    weight = _product(_latex(name, turned) for name, turned in _weight(q, k, pair))
    return head + r" \otimes ".join([*words, weight])


def _steps(query: Operator, key: Operator) -> tuple[Step, Step] | None:
    """The two words of each path, if no gate stands in either."""
    match query, key:
        case (Step() as q,), (Step() as k,):
            return q, k
    return None


def _turn(pair: Pair) -> str:
    factor = pair.form.rotation(pair.query - pair.key)
    return "" if factor is None else f"{factor.name} "


def _weight(query: Step, key: Step, pair: Pair) -> list[Turned]:
    """The feature word of a term, W_Qᵀ W_K written as one where nothing stands between."""
    left = [(factor.name, True) for factor in reversed(query.feature)]
    right = [(factor.name, False) for factor in key.feature]
    between = [(name, False)] if (name := _turn(pair).strip()) else []
    meet = [(f"W_Q_{pair.head}", True), (f"W_K_{pair.head}", False)]
    if [*left[-1:], *between, *right[:1]] == meet:
        return [*left[:-1], (f"W_QK_{pair.head}", False), *right[1:]]
    return [*left, *between, *right]


def _product(names: Iterable[str]) -> str:
    product = list(names)
    if len(product) > 1:
        return rf"\left({' '.join(product)}\right)"
    return product[0] if product else r"\mathrm{Id}"


def _latex(name: str, turned: bool) -> str:
    written = symbolic.latex_name(name)
    return rf"{{{written}}}^{{\top}}" if turned else written


# sympy -------------------------------------------------------------------------------------------------


def expression(query: Term, key: Term, pair: Pair) -> sp.MatrixExpr:
    """Return the matrix of a term's scores, scale · (A X W_qᵀ) R (B X W_kᵀ)ᵀ."""
    sp = symbolic.sympy_module()
    turn = pair.form.rotation(pair.query - pair.key)
    left = _side(query)
    right = [_transposed(symbol) for symbol in reversed(_side(key))]
    between = [] if turn is None else [symbolic._symbol(turn.name, turn.rows, turn.columns)]
    return sp.MatMul(sp.Float(pair.scale), *left, *between, *right)


def _side(term: Term) -> list[sp.MatrixExpr]:
    """The vectors that a path brings, (position, d_head), as a list of factors."""
    sp, step = symbolic.sympy_module(), _single(term)
    position = [_symbol(factor) for factor in step.position]
    feature = [sp.Transpose(_symbol(factor)) for factor in reversed(step.feature)]
    start = term.source.start
    if isinstance(start, One):
        return [*position, *feature]
    start_symbol = symbolic._symbol(f"X_{start.name}", term.graph.positions, start.size)
    return [*position, start_symbol, *feature]


def _transposed(symbol: sp.MatrixExpr) -> sp.MatrixExpr:
    sp = symbolic.sympy_module()
    return symbol.arg if isinstance(symbol, sp.Transpose) else sp.Transpose(symbol)


def _single(term: Term) -> Step:
    match term.operator:
        case (Step() as step,):
            return step
    raise FreezeError(f"path {str(term.path)!r} passes gates, and is no single A ⊗ W; use .formula")


def _symbol(factor: Factor) -> sp.MatrixSymbol:
    return symbolic._symbol(factor.name, factor.rows, factor.columns)


def arrays(query: Term, key: Term, pair: Pair) -> dict[str, Array]:
    """Return the dense arrays behind a term's symbols."""
    found = symbolic.arrays_of(query.operator) | symbolic.arrays_of(key.operator)
    for term in (query, key):
        for name, column in symbolic.start_array(term.source.start).items():
            found[f"X_{name}"] = np.reshape(column, (int(term.graph.positions), -1))
    turn = pair.form.rotation(pair.query - pair.key)
    return found if turn is None else found | {turn.name: turn.numbers().dense()}
