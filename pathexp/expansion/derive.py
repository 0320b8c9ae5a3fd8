"""Path terms as symbols, from sizes alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

from ..answer import Answer, Facts, Part, Table, columns
from ..arguments import expect, whole
from ..graph import Query, ResidualGraph, everything
from .expansion import Expansion, expand
from .header import counted
from .term import Term


@dataclass(frozen=True, eq=False, repr=False)
class Derivation(Answer):
    """The first terms of an expansion as formulas, and how many there are in all.

    >>> import pathexp as px
    >>> found = px.derive(layers=2, heads=2)
    >>> found.count, found.complete, found.records()[3]["formula"]
    (9, True, 'A_L1H0 ⊗ W_U W_OV_L1H0 W_E')
    """

    live: ClassVar[frozenset[str]] = frozenset({"expansion", "terms"})

    expansion: Expansion
    terms: tuple[Term, ...]

    @property
    def count(self) -> int:
        """How many terms there are."""
        return self.expansion.count()

    @property
    def complete(self) -> bool:
        """Whether every term is listed."""
        return len(self.terms) == self.count

    def headline(self) -> str:
        """Return how many paths of which order there are."""
        orders = ", ".join(f"{n:,} of order {k}" for k, n in enumerate(self.expansion.count_by_order()) if n)
        return counted(self.count, "path") + (f": {orders}" if orders else "")

    def parts(self) -> Iterator[Part]:
        """Yield the terms, and their sum as one formula."""
        left = self.count - len(self.terms)
        yield Facts({"count": self.count, "listed": len(self.terms), "complete": self.complete})
        head = (
            columns.path(),
            columns.count("order"),
            columns.formula("formula", "term"),
            columns.hidden("latex"),
        )
        rows = [(str(term.path), term.order, term.formula, term.latex()) for term in self.terms]
        rest = [(f"… {left:,} more of {self.count:,}; --max-terms lists more", None, "", "")] if left else []
        yield Table(head, rows, "terms", key=("path",), shown=None, rest=rest)

    def to_latex(self, *, top: int | None = None) -> str:
        """Return the sum of the terms in the papers' notation, one term a line."""
        left = self.count - len(self.terms)
        body = " \\\\\n  &+ ".join(term.latex() for term in self.terms)
        rest = f" \\\\\n  &+ \\cdots \\text{{ ({left:,} more of {self.count:,} terms)}}" if left else ""
        return f"\\begin{{aligned}}\nT = {{}}& {body}{rest}\n\\end{{aligned}}"


def derive(
    *, layers: int = 2, heads: int = 2, query: str | Query = everything, max_terms: int = 200
) -> Derivation:
    """Return the path terms of an attention-only stack as symbols, from its sizes alone.

    Raises PathexpError for sizes that are not integers, `layers` ≥ 0, the others ≥ 1; QueryError for a query that
    cannot be read. Elhage et al. 2021, "The Path Expansion Trick".

    >>> import pathexp as px
    >>> px.derive(layers=12, heads=12, max_terms=1).count
    23298085122481
    """
    expect("derive", layers=(layers, whole(0)), heads=(heads, whole(1)), max_terms=(max_terms, whole(1)))
    terms = expand(ResidualGraph.attention_only(layers=layers, heads=heads), query)
    return Derivation(terms, tuple(islice(terms, max_terms)))
