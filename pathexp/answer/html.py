"""Answers for notebooks: HTML without scripts or styles that act, every word escaped."""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from html import escape

from ..visible import inert, visible
from .cells import cell
from .document import Document
from .legend import legend
from .mathml import mathml
from .parts import Check, Facts, Figure, Formula, Matrix, Note, Part, Row, Table
from .text import hidden, hidden_row

ROWS = 60
"""How many rows a table shows unless it says otherwise or more are asked for."""


def render(document: Document, *, top: int | None = None) -> str:
    """Return a document as an HTML fragment."""
    body = "".join(show(part, top) for part in document.parts)
    if not any(isinstance(part, Table | Matrix) for part in document.parts):
        body += show(document.table(), top)  # what `records` gives
    explained = "".join(f"<dt>{word(s)}</dt><dd>{word(m)}</dd>" for s, m in legend(document).items())
    glossary = f"<details><summary>symbols</summary><dl>{explained}</dl></details>" if explained else ""
    return f'<div class="pathexp"><p><b>{word(document.headline)}</b></p>{body}{glossary}</div>'


def word(said: str) -> str:
    """Return text that cannot act, in HTML.

    >>> word("<script>")
    '&lt;script&gt;'
    """
    return escape(inert(said))


@singledispatch
def show(part: Part, top: int | None) -> str:
    """Return one part as HTML; pictures are asked for by `plot`."""
    raise TypeError(type(part).__name__)


@show.register
def _(part: Note, top: int | None) -> str:
    title = f"<b>{word(part.title)}</b><br>" if part.title else ""
    return f"<p>{title}{'<br>'.join(map(_indented, part.text.splitlines()))}</p>"


def _indented(line: str) -> str:
    """Return a line whose indentation a browser keeps: it would drop ordinary spaces."""
    said = line.lstrip(" ")
    return "&nbsp;" * (len(line) - len(said)) + word(said)


@show.register
def _(part: Check, top: int | None) -> str:
    lines = [str(part), *part.detail.splitlines()]
    return f"<p>{'<br>'.join(map(word, lines))}</p>"


@show.register
def _(part: Facts, top: int | None) -> str:
    if not part.shown:
        return ""
    rows = "".join(f"<tr><th>{word(n)}</th><td>{word(str(v))}</td></tr>" for n, v in part.values.items())
    return f"<table><caption>{word(part.title)}</caption><tbody>{rows}</tbody></table>"


@show.register
def _(part: Formula, top: int | None) -> str:
    name = f"<p>{word(part.name)}</p>" if part.name else ""
    return f"{name}<p>{mathml(part.latex)}</p>" if part.latex else f"{name}<p>{word(part.text)}</p>"


@show.register
def _(part: Figure, top: int | None) -> str:
    return ""


@show.register
def _(part: Table, top: int | None) -> str:
    maths = _maths(part)
    part = part.printed()
    limit = (None if part.shown is None else max(part.shown, ROWS)) if top is None else top
    rows = part.rows if limit is None else part.rows[:limit]
    head = "".join(f"<th>{word(column.heading)}</th>" for column in part.columns)
    cells = [*_cells(rows, part), *hidden_row(part, len(rows)), *_cells(part.rest, part)]
    drawn = [*maths[: len(rows)], *[""] * (len(cells) - len(rows))] if maths else [""] * len(cells)
    body = "".join(
        f"<tr>{''.join(_sided(row, part, latex))}</tr>" for row, latex in zip(cells, drawn, strict=True)
    )
    left = "" if part.additive or len(rows) == len(part.rows) else f"… {hidden(part, len(rows))}"
    return (
        f"<table><caption>{word(part.title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        + (f"<p>{word(left)}</p>" if left else "")
    )


def _cells(rows: tuple[Row, ...], table: Table) -> Iterator[list[str]]:
    for row in rows:
        yield [cell(value, column) for value, column in zip(row, table.columns, strict=True)]


def _maths(part: Table) -> list[str]:
    """The LaTeX of each row, where a table holds it beside its formulas."""
    return [str(row) for row in part.column("latex")] if any(c.name == "latex" for c in part.columns) else []


def _sided(row: list[str], table: Table, latex: str) -> Iterator[str]:
    for said, column in zip(row, table.columns, strict=True):
        inside = mathml(latex) if latex and column.kind == "formula" else escape(said)
        yield f'<td style="text-align:{"right" if column.numeric else "left"}">{inside}</td>'


@show.register
def _(part: Matrix, top: int | None) -> str:
    named = visible if part.tokens else inert
    head = "".join(f"<th>{escape(named(label))}</th>" for label in part.columns[:ROWS])
    body = "".join(
        f"<tr><th>{escape(named(label))}</th>"
        + "".join(
            f"<td>{value:.{part.digits}f}</td>" if value == value else "<td>–</td>" for value in row[:ROWS]
        )
        + "</tr>"
        for label, row in zip(part.rows[:ROWS], part.values, strict=False)
    )
    cut = len(part.rows) > ROWS or len(part.columns) > ROWS
    left = (
        f"<p>the first {ROWS} of {len(part.rows):,} rows and {len(part.columns):,} columns</p>" if cut else ""
    )
    title = word(f"{part.title} ({part.unit})" if part.unit else part.title)
    return f"<table><caption>{title}</caption><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table>{left}"
