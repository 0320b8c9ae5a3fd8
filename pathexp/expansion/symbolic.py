"""Operators as formulas: sympy expressions, LaTeX in the papers' notation, plain text.

sympy shows and substitutes; it does not expand. Every product is made at once with the n-ary constructors
and never simplified, since sympy 1.14 collapses equal neighbors to powers that it will not open again,
merges sums of Kronecker products falsely, and compiles matrix symbols of odd names elementwise.
sympy is imported on first use: it takes longer to load than all the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import PathexpError
from ..graph import (
    Action,
    Array,
    Difference,
    Dim,
    Factor,
    Gate,
    Indices,
    One,
    OneHot,
    Operator,
    Parallel,
    Part,
    ResidualGraph,
    Source,
    Start,
    Step,
    Values,
)

if TYPE_CHECKING:
    import sympy as sp


@lru_cache(maxsize=1)
def sympy_module() -> ModuleType:
    """sympy, loaded when it is first needed."""
    import sympy

    module: ModuleType = sympy
    return module


@lru_cache(maxsize=4096)
def _size(dim: Dim) -> Any:
    sp = sympy_module()
    return sp.Integer(dim) if isinstance(dim, int) else sp.Symbol(dim, integer=True, positive=True)


@lru_cache(maxsize=65536)
def _symbol(name: str, rows: Dim, columns: Dim) -> sp.MatrixSymbol:
    return sympy_module().MatrixSymbol(name, _size(rows), _size(columns))


def _word(word: tuple[Factor, ...], identity: Dim) -> sp.MatrixExpr:
    sp = sympy_module()
    symbols = [_symbol(factor.name, factor.rows, factor.columns) for factor in word]
    if not symbols:
        return sp.Identity(_size(identity))
    return symbols[0] if len(symbols) == 1 else sp.MatMul(*symbols)


def _part(part: Part, graph: ResidualGraph, width: Dim) -> sp.MatrixExpr:
    """One part of an operator that reads `width` features."""
    sp = sympy_module()
    if isinstance(part, Parallel):
        return sp.MatAdd(*(expression(term, graph, width) for term in part.terms))
    if isinstance(part, Action):
        return sp.MatrixSymbol(part.name, part.positions * part.rows, part.positions * part.columns)
    if isinstance(part, Gate):
        size = _size(part.positions) * _size(part.features)
        return sp.MatrixSymbol(part.name, size, size)
    return sp.KroneckerProduct(_word(part.position, graph.positions), _word(part.feature, width))


_IDENTITY: Operator = (Step(),)
"""What a path from a point of the stream straight to another one stands for."""


def expression(operator: Operator, graph: ResidualGraph, width: Dim | None = None) -> sp.MatrixExpr:
    """Return an operator as a sympy expression acting on row-major (position, feature) vectors, of `width` features (None: d_model)."""
    parts: list[sp.MatrixExpr] = []
    width = graph.d_model if width is None else width
    for part in reversed(operator or _IDENTITY):
        parts.insert(0, _part(part, graph, width))
        width = _written((part,), width)
    return parts[0] if len(parts) == 1 else sympy_module().MatMul(*parts)


def _written(operator: Operator, width: Dim) -> Dim:
    """How many features an operator writes that reads so many."""
    for part in reversed(operator):
        match part:
            case Step(feature=(first, *_)):
                width = first.rows
            case Gate():
                width = part.features
            case Action():
                width = part.rows
            case Parallel():
                width = _written(part.terms[0], width)
    return width


def start_width(start: Start) -> Dim | None:
    """Return how many features a source's start has; None for constants."""
    return None if isinstance(start, One) else start.size


def start_symbol(start: Start, graph: ResidualGraph) -> sp.MatrixExpr | None:
    """Return the column vector that a source's operator is applied to; None for constants (the number 1)."""
    if isinstance(start, OneHot | Difference | Values):
        return sympy_module().MatrixSymbol(start.name, _size(graph.positions) * _size(start.size), 1)
    return None


def applied(operator: Operator, source: Source, graph: ResidualGraph) -> sp.MatrixExpr:
    """Return the term's value, operator times the source's vector, of shape (positions · d_out, 1)."""
    vector = start_symbol(source.start, graph)
    whole = expression(operator, graph, start_width(source.start))
    return whole if vector is None else sympy_module().MatMul(*_factors(whole), vector)


def _factors(expr: sp.MatrixExpr) -> tuple[sp.MatrixExpr, ...]:
    return expr.args if isinstance(expr, sympy_module().MatMul) else (expr,)


def total(expressions: Iterable[sp.MatrixExpr], shape: tuple[Any, Any]) -> sp.MatrixExpr:
    """Return the sum of expressions, one MatAdd made at once; a zero matrix of `shape` if there are none."""
    sp = sympy_module()
    terms = list(expressions)
    if not terms:
        return sp.ZeroMatrix(*shape)
    return terms[0] if len(terms) == 1 else sp.MatAdd(*terms)


