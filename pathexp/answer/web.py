"""Answers for the page: every part as plain data, with the words that are shown beside the numbers they round."""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from typing import Any

from ..visible import inert, visible
from .cells import cell
from .data import SCHEMA
from .document import Document
from .legend import legend
from .mathml import elements
from .parts import Check, Facts, Figure, Formula, Matrix, Note, Part, Row, Table, Value
from .text import hidden, hidden_row

ROWS = 60
"""How many rows of a table go to the page; what is left out is said, with its sum where rows add up."""


def to_web(document: Document, *, top: int = ROWS) -> dict[str, Any]:
    """Return a document for the page: `parts` in reading order, and the legend of its symbols.

    A table's cells are the words that every other form shows; `numbers` are what they round.

    >>> from pathexp.answer import Document, Note
    >>> to_web(Document("x", "a headline", (Note("said"),)))["parts"]
    [{'part': 'note', 'title': '', 'text': 'said'}]
    """
    return {
        "kind": document.kind,
        "schema": SCHEMA,
        "headline": inert(document.headline),
        "parts": [shown for part in document.parts if (shown := show(part, top))],
        "symbols": {inert(symbol): inert(meaning) for symbol, meaning in legend(document).items()},
    }


@singledispatch
def show(part: Part, top: int) -> dict[str, Any]:
    """Return one part as plain data."""
    raise TypeError(type(part).__name__)


@show.register
def _(part: Note, top: int) -> dict[str, Any]:
    return {"part": "note", "title": inert(part.title), "text": "\n".join(map(inert, part.text.splitlines()))}


@show.register
def _(part: Check, top: int) -> dict[str, Any]:
    return {"part": "check", "outcome": part.outcome, "text": inert(str(part)), "detail": inert(part.detail)}


@show.register
def _(part: Facts, top: int) -> dict[str, Any]:
    if not part.shown:
        return {}
    return {"part": "facts", "title": inert(part.title),
            "values": [[inert(name), inert(str(value))] for name, value in part.values.items()]}  # fmt: skip


@show.register
def _(part: Formula, top: int) -> dict[str, Any]:
    return {
        "part": "formula",
        "name": inert(part.name),
        "text": inert(part.text),
        "math": elements(part.latex),
    }


@show.register
def _(part: Figure, top: int) -> dict[str, Any]:
    return {}


@show.register
def _(part: Matrix, top: int) -> dict[str, Any]:
    named = visible if part.tokens else inert
    values = [
        [value if value == value else None for value in row] for row in part.values[:top, :top].tolist()
    ]
    cut = len(part.rows) > top or len(part.columns) > top
    return {
        "part": "matrix", "name": part.name, "title": inert(part.title), "unit": part.unit,
        "rows": list(map(named, part.rows[:top])), "columns": list(map(named, part.columns[:top])),
        "values": values, "digits": part.digits,
        "left": f"the first {top} of {len(part.rows):,} rows and {len(part.columns):,} columns" if cut else "",
    }  # fmt: skip


@show.register
def _(part: Table, top: int) -> dict[str, Any]:
    maths = next((at for at, column in enumerate(part.columns) if column.name == "latex"), None)
    shown, rows = part.printed(), part.rows[:top]
    left = len(part.rows) - len(rows)
    return {
        "part": "table", "name": part.name, "title": inert(part.title),
        "columns": [{"name": c.name, "heading": c.heading, "kind": c.kind, "numeric": c.numeric, "unit": c.unit}
                    for c in shown.columns],
        "rows": list(_cells(shown.rows[:top], shown)), "rest": [*hidden_row(shown, len(rows)), *_cells(shown.rest, shown)],
        "numbers": [list(_numbers(row, shown)) for row in shown.rows[:top]],
        "maths": [elements(str(row[maths])) for row in rows] if maths is not None else [],
        "left": f"… {hidden(shown, len(rows))}" if left and not shown.additive else "",
    }  # fmt: skip


def _cells(rows: tuple[Row, ...], table: Table) -> Iterator[list[str]]:
    for row in rows:
        yield [cell(value, column) for value, column in zip(row, table.columns, strict=True)]


def _numbers(row: Row, table: Table) -> Iterator[Value]:
    for value, column in zip(row, table.columns, strict=True):
        yield value if column.numeric and _is_finite(value) else None


def _is_finite(value: Value) -> bool:
    return isinstance(value, int | float) and value - value == 0
