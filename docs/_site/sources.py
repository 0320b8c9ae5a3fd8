"""Sources for Sphinx: docstrings in the library's plain style as fields and inert text; links out of the site as text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

SECTION = "Parameters"
_FIELD = re.compile(r"^(?P<names>\*{0,2}\w+(?:, \*{0,2}\w+)*): (?P<said>.*)$")
_BARS = re.compile(r"(?<![`\\\w])\|([^|`\s][^|`]*)\|")


def process(app: object, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Rewrite the lines of one docstring in place; Sphinx calls it for each."""
    lines[:] = list(rewritten(lines))


def leading_out(app: object, page: str, source: list[str]) -> None:
    """Show links to files outside of docs as text, in place; a code host follows them, a site cannot."""
    source[0] = _OUTSIDE.sub(r"\1 (`\2` in the repository)", source[0])


_OUTSIDE = re.compile(r"\[([^\]]*)\]\((?:\.\./)+([^)]*)\)")


def rewritten(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines with their parameters as fields; |x| and ** in prose are no markup.

    >>> list(rewritten(["Take it.", "", "Parameters", "----------", "k: how many,", "    at most.", "", "Cost: |k|."]))
    ['Take it.', '', ':param k: how many,', '    at most.', '', 'Cost: \\\\|k\\\\|.']
    """
    inside = False
    for at, line in enumerate(lines):
        if line.strip() == SECTION and at + 1 < len(lines) and set(lines[at + 1].strip()) == {"-"}:
            inside = True
        elif inside and set(line.strip()) == {"-"}:
            continue
        else:
            inside = inside and bool(line.strip())
            yield from _line(line, inside)


def _line(line: str, inside: bool) -> Iterator[str]:
    if line.lstrip().startswith((">>>", "...")):
        yield line
        return
    field = _FIELD.match(line) if inside else None
    inert = _BARS.sub(r"\\|\1\\|", line)
    if field is None:
        yield re.sub(r"(?<!`)\*\*(?=\w)", r"\\*\\*", inert)
        return
    said = _BARS.sub(r"\\|\1\\|", field["said"])
    names = field["names"].replace("*", r"\*")
    yield f":param {names}: {said}"
