"""The largest paths: all evaluated where they are few, else the largest that the tree of exact sums has come to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any

from ...answer import Note, Report, Table, columns
from ...expansion.expansion import Expansion
from ...expansion.header import counted
from ...expansion.ranking import Ranking
from ..subject import Subject
from ..view import number, words
from . import shown

FEW = 5_000
"""Up to so many paths all are evaluated at once; beyond, the tree finds large ones and `prove` the largest."""

NODES = 200
"""How many nodes of the tree are opened to find large paths."""


def paths(subject: Subject, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `k` largest paths of a query, with what all others add."""
    terms, k = _terms(subject, given), number(given, "k", 12, 1, 200)
    if terms.count() <= FEW:
        return shown.answer(terms.top(k, subject.target), k) | {"proven": True}
    return shown.answer(_found(subject, terms, k), k) | {"proven": False}


def prove(subject: Subject, given: Mapping[str, Any], say: Callable[[str], None]) -> dict[str, Any]:
    """Return the `k` largest paths of a query, by the certified search; `say` is called with how far it is.

    `seconds` limits the search; it can be stopped (`stopped_by`) and then returns what it has, with its bound.
    """
    terms, k = _terms(subject, given), number(given, "k", 12, 1, 200)
    seconds = number(given, "seconds", 60, 1, 3600)
    tree = terms.tree(subject.target, nodes=NODES) if terms.count() > FEW else None
    found: Ranking = terms.top(k, subject.target, seconds=seconds, progress=say, tree=tree)
    return shown.answer(found, k) | {"proven": found.exact}


def _terms(subject: Subject, given: Mapping[str, Any]) -> Expansion:
    query = words(given, "query")
    return subject.terms.where(query) if query else subject.terms


def _found(subject: Subject, terms: Expansion, k: int) -> Report:
    """The largest single paths that a tree has come to; not proven, and it says so."""
    tree = terms.tree(subject.target, nodes=NODES)
    found = [terms[path] for path in tree.finds(k)]
    values = [term.value(subject.target) for term in found]
    rows = [
        (str(term.path), term.order, value, total, term.formula, term.latex())
        for term, value, total in zip(found, values, accumulate(values), strict=True)
    ]
    rest = tree.value - sum(values)
    table = Table(
        (columns.path(), columns.count("order"), columns.number("adds", "contribution", "logits"),
         columns.number("cumulative", unit="logits"), columns.formula("formula"), columns.hidden("latex")),
        rows, "paths", shown=None, value="adds",
        rest=[(counted(terms.count() - len(rows), "other path"), None, rest, tree.value, "", "")],
    )  # fmt: skip
    note = Note(
        f"large paths found by opening {tree.nodes} nodes of the tree; not proven to be the largest: press prove"
    )
    return Report(f"{len(rows)} large paths of {counted(terms.count(), 'path')}", (table, note))
