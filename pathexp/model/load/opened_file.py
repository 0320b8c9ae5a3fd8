"""A file that stays open while arrays of it are used: numbers are read when asked, and a change is an error."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any
from weakref import finalize

import numpy as np
import numpy.typing as npt

from ...errors import LoadError


@dataclass(frozen=True, eq=False)
class OpenedFile:
    """One file, open for reading for as long as this lives; renamed or deleted, it is still the same file.

    Numbers are read, not mapped: a file that is cut while it is mapped kills the process, and here is an error.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     place = Path(folder, "numbers")
    ...     _ = place.write_bytes(bytes([1, 0, 2, 0]))
    ...     OpenedFile(place).numbers(2, 1, "<u2")
    array([2], dtype=uint16)
    """

    path: Path

    def __post_init__(self) -> None:
        file = open(self.path, "rb", buffering=0)  # noqa: SIM115  # closed when this is let go
        finalize(self, file.close)
        object.__setattr__(self, "_file", file)
        object.__setattr__(self, "_lock", Lock())
        object.__setattr__(self, "_found", _state(file.fileno()))

    @property
    def where(self) -> str:
        """The path, for messages."""
        return repr(str(self.path))

    @property
    def size(self) -> int:
        """How many bytes it had when it was opened."""
        return int(self._found[0])  # type: ignore[attr-defined]

    @property
    def descriptor(self) -> int:
        """The number by which the system knows the open file."""
        return int(self._file.fileno())  # type: ignore[attr-defined]

    def numbers(self, begin: int, count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return so many numbers from a byte on.

        Raises LoadError if the file ends before, or was written to since it was opened.
        """
        array = np.empty(count, dtype=dtype)
        view, done = memoryview(array.view(np.uint8).data) if count else memoryview(b""), 0
        while done < len(view) and (step := self._read(view[done:], begin + done)):
            done += step
        self._check(begin, len(view), done)
        return array

    def _read(self, view: memoryview, begin: int) -> int:
        """Read from a byte on and return how many were read. A forked process shares the file's own place: none is used."""
        if hasattr(os, "preadv"):
            return os.preadv(self.descriptor, [view], begin)
        with self._lock:  # type: ignore[attr-defined]
            self._file.seek(begin)  # type: ignore[attr-defined]
            return int(self._file.readinto(view))  # type: ignore[attr-defined]

    def _check(self, begin: int, wanted: int, done: int) -> None:
        found, now = self._found, _state(self._file.fileno())  # type: ignore[attr-defined]
        if now != found:
            raise LoadError(
                f"Cannot read {self.where}: it has changed since the model was loaded (then {found[0]:,} bytes, now "
                f"{now[0]:,}). Load the model again."
            )
        if done < wanted:
            raise LoadError(
                f"Cannot read {self.where}: {wanted:,} bytes were expected from byte {begin:,} on, found {done:,}."
            )


def _state(descriptor: int) -> tuple[int, int]:
    """The size of an open file in bytes, and when it was last written to."""
    found = os.fstat(descriptor)
    return found.st_size, found.st_mtime_ns
