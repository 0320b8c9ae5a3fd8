"""When are two sums of products equal? By their multisets of words, never by simplification."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING, Any

from ..errors import PathexpError
from .symbolic import sympy_module

if TYPE_CHECKING:
    import sympy as sp

Word = tuple[Any, ...]
Words = Counter[Word]


def canonical(expr: sp.MatrixExpr) -> dict[Word, Any]:
    """Return an expression as its words and their coefficients, products multiplied out, in no order.

    A word is a tuple of factors: symbols (or their transposes), and for a Kronecker product the tuple of its
    sides' words. Identities are dropped, zeros vanish. Products multiply out, so the size of the answer is the
    number of terms. Raises PathexpError for what is no sum or product of matrix symbols.
    """
    return {word: amount for word, amount in _words(expr).items() if amount != 0}


def equal(a: sp.MatrixExpr, b: sp.MatrixExpr) -> bool:
    """Return whether two expressions are the same multiset of words, and of one shape.

    Factors do not commute; sums do; products distribute over sums and over ⊗.

    >>> import sympy as sp
    >>> A, B, C = (sp.MatrixSymbol(name, 2, 2) for name in "ABC")
    >>> equal(A * (B + C), A * B + A * C), equal(A * B, B * A)
    (True, False)
    """
    return a.shape == b.shape and canonical(a) == canonical(b)


def _words(expr: sp.MatrixExpr) -> Words:
    sp = sympy_module()
    if isinstance(expr, sp.MatrixSymbol):
        return Counter({(expr,): 1})
    if isinstance(expr, sp.Identity):
        return Counter({(): 1})
    if isinstance(expr, sp.ZeroMatrix):
        return Counter()
    if isinstance(expr, sp.MatAdd):
        return reduce(_add, map(_words, expr.args), Counter())
    if isinstance(expr, sp.MatMul):
        return reduce(_multiply, map(_factor, expr.args), Counter({(): 1}))
    if isinstance(expr, sp.MatPow) and expr.exp.is_Integer and expr.exp >= 0:
        return reduce(_multiply, [_words(expr.base)] * int(expr.exp), Counter({(): 1}))
    if isinstance(expr, sp.Transpose):
        return Counter({tuple(map(_turned, reversed(word))): n for word, n in _words(expr.arg).items()})
    if isinstance(expr, sp.KroneckerProduct):
        return _kronecker([_words(arg) for arg in expr.args])
    raise PathexpError(f"{type(expr).__name__} is no sum or product of matrix symbols: {expr}")


def _factor(expr: Any) -> Words:
    """A factor of a product: a matrix expression, or a number."""
    if getattr(expr, "is_Matrix", False):
        return _words(expr)
    return Counter({(): Fraction(str(expr)) if expr.is_Rational else expr})


def _turned(factor: Any) -> Any:
    if isinstance(factor, tuple):
        return tuple(tuple(map(_turned, reversed(word))) for word in factor)
    return factor.T


def _add(a: Words, b: Words) -> Words:
    total = Counter(a)
    for word, amount in b.items():
        total[word] += amount
    return total


def _multiply(a: Words, b: Words) -> Words:
    total: Words = Counter()
    for left, m in a.items():
        for right, n in b.items():
            total[_joined(left, right)] += m * n
    return total


def _joined(left: Word, right: Word) -> Word:
    """Side by side; two neighboring Kronecker products of as many sides merge by the mixed-product rule."""
    if left and right and _mixes(left[-1], right[0]):
        merged = tuple(a + b for a, b in zip(left[-1], right[0], strict=True))
        return (*left[:-1], merged, *right[1:])
    return left + right


def _mixes(a: Any, b: Any) -> bool:
    return isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b) and all(map(_meets, a, b))


def _meets(a: Word, b: Word) -> bool:
    """Whether two sides' inner sizes are the same; an empty word (an identity) meets everything."""
    if not a or not b or isinstance(a[-1], tuple) or isinstance(b[0], tuple):
        return True
    return bool(a[-1].shape[1] == b[0].shape[0])


def _kronecker(sides: Iterable[Words]) -> Words:
    total: Words = Counter({(): 1})
    for side in sides:
        grown: Words = Counter()
        for done, m in total.items():
            for word, n in side.items():
                grown[(*done, word)] += m * n
        total = grown
    return Counter({(word,): amount for word, amount in total.items()})
