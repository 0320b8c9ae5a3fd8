"""What a question found in each case, written to a file as it is found: an average that died goes on where it was.

The first line says what was asked of which model, then comes one line a case: a SHA-256 of the rest of the line, the
digest of the case, JSON. A last line that was cut off is left out; whatever else does not fit is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from ...answer import Check, Column, Table
from ...errors import LoadError, PathexpError
from ...graph import Query
from ...model import Model
from ...version import VERSION
from ...visible import inert
from ..corpus.tally import question_of
from .case import Case
from .measured import Ask, FromCase, Measured, name_of

PLAIN = (str, int, float, bool, type(None), Query, FromCase)


class Journal:
    """A file of what was found case by case, read at first and then added to; memory does not grow with it.

    Raises LoadError for a file that cannot be read or written, is damaged, or answers another question.
    """

    def __init__(self, path: str | Path, asked: str) -> None:
        self.path, self.asked = Path(path), asked
        self.places: dict[str, tuple[int, int]] = {}
        self.end = self.size = 0
        """Where the next line goes, and how long the file is: longer where a last line was cut off."""
        if self.path.exists():
            if not self.path.is_file():
                raise LoadError(f"{str(path)!r} is no file that cases could be kept in")
            self._read()
            self.size = self.path.stat().st_size

    def kept(self, cases: Sequence[Case]) -> Mapping[int, Callable[[], Measured]]:
        """Return what there is already, by index of the case."""
        keys = enumerate(map(case_digest, cases))
        return {at: partial(self._found, self.places[key]) for at, key in keys if key in self.places}

    def keep(self, case: Case, found: Measured) -> None:
        """Write what was found in a case, unless it is there."""
        key = case_digest(case)
        if key not in self.places:
            if not self.end:
                self._append("asked", self.asked)
            self.places[key] = self._append(key, json.dumps(asdict(found)))

    def _append(self, key: str, text: str) -> tuple[int, int]:
        line = _line(key, text)
        try:
            with open(self.path, "r+b" if self.path.exists() else "xb") as file:
                if file.seek(0, os.SEEK_END) != self.size:
                    raise LoadError(
                        f"{str(self.path)!r} was written to by someone else: give every average a file of its own"
                    )
                file.truncate(self.end)
                file.seek(self.end)
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise LoadError(f"cannot write {str(self.path)!r}: {error.strerror or error}") from error
        place = self.end, len(line)
        self.size = self.end = self.end + len(line)
        return place

    def _read(self) -> None:
        try:
            with self.path.open("rb") as file:
                for number, line in enumerate(file, 1):
                    if not line.endswith(b"\n"):
                        break
                    key, text = self._checked(number, line)
                    if number == 1 and (key, text) != ("asked", self.asked):
                        raise LoadError(
                            f"{str(self.path)!r} holds the cases of another question, model or version: {inert(text[:300])}; "
                            f"asked was {self.asked}. Begin anew, in another file"
                        )
                    if number > 1:
                        self.places[key] = self.end, len(line)
                    self.end += len(line)
        except OSError as error:
            raise LoadError(f"cannot read {str(self.path)!r}: {error.strerror or error}") from error
        if not self.end and self.path.stat().st_size:
            raise LoadError(f"{str(self.path)!r} is no file of cases: its first line has no end")

    def _checked(self, number: int, line: bytes) -> tuple[str, str]:
        """The key and the JSON of a line."""
        try:
            _, key, text = line.decode().rstrip("\n").split(" ", 2)
        except ValueError:
            key = text = ""
        if not key or _line(key, text) != line:
            raise LoadError(
                f"line {number} of {str(self.path)!r} does not fit its checksum: it was damaged or edited. "
                "Begin anew, in another file"
            )
        return key, text

    def _found(self, place: tuple[int, int]) -> Measured:
        try:
            with self.path.open("rb") as file:
                file.seek(place[0])
                _, text = self._checked(0, file.read(place[1]))
            return _measured(json.loads(text))
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise LoadError(f"cannot read a case from {str(self.path)!r}: {error!s:.200}") from error


def _line(key: str, text: str) -> bytes:
    rest = f"{key} {text}\n".encode()
    return hashlib.sha256(rest).hexdigest().encode() + b" " + rest


def _measured(fields: Any) -> Measured:
    tables = {name: _table(**table) for name, table in fields["tables"].items()}
    return Measured(
        fields["kind"], tables, tuple(Check(**check) for check in fields["checks"]), fields["value"]
    )


def _table(columns: Any, key: Any, **others: Any) -> Table:
    return Table([Column(**column) for column in columns], key=tuple(key), **others)


def case_digest(case: Case) -> str:
    """Return a digest of all that a question can see of a case on a model; its name is left out.

    >>> case_digest(Case([1, 2], 3)) == case_digest(Case([1, 2], 3, name="first")) != case_digest(Case([1, 2], 4))
    True
    """
    seen = (case.prompt, case.answer, case.wrong, case.corrupted, sorted(case.roles.items()))
    return hashlib.sha256(json.dumps(seen).encode()).hexdigest()


def asked_of(ask: Ask, given: Mapping[str, Any], model: Model, cases: Sequence[Case]) -> str:
    """Return a line that tells questions, options and models apart, and for means over the cases these as well.

    Raises PathexpError for a question or an option (as `given`) that cannot be told from others by its text.
    """
    name = f"{getattr(ask.question, '__module__', '?')}.{getattr(ask.question, '__qualname__', '?')}"
    if "?" in name or "<" in name:
        raise PathexpError(
            f"resume: {name_of(ask.question)} is no function of a module, which a file could name"
        )
    for option, value in given.items():
        members = value if isinstance(value, tuple | list) else (value,)
        if not all(isinstance(each, PLAIN) for each in members):
            raise PathexpError(
                f"resume: the option {option} is a {type(value).__name__}, which a file cannot name"
            )
    options = {option: repr(value) for option, value in sorted(given.items())}
    every = hashlib.sha256("".join(map(case_digest, cases)).encode()).hexdigest()[:16]
    weights = hashlib.sha256(question_of("", model, None).encode()).hexdigest()[:16]
    said = {
        "pathexp": VERSION,
        "question": name,
        "options": options,
        "contrast": ask.contrast,
        "weights": weights,
    }
    return json.dumps(said | ({"cases": every} if given.get("zero") == "mean" else {}))
