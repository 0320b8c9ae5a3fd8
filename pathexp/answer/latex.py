"""Answers as LaTeX: booktabs tables, formulas as mathematics, every special character escaped."""

from __future__ import annotations

from functools import singledispatch

from ..visible import inert
from .cells import cell
from .document import Document, entries_table
from .parts import Check, Facts, Figure, Formula, Matrix, Note, Part, Row, Table
from .text import hidden, hidden_row

_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "≤": r"$\le$", "⊗": r"$\otimes$", "×": r"$\times$",
    "–": "--", "…": r"\dots{}", "ᵀ": r"$^\top$", "∞": r"$\infty$", "<": r"\textless{}", ">": r"\textgreater{}",
}  # fmt: skip


def word(said: str) -> str:
    """Return text that LaTeX shows and does not obey.

    >>> print(word("$x_1$ & 5 %"))
    \\$x\\_1\\$ \\& 5 \\%
    """
    return "".join(_SPECIAL.get(character, character) for character in inert(said))


def render(document: Document, *, top: int | None = None) -> str:
    """Return a document as LaTeX that needs booktabs and amsmath."""
    body = [shown for part in document.parts if (shown := show(part, top))]
    return "\n\n".join([rf"\paragraph{{{word(document.headline)}}}", *body])


@singledispatch
def show(part: Part, top: int | None) -> str:
    """Return one part as LaTeX."""
    raise TypeError(type(part).__name__)


@show.register
def _(part: Note, top: int | None) -> str:
    lines = [_indented(line) for line in ([part.title] if part.title else []) + part.text.splitlines()]
    return " \\\\\n".join(lines)


def _indented(line: str) -> str:
    """Return a line whose indentation LaTeX keeps: it would drop ordinary spaces."""
    said = line.lstrip(" ")
    depth = len(line) - len(said)
    return (rf"\hspace*{{{depth / 2:g}em}}" if depth else "") + word(said)


@show.register
def _(part: Check, top: int | None) -> str:
    return word(str(part))


@show.register
def _(part: Facts, top: int | None) -> str:
    if not part.shown:
        return ""
    return " \\\\\n".join(f"{word(name)}: {word(str(value))}" for name, value in part.values.items())


@show.register
def _(part: Formula, top: int | None) -> str:
    return f"\\[ {part.latex} \\]" if part.latex else word(part.text)


@show.register
def _(part: Figure, top: int | None) -> str:
    return ""


@show.register
def _(part: Table, top: int | None) -> str:
    part = part.printed()
    limit = part.shown if top is None else top
    if limit == 0 and not part.rest:
        return ""
    rows = part.rows if limit is None else part.rows[:limit]
    sides = "".join("r" if column.numeric else "l" for column in part.columns)
    lines = [rf"\begin{{tabular}}{{{sides}}}", r"\toprule"]
    lines.append(" & ".join(word(column.heading) for column in part.columns) + r" \\")
    lines.append(r"\midrule")
    for cells in [*_cells(rows, part), *hidden_row(part, len(rows)), *_cells(part.rest, part)]:
        lines.append(" & ".join(map(word, cells)) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    left = [] if part.additive or len(rows) == len(part.rows) else [word(f"… {hidden(part, len(rows))}")]
    return "\n".join([*([word(part.title) + r" \\"] if part.title else []), *lines, *left])


def _cells(rows: tuple[Row, ...], table: Table) -> list[list[str]]:
    return [[cell(value, column) for value, column in zip(row, table.columns, strict=True)] for row in rows]


@show.register
def _(part: Matrix, top: int | None) -> str:
    return show(entries_table(part), top)
