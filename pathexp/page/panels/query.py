"""A path query as it is typed: the count and the exact sum, or where it cannot be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...answer import inert
from ...errors import QueryError
from ..subject import Subject
from ..view import words
from . import shown


def query(subject: Subject, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the count and the sum of the paths of a query, or its error in lines, the caret among them."""
    try:
        asked = subject.asked(words(given, "query"))
    except QueryError as error:
        return {"ok": False, "error": [inert(line) for line in str(error).splitlines()]}
    terms, value, whole = asked.terms, asked.value, subject.value
    return {
        "ok": True, "query": str(terms.query), "count": shown.amount(terms.count()), "value": value,
        "said": shown.logits(value), "share": shown.share(value / whole if whole else None),
    }  # fmt: skip