def flat_size(positions: Dim, features: Dim) -> Any:
    """Return positions · features as sympy sees it."""
    return _size(positions) * _size(features)


# Substitution ------------------------------------------------------------------------------------------


def evaluate(expr: sp.MatrixExpr, arrays: Mapping[str, Array]) -> Array:
    """Return the dense value of an expression with arrays put in for its matrix symbols.

    Works on sums, products, Kronecker products, transposes, scalar multiples and identities, node by node,
    without sympy's own evaluation or code generation; it is for cross-checks of small cases, since it forms
    every Kronecker product. Sizes with names, as in graphs from sizes alone, are those of the arrays.
    Raises PathexpError for a symbol without an array, an array that is not of the symbol's shape, two arrays that give
    one size two numbers, and an identity whose size no array gives.

    >>> import numpy as np, sympy as sp
    >>> A, B = sp.MatrixSymbol("A", 2, 2), sp.MatrixSymbol("B", 2, 2)
    >>> evaluate(sp.MatMul(A, B), {"A": np.eye(2), "B": np.ones((2, 2))})
    array([[1., 1.],
           [1., 1.]])
    """
    sp = sympy_module()
    if not isinstance(expr, sp.Basic) or not isinstance(arrays, Mapping):
        raise PathexpError(
            f"evaluate() takes a sympy expression and arrays by name, not {type(expr).__name__} and "
            f"{type(arrays).__name__}; for an expansion: evaluate(terms.expr(), terms.arrays())"
        )
    return _evaluated(expr, arrays, _sizes(expr, arrays))


def _evaluated(expr: sp.MatrixExpr, arrays: Mapping[str, Array], sizes: Mapping[sp.Symbol, int]) -> Array:
    sp = sympy_module()
    if isinstance(expr, sp.MatrixSymbol):
        return _substituted(expr, arrays)
    if isinstance(expr, sp.Identity):
        return np.eye(_whole(expr.shape[0], sizes))
    if isinstance(expr, sp.ZeroMatrix):
        return np.zeros((_whole(expr.shape[0], sizes), _whole(expr.shape[1], sizes)))
    if expr.is_number and not getattr(expr, "is_Matrix", False):
        return np.array(float(expr))
    parts = [_evaluated(arg, arrays, sizes) for arg in expr.args]
    if isinstance(expr, sp.MatAdd):
        return np.asarray(np.sum(parts, axis=0))
    if isinstance(expr, sp.MatMul):
        return _product(parts)
    if isinstance(expr, sp.KroneckerProduct):
        return _kron(parts)
    if isinstance(expr, sp.Transpose):
        return parts[0].T
    raise PathexpError(f"evaluate() does not know {type(expr).__name__} in {expr}")


def _sizes(expr: sp.MatrixExpr, arrays: Mapping[str, Array]) -> dict[sp.Symbol, int]:
    """The numbers of an expression's named sizes, by the arrays of its symbols."""
    sp = sympy_module()
    sizes, givers = dict[Any, int](), dict[Any, str]()
    for symbol in sorted(expr.atoms(sp.MatrixSymbol), key=str):
        for size, n in zip(symbol.shape, _substituted(symbol, arrays).shape, strict=True):
            if size.is_Symbol and sizes.setdefault(size, n) != n:
                raise PathexpError(
                    f"the size {size} is {sizes[size]} by the array of {givers[size]}, but {n} by that of {symbol}"
                )
            givers.setdefault(size, str(symbol))
    return sizes


def _whole(size: Any, sizes: Mapping[sp.Symbol, int]) -> int:
    """A size as a number."""
    found = size.subs(sizes)
    if not found.is_Integer:
        raise PathexpError(f"no array gives the size {size}: give one of a symbol that has it in its shape")
    return int(found)


def _substituted(symbol: sp.MatrixSymbol, arrays: Mapping[str, Array]) -> Array:
    name = str(symbol.name)
    if name not in arrays:
        raise PathexpError(f"no array for the symbol {name}; given: {', '.join(sorted(arrays)) or 'none'}")
    array = np.asarray(arrays[name])
    shape = tuple(symbol.shape)
    if array.ndim != 2 or any(
        size.is_Integer and int(size) != n for size, n in zip(shape, array.shape, strict=True)
    ):
        raise PathexpError(f"symbol {name} has shape {shape}, but the array given has {array.shape}")
    return array


def _product(parts: list[Array]) -> Array:
    product = parts[-1]
    for part in reversed(parts[:-1]):
        product = part * product if part.ndim == 0 else part @ product
    return product


def _kron(parts: list[Array]) -> Array:
    product = parts[0]
    for part in parts[1:]:
        product = np.asarray(np.kron(product, part))
    return product


