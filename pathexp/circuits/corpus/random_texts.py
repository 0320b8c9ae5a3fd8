"""Texts of a file at random places: each from the start of a line that follows a random byte."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ...errors import LoadError

BYTES = 1 << 14
"""How many bytes a text has at most."""
TRIES = 1000
"""How many places without a line are passed over before a file is refused."""


def random_texts(path: Path, seed: int) -> Iterator[str]:
    """Yield texts at random places of a UTF-8 file, without end, the same for the same seed.

    A text begins at the start of a line and is cut after `BYTES`, at a character. Lines after long lines are likelier
    to be drawn. Raises LoadError for a file that is not there, not UTF-8, or without lines.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "three.txt"
    >>> _ = file.write_text("one\\ntwo\\nthree\\n")
    >>> [next(random_texts(file, seed)) for seed in (0, 2)]
    ['three\\n', 'two\\nthree\\n']
    """
    rng, missed = np.random.default_rng(seed), 0
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            while size and missed < TRIES:
                file.seek(int(rng.integers(size)))
                file.readline()
                text = _decoded(file.read(BYTES))
                missed = 0 if text else missed + 1
                if text:
                    yield text
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(
            f"cannot read {str(path)!r} as text: {error}. Give a UTF-8 text file, or texts."
        ) from None
    raise LoadError(
        f"{str(path)!r} has no lines to draw from: windows of a sample begin at the start of a line"
    )


def _decoded(data: bytes) -> str:
    """The text, without the bytes of a character that was cut at its end."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        if len(data) - error.start > 3:
            raise
        return data[: error.start].decode("utf-8")
