"""One branch: how many paths, their exact sum, where it comes from, its formula, and the components it goes through."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from ...answer import Document, Formula
from ...answer.legend import legend
from ...answer.mathml import elements
from ...expansion.expansion import Expansion
from ...expansion.tree import Limits, tree_of
from ...graph import Component
from ..subject import Subject
from ..view import words
from . import shown

LABEL = re.compile(r"\bL\d+(?:H\d+|M)(?:\.[A-Z])?\b")
"""How components are written in queries."""


def branch(subject: Subject, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the count, the exact sum and share of the paths of a query, by token; of a single path its formula."""
    asked = subject.asked(words(given, "query"))
    terms, value, whole = asked.terms, asked.value, subject.value
    root = tree_of(terms.walk, subject.target, value, "back", Limits(0)).root if terms.count() else None
    return {
        "query": str(terms.query), "count": shown.amount(terms.count()), "single": terms.count() == 1,
        "value": value, "said": shown.logits(value), "share": shown.share(value / whole if whole else None),
        "positions": [] if root is None else shown.by_token(subject.trace, root.by_position()),
        "components": list(_components(subject, words(given, "query"))),
        "formula": _formula(terms) if terms.count() == 1 else None,
    }  # fmt: skip


def _components(subject: Subject, query: str) -> Iterator[dict[str, Any]]:
    """The components that a query names, the last first."""
    for label in dict.fromkeys(reversed(LABEL.findall(query))):
        node = subject.graph.by_label.get(label)
        if isinstance(node, Component):
            yield {"label": label, "base": label.split(".")[0], "head": node.head is not None}


def _formula(terms: Expansion) -> dict[str, Any]:
    term = next(islice(iter(terms), 1))
    said = Formula(str(term.path), term.formula, term.latex())
    return {
        "path": str(term.path), "text": said.text, "latex": said.latex, "math": elements(said.latex),
        "symbols": legend(Document("term", "", (said,))),
    }  # fmt: skip
