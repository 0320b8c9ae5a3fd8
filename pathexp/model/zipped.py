"""Arrays in a zip file: what each claims to be is read before its numbers are, and every way to fail is one error."""

from __future__ import annotations

import struct
import tokenize
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import LoadError
from ..visible import inert

UNREADABLE = (
    OSError, ValueError, KeyError, TypeError, EOFError, MemoryError, RuntimeError, SyntaxError, OverflowError, LoadError,
    zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError,
)  # fmt: skip
"""What zipfile and numpy raise for damaged files: encrypted members, headers that are no Python, patched data."""

_LONGEST_NAME = 200


@contextmanager
def zipped(path: Path) -> Iterator[Zipped]:
    """Open a zip file of arrays. Raises LoadError where a name in it is twice there, or no array's."""
    with zipfile.ZipFile(path) as archive:
        names = Counter(archive.namelist())
        if twice := [inert(name[:60]) for name, count in names.items() if count > 1]:
            raise LoadError(f"{', '.join(twice)} is in it more than once")
        if odd := [shown(name) for name in names if not name.endswith(".npy") or len(name) > _LONGEST_NAME]:
            raise LoadError(f"{odd[0]} is no array's name")
        yield Zipped(archive)


class Zipped:
    """The arrays of a zip file that is open, by name."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self.archive = archive
        self.names = tuple(name.removesuffix(".npy") for name in archive.namelist())

    def size(self, name: str) -> tuple[int, int]:
        """Return how many bytes an array has in the file, and how many unpacked."""
        found = self.archive.getinfo(f"{name}.npy")
        return found.compress_size, found.file_size

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape that an array claims to have, its numbers unread."""
        with self._open(name) as file:
            version = np.lib.format.read_magic(file)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            return tuple(read(file)[0])

    def array(self, name: str) -> npt.NDArray[Any]:
        """Return an array. Raises ValueError, naming it, where it cannot be read."""
        try:
            with self._open(name) as file:
                return np.asarray(np.lib.format.read_array(file, allow_pickle=False))
        except UNREADABLE as error:
            raise ValueError(f"array {shown(name)}: {error}") from error

    def _open(self, name: str) -> Any:
        return self.archive.open(f"{name}.npy")


def shown(name: str) -> str:
    """Return the name of an array as it can be printed: inert, and not too long."""
    return repr(inert(name[:60]))
