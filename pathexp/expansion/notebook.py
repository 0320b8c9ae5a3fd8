"""Expansions as notebooks show them: how many terms, the first of them as formulas, what is frozen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..answer import Note, Report, Table, columns
from ..graph import Query, ResidualGraph
from .header import counted, matching
from .term import Term

FIRST = 8
"""How many terms are shown."""

COMPLETIONS = 1_000
"""How many paths are offered as completions."""


def shown(graph: ResidualGraph, query: Query, counts: Sequence[int], first: Iterable[Term]) -> Report:
    """Return an expansion as an answer: its size by order, its first terms, and what is held fixed."""
    rows = [(str(term.path), term.order, term.formula, term.latex()) for term in first]
    sizes = Table(
        (columns.count("order"), columns.count("terms")),
        [(order, count) for order, count in enumerate(counts) if count], "orders", shown=None,
    )  # fmt: skip
    terms = Table(
        (columns.path(), columns.count("order"), columns.formula("formula"), columns.hidden("latex")),
        rows, "terms", f"the first {len(rows)} of {counted(sum(counts), 'term')}", shown=None,
    )  # fmt: skip
    frozen = Note("\n".join(graph.frozen), "frozen") if graph.frozen else Note("numbers come with a run")
    return Report(f"{counted(sum(counts), 'term')}{matching(query)}", (terms, sizes, frozen))
