"""What was found in each case, written to a file as it is found: work that died goes on where it was.

The first line says what was asked of which model, then comes one line a case and step of the work: a SHA-256 of the rest of
the line, the digest of the case behind the name of the step if it has one, JSON. A last line that was cut off is left out;
whatever else does not fit is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import LoadError, PathexpError
from ...graph import Query
from ...model import Model
from ...version import VERSION
from ...visible import inert
from ..corpus.tally import question_of
from .case import Case
from .measured import FromCase, name_of

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

    def keep(self, key: str, found: Any) -> None:
        """Write plain values under a key, unless something is there."""
        if key not in self.places:
            if not self.end:
                self._append("asked", self.asked)
            self.places[key] = self._append(key, json.dumps(found))

    def found(self, key: str) -> Any:
        """Return the plain values under a key that is there."""
        place, length = self.places[key]
        try:
            with self.path.open("rb") as file:
                file.seek(place)
                _, text = self._checked(0, file.read(length))
            return json.loads(text)
        except (OSError, ValueError, RecursionError) as error:
            raise self.unreadable(error) from error

    def unreadable(self, error: Exception) -> LoadError:
        """Return the error of a line that holds something else than it should."""
        return LoadError(f"cannot read a case from {str(self.path)!r}: {error!s:.200}")

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


def _line(key: str, text: str) -> bytes:
    rest = f"{key} {text}\n".encode()
    return hashlib.sha256(rest).hexdigest().encode() + b" " + rest


def case_digest(case: Case) -> str:
    """Return a digest of all that a question can see of a case on a model; its name is left out.

    >>> case_digest(Case([1, 2], 3)) == case_digest(Case([1, 2], 3, name="first")) != case_digest(Case([1, 2], 4))
    True
    """
    seen = (case.prompt, case.answer, case.wrong, case.corrupted, sorted(case.roles.items()))
    return hashlib.sha256(json.dumps(seen).encode()).hexdigest()


def asked_of(
    question: object, options: Mapping[str, Any], model: Model, cases: Sequence[Case], **more: Any
) -> str:
    """Return a line that tells questions, options and models apart, and for means over the cases these as well.

    Raises PathexpError for a question or an option that cannot be told from others by its text.
    """
    name = f"{getattr(question, '__module__', '?')}.{getattr(question, '__qualname__', '?')}"
    if "?" in name or "<" in name:
        raise PathexpError(f"resume: {name_of(question)} is no function of a module, which a file could name")
    for option, value in options.items():
        members = value if isinstance(value, tuple | list) else (value,)
        if not all(isinstance(each, PLAIN) for each in members):
            raise PathexpError(
                f"resume: the option {option} is a {type(value).__name__}, which a file cannot name"
            )
    said = {
        "pathexp": VERSION,
        "question": name,
        "options": {option: repr(value) for option, value in sorted(options.items())},
        **more,
        "weights": hashlib.sha256(question_of("", model, None).encode()).hexdigest()[:16],
    }
    every = hashlib.sha256("".join(map(case_digest, cases)).encode()).hexdigest()[:16]
    return json.dumps(said | ({"cases": every} if options.get("zero") == "mean" else {}))
