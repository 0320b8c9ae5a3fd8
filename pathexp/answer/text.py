"""Answers for a terminal: aligned tables that fit the width, long formulas shortened, nothing that acts."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from functools import singledispatch

from ..visible import inert, visible
from .cells import cell
from .document import Document, Sayable
from .legend import legend
from .parts import Check, Column, Facts, Figure, Formula, Matrix, Note, Part, Table, Value

GAP = "  "
NARROWEST = 12
"""A flexible column is not shortened below this."""


def terminal_width() -> int:
    """Return the columns of the terminal; 100 where there is none."""
    return max(shutil.get_terminal_size((100, 24)).columns, 40)


def render(document: Document, *, width: int | None = None, top: int | None = None) -> str:
    """Return a document as text, at most `width` columns wide where its words allow, `top` rows a table."""
    wide = terminal_width() if width is None else width
    said = [
        inert(document.headline),
        *(show(part, wide, top) for part in document.parts),
        _explained(document),
    ]
    return "\n\n".join(block for block in said if block)


def stream(answer: Sayable, *, width: int | None = None, top: int | None = None) -> Document:
    """Print an answer part by part, as soon as each is made, and return the document of what was printed.

    An interrupt (Ctrl-C) ends it with what there is, and one line that says so.
    """
    wide = terminal_width() if width is None else width
    print(inert(answer.headline()), flush=True)
    parts: list[Part] = []
    try:
        for part in answer.parts():
            parts.append(part)
            if block := show(part, wide, top):
                print(f"\n{block}", flush=True)
    except KeyboardInterrupt:
        parts.append(Check("the answer is complete", 0.0, 0.0, reason="interrupted; this is what there was"))
        print(f"\n{parts[-1]}", flush=True)
    document = Document("", answer.headline(), tuple(parts))
    if explained := _explained(document):
        print(f"\n{explained}", flush=True)
    return document


def _explained(document: Document) -> str:
    explained = legend(document)
    wide = max(map(len, explained), default=0)
    return "\n".join(f"{symbol:{wide}}  {meaning}" for symbol, meaning in explained.items())


def shortened(line: str, width: int) -> str:
    """Return a line of at most `width` characters, cut with "…".

    >>> shortened("E L0H1 L1H0 U", 9)
    'E L0H1 L…'
    """
    line = inert(line)
    return line if len(line) <= width else line[: max(width - 1, 0)] + "…"


def elided(path: str, width: int) -> str:
    """Return a path of at most `width` characters: its source, "…" and as much of its end as fits; what is none is cut.

    >>> elided("E L0H1 L1H0 L2M U", 14), elided("E L0H1 L1H0 L2M U", 20), elided("E L0H1 U", 4)
    ('E … L1H0 L2M U', 'E L0H1 L1H0 L2M U', '…1 U')
    """
    if len(path) <= width or not path[0].isalpha():
        return shortened(path, width)
    first, *others = path.split()
    for at in range(1, len(others)):
        if len(short := " ".join((first, "…", *others[at:]))) <= width:
            return short
    return "…" + path[len(path) - max(width - 1, 0) :]


@singledispatch
def show(part: Part, width: int, top: int | None) -> str:
    """Return one part as text; pictures have none."""
    raise TypeError(type(part).__name__)


@show.register
def _(part: Note, width: int, top: int | None) -> str:
    lines = [inert(line) for line in part.text.splitlines()]
    return "\n".join([inert(part.title), *(f"  {line}" for line in lines)] if part.title else lines)


@show.register
def _(part: Check, width: int, top: int | None) -> str:
    return "\n".join([inert(str(part)), *(f"  {inert(line)}" for line in part.detail.splitlines())])


@show.register
def _(part: Facts, width: int, top: int | None) -> str:
    if not part.shown or not part.values:
        return ""
    names = [name.replace("_", " ") for name in part.values]
    wide = max(map(len, names))
    lines = [f"{inert(n):{wide}}  {_fact(v)}" for n, v in zip(names, part.values.values(), strict=True)]
    return "\n".join([inert(part.title), *lines] if part.title else lines)


def _fact(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.6g}" if isinstance(value, float) else inert(str("–" if value is None else value))


@show.register
def _(part: Formula, width: int, top: int | None) -> str:
    return f"{inert(part.name)} = {inert(part.text)}" if part.name else inert(part.text)


@show.register
def _(part: Figure, width: int, top: int | None) -> str:
    return ""


@show.register
def _(part: Table, width: int, top: int | None) -> str:
    part = part.printed()
    limit = part.shown if top is None else top
    if limit == 0 and not part.rest:
        return ""
    rows = part.rows if limit is None else part.rows[:limit]
    lines = [inert(part.title)] if part.title else []
    cells = [[cell(v, column) for v, column in zip(row, part.columns, strict=True)] for row in rows]
    cells += hidden_row(part, len(rows))
    cells += [[cell(v, column) for v, column in zip(row, part.columns, strict=True)] for row in part.rest]
    lines += blocks(part.columns, cells, width, len(part.key) or 1) if cells else ["(none)"]
    if len(rows) < len(part.rows) and not part.additive:
        lines.append(f"… {hidden(part, len(rows))}")
    return "\n".join(lines)


def hidden(table: Table, shown: int) -> str:
    """Return how many rows are not shown.

    >>> from pathexp.answer import Table, columns
    >>> hidden(Table((columns.text("x"),), [("a",), ("b",)]), 1)
    '1 more of 2 rows'
    """
    return f"{len(table.rows) - shown:,} more of {len(table.rows):,} rows"


def hidden_row(table: Table, shown: int) -> list[list[str]]:
    """Return the row that says how many rows are not shown and what they add, where rows add up."""
    left = table.rows[shown:]
    if not (left and table.additive and table.value is not None):
        return []
    names = [column.name for column in table.columns]
    place = names.index(table.value)
    total = float(sum(value for row in left if isinstance(value := row[place], int | float)))
    return [[f"… {len(left):,} more" if at == 0 else cell(total, column) if at == place else ""
             for at, column in enumerate(table.columns)]]  # fmt: skip


def blocks(columns: Sequence[Column], cells: list[list[str]], width: int, key: int) -> list[str]:
    """Return the lines of a table that fits: flexible columns are shortened, then columns go to further blocks."""
    table = [[column.heading for column in columns], *cells]
    widths = fit([max(len(row[at]) for row in table) for at in range(len(columns))], columns, width)
    lines: list[str] = []
    for group in _groups(widths, width, min(key, len(columns))):
        lines += [""] if lines else []
        lines += list(_lines(table, group, widths, columns))
    return lines


def fit(widths: list[int], columns: Sequence[Column], width: int) -> list[int]:
    """Return the widths of columns: formulas, then paths and texts give way where the whole is too wide."""
    for kinds in (("formula",), ("path", "text", "token")):
        for at, column in enumerate(columns):
            over = sum(widths) + len(GAP) * (len(widths) - 1) - width
            if over > 0 and column.kind in kinds:
                least = max(NARROWEST, len(column.heading), width // 3 if column.kind == "path" else 0)
                widths[at] = max(widths[at] - over, min(widths[at], least))
    return widths


def _groups(widths: list[int], width: int, key: int) -> Iterator[list[int]]:
    """Yield the columns of each block; the key columns lead every block."""
    head = list(range(key))
    group = list(head)
    for at in range(key, len(widths)):
        if len(group) > key and sum(widths[c] + len(GAP) for c in [*group, at]) - len(GAP) > width:
            yield group
            group = list(head)
        group.append(at)
    yield group


def _lines(
    table: list[list[str]], group: list[int], widths: list[int], columns: Sequence[Column]
) -> Iterator[str]:
    for number, row in enumerate(table):
        yield GAP.join(_padded(row[at], widths[at], columns[at]) for at in group).rstrip()
        if number == 0:
            yield GAP.join("─" * widths[at] for at in group)


def _padded(said: str, width: int, column: Column) -> str:
    said = elided(said, width) if column.kind == "path" else shortened(said, width)
    return f"{said:>{width}}" if column.numeric else f"{said:<{width}}"


LARGEST_MATRIX = 24
"""A matrix of more rows is summed up by its largest entries."""


@show.register
def _(part: Matrix, width: int, top: int | None) -> str:
    named = visible if part.tokens else inert
    columns = [Column("row", "text", part.row_axis), *(
        Column(f"c{at}", "number", named(label), digits=part.digits) for at, label in enumerate(part.columns)
    )]  # fmt: skip
    lines = [inert(part.title)] if part.title else []
    wide = (part.digits + 6) * len(part.columns) + 12
    if len(part.rows) > LARGEST_MATRIX or wide > 3 * width:
        return "\n".join([*lines, *_largest(part, named, 12 if top is None else top)])
    cells = [[named(label), *(cell(_undefined(v), column) for v, column in zip(row, columns[1:], strict=True))]
             for label, row in zip(part.rows, part.values, strict=True)]  # fmt: skip
    return "\n".join([*lines, *blocks(columns, cells, width, 1)])


def _undefined(value: float) -> float | None:
    return None if value != value else float(value)


def _largest(part: Matrix, named: object, top: int) -> Iterable[str]:
    rows = [entry for entry, _ in zip(part.entries(), range(top), strict=False)]
    yield f"{len(part.rows):,} × {len(part.columns):,}; the {len(rows)} entries of largest absolute value:"
    wide = max((len(inert(row)) for row, _, _ in rows), default=0)
    for row, column, value in rows:
        yield f"{inert(row):{wide}}  {inert(column)}  {value:+.{part.digits}f}"
