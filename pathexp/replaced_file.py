"""Files that are written whole or not at all: beside the old one, flushed, then renamed over it."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replaced_file(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file for writing that takes the place of `path` at the end of the block.

    If the block raises, or the process is killed, what stood at `path` stays as it was. Raises OSError where the
    folder does not exist or cannot be written to.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with replaced_file(f"{folder}/note") as file:
    ...         _ = file.write(b"whole")
    ...     Path(f"{folder}/note").read_bytes()
    b'whole'
    """
    place = Path(path).resolve()
    beside = place.with_name(f".{place.name[:80]}.{secrets.token_hex(6)}.part")
    try:
        with beside.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if place.exists():
            shutil.copymode(place, beside)
        os.replace(beside, place)
    finally:
        beside.unlink(missing_ok=True)
