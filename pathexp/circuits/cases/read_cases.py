"""Cases from files: one JSON object a line (.jsonl), or a table with a header (.csv)."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...arguments import expect, instance, shown
from ...errors import LoadError, PathexpError
from .case import Case

FIELDS = ("prompt", "answer", "wrong", "corrupted", "roles", "name")
ROLE = "role:"
"""The columns of a CSV that hold positions: `role:S2`."""
LONGEST = 1 << 20
"""Characters of a line at most."""


def read_cases(path: str | Path) -> tuple[Case, ...]:
    """Read cases from a file: .jsonl with one object a line, or .csv with a header.

    Fields are those of `Case`. In JSON, texts are strings, tokens integers or lists of them, and roles an object. In
    CSV an id is written #17, token ids #5 #7 #5, several answers are divided by |, and a role is a column `role:S2`.

    Raises LoadError, naming file and line, for what is no case.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "cases.csv"
    >>> _ = file.write_text("prompt,answer,role:S\\n#5 #7 #5,#7,0\\n")
    >>> read_cases(file)[0].tokens
    (5, 7, 5)
    """
    expect("read_cases", path=(path, instance((str, Path), "a path")))
    file = Path(path)
    readers = {".jsonl": _json_lines, ".csv": _csv_rows}
    if file.suffix not in readers:
        raise LoadError(f"cases are read from .jsonl or .csv, got {str(path)!r}")
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            found = tuple(_case(file, line, fields) for line, fields in readers[file.suffix](file, lines))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise LoadError(f"cannot read cases from {str(path)!r}: {error}") from None
    if not found:
        raise LoadError(f"there are no cases in {str(path)!r}")
    return found


def _case(file: Path, line: int, fields: Mapping[str, Any]) -> Case:
    unknown = [name for name in fields if name not in FIELDS]
    missing = [name for name in ("prompt", "answer") if name not in fields]
    try:
        if unknown:
            raise PathexpError(f"{unknown[0]!r:.40} is no field of a case; fields are {', '.join(FIELDS)}")
        if missing:
            raise PathexpError(f"a case needs {' and '.join(missing)}")
        return Case(**fields)
    except PathexpError as error:
        raise LoadError(f"{str(file)!r}, line {line}: {error}") from None


def _json_lines(file: Path, lines: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    number = 0
    while line := lines.readline(LONGEST + 1):
        number += 1
        if len(line) > LONGEST:
            raise LoadError(f"{str(file)!r}, line {number}: longer than {LONGEST:,} characters")
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise LoadError(f"{str(file)!r}, line {number}: {error}") from None
        if not isinstance(found, dict):
            raise LoadError(f"{str(file)!r}, line {number}: expected an object, got {shown(found)}")
        yield number, {name: value for name, value in found.items() if value is not None}


def _csv_rows(file: Path, lines: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    rows = csv.DictReader(lines, strict=True)
    for row in rows:
        if None in row or None in row.values():
            raise LoadError(
                f"{str(file)!r}, line {rows.line_num}: expected {len(rows.fieldnames or ())} values"
            )
        yield rows.line_num, dict(_csv_fields(file, rows.line_num, row))


def _csv_fields(file: Path, line: int, row: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    roles = {}
    for name, word in row.items():
        if name.startswith(ROLE):
            if word.strip():
                roles[name.removeprefix(ROLE)] = _place(file, line, name, word)
        elif word or name == "prompt":
            several = [_token(each) for each in word.split("|")]
            in_tokens = name in ("answer", "wrong")
            yield name, (several if len(several) > 1 else several[0]) if in_tokens else _text_or_ids(word)
    if roles:
        yield "roles", roles


def _place(file: Path, line: int, name: str, word: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise LoadError(
            f"{str(file)!r}, line {line}, {name}: expected a position, got {shown(word)}"
        ) from None


def _token(word: str) -> int | str:
    number = word.strip()
    return int(number[1:]) if number[:1] == "#" and number[1:].isdecimal() and len(number) < 12 else word


def _text_or_ids(words: str) -> str | list[int]:
    tokens = [_token(word) for word in words.split()]
    ids = [token for token in tokens if isinstance(token, int)]
    return ids if ids and len(ids) == len(tokens) else words