def arrays_of(operator: Operator) -> dict[str, Array]:
    """Return the dense arrays behind an operator's symbols, by name."""
    arrays: dict[str, Array] = {}
    for part in operator:
        if isinstance(part, Parallel):
            arrays |= {name: array for term in part.terms for name, array in arrays_of(term).items()}
        elif isinstance(part, Action):
            arrays[part.name] = part.dense()
        elif isinstance(part, Gate):
            arrays[part.name] = np.diag(part.numbers().reshape(-1))
        else:
            arrays |= {factor.name: factor.numbers().dense() for factor in part.position + part.feature}
    return arrays


def start_array(start: Start) -> dict[str, Array]:
    """Return the column vector behind a source's start, by name."""
    match start:
        case OneHot(name=name, size=size, indices=indices) if indices is not None:
            return {name: _one_hot(indices, size)}
        case Difference(name=name, size=size, indices=indices, others=others):
            return {name: _one_hot(indices, size) - _one_hot(others, size)}
        case Values(name=name, array=array) if array is not None:
            return {name: array.reshape(-1, 1)}
    return {}


def _one_hot(indices: Indices, size: Dim) -> Array:
    rows = np.zeros((len(indices), int(size)))
    rows[np.arange(len(indices)), indices] = 1.0
    return rows.reshape(-1, 1)


# LaTeX and plain text ----------------------------------------------------------------------------------

_PLACED = re.compile(
    r"^(?P<head>[^\W\d_]\W?[^\W\d_]*(?:_[A-Za-z]+)*?)_L(?P<layer>\d+)(?:H(?P<index>\d+)|_?(?P<rest>[A-Za-z]\w*?))?"
    r"(?:_(?P<port>[KQR]))?$"
)
_LETTERS = {"ones": r"\mathbf{1}", "C": "C", "Δt": r"\Delta t"}
_SYMBOLS = {
    "Ā": r"\bar{A}",
    "S̄": r"\bar{S}",
    "R̄": r"\bar{R}",
    "ḡ": r"\bar{g}",
    "Λ": r"\Lambda",
    "κ": r"\kappa",
    "σ": r"\sigma",
}


def latex_name(name: str) -> str:
    """Return a factor's name in the papers' notation.

    >>> latex_name("W_OV_L0H1"), latex_name("A_L1H0"), latex_name("W_U"), latex_name("Λ_L1H0_K")
    ('W_{OV}^{0.1}', 'A^{1.0}', 'W_{U}', '\\\\Lambda_{K}^{1.0}')
    """
    if name in _LETTERS:
        return _LETTERS[name]
    if match := _PLACED.match(name):
        above = match["layer"] + (f".{match['index']}" if match["index"] else "")
        above += rf",\mathrm{{{_escaped(match['rest'])}}}" if match["rest"] else ""
        head = match["head"] + (f"_{match['port']}" if match["port"] else "")
        return f"{_lettered(head)}^{{{above}}}"
    return _lettered(name)


def _lettered(name: str) -> str:
    letter, _, below = name.partition("_")
    letter = _SYMBOLS.get(letter, letter)
    letter = letter if len(letter) == 1 or letter in _SYMBOLS.values() else rf"\mathrm{{{_escaped(letter)}}}"
    return f"{letter}_{{{_escaped(below)}}}" if below else letter


def _escaped(text: str) -> str:
    return re.sub(r"([_#$%&{}])", r"\\\1", text)


def _latex_word(word: tuple[Factor, ...]) -> str:
    if not word:
        return r"\mathrm{Id}"
    product = " ".join(latex_name(factor.name) for factor in word)
    return product if len(word) == 1 else rf"\left({product}\right)"


def latex(operator: Operator) -> str:
    """Return an operator in LaTeX."""
    return r" \, ".join(_latex_part(part, operator) for part in operator or _IDENTITY)


def _latex_part(part: Part, operator: Operator) -> str:
    if isinstance(part, Parallel):
        return rf"\left({' + '.join(map(latex, part.terms))}\right)"
    if isinstance(part, Action):
        return latex_name(part.name)
    if isinstance(part, Gate):
        return rf"\mathrm{{diag}}\left({latex_name(part.name)}\right)"
    return _bracketed(rf"{_latex_word(part.position)} \otimes {_latex_word(part.feature)}", operator)


def _bracketed(text: str, operator: Operator) -> str:
    return text if len(operator) <= 1 else rf"\left[{text}\right]"


def formula(operator: Operator) -> str:
    """Return an operator as one line of plain text."""
    return " · ".join(_plain_part(part, operator) for part in operator or _IDENTITY)


def _plain_part(part: Part, operator: Operator) -> str:
    if isinstance(part, Parallel):
        return f"({' + '.join(map(formula, part.terms))})"
    if isinstance(part, Action):
        return part.name
    if isinstance(part, Gate):
        return f"diag({part.name})"
    step = f"{_plain(part.position)} ⊗ {_plain(part.feature)}"
    return step if len(operator) <= 1 else f"[{step}]"


def _plain(word: tuple[Factor, ...]) -> str:
    return " ".join(factor.name for factor in word) or "Id"
