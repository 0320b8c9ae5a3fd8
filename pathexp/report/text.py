"""Values as text for a terminal: tables, numbers, tokens made visible."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence


def visible(token: str) -> str:
    """Return a token in quotes with everything invisible or active written out.

    Control characters, direction marks and newlines become escapes, so that no token can move the cursor,
    color the screen or reorder a line.

    >>> print(visible(" the"), visible("\\n"), visible("\\x1b[31m"), visible('a"b'))
    " the" "\\n" "\\x1b[31m" "a\\"b"
    """
    return '"' + "".join(map(_visible_character, token)) + '"'


def _visible_character(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if unicodedata.category(character)[0] in "CZ" and character != " ":
        return character.encode("unicode_escape").decode("ascii")
    return character


def table(header: Sequence[str], rows: Iterable[Sequence[str]], align: str) -> str:
    """Return rows as aligned columns under a header and a rule; `align` has one of "<>" per column.

    >>> print(table(["term", "adds"], [["E U", "+1.5"], ["E L0H1 U", "-0.25"]], "<>"))
    term       adds
    ────────  ─────
    E U        +1.5
    E L0H1 U  -0.25
    """
    cells = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    rule = ["─" * width for width in widths]
    lines = [cells[0], rule, *cells[1:]]
    return "\n".join(
        "  ".join(
            f"{cell:{side}{width}}" for cell, side, width in zip(line, align, widths, strict=True)
        ).rstrip()
        for line in lines
    )


def count_of(amount: int, noun: str) -> str:
    """Return an amount with thousands separated and its noun in the right number.

    >>> count_of(1, "path"), count_of(2401, "path")
    ('1 path', '2,401 paths')
    """
    return f"{amount:,} {noun}" + ("" if amount == 1 else "s")
