"""Texts of a file at random places: each from the start of a line that follows a random byte."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ...errors import LoadError

BYTES = 1 << 14
"""How many bytes a text has, or `PER_TOKEN` for each token that is wanted if that is more."""
PER_TOKEN = 16
LINE = 1 << 10
"""Within how many bytes a line must end; else a text begins within the line."""
NEAR = 64
"""How many bytes a text that begins within a line may lose so as to begin at a space."""
CONTINUED = bytes(range(0x80, 0xC0))
"""The bytes of UTF-8 that continue a character."""
TRIES = 1000
"""How many places without a line are passed over before a file is refused."""


def random_texts(path: Path, seed: int, least: int = 1) -> Iterator[str]:
    """Yield texts at random places of a UTF-8 file, without end, the same for the same seed.

    A text begins at the start of the line that follows a random byte, and is cut at a character, far enough for `least`
    tokens. Lines after long lines are likelier to be drawn; of a line that goes on for 1,024 bytes more, a text begins
    after these, at a space if there is one near. Raises LoadError for a file that is not there, not UTF-8, or empty.

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
                passed = file.readline(min(LINE, size // 2))
                text = _decoded(file.read(max(BYTES, PER_TOKEN * least)), within=not passed.endswith(b"\n"))
                missed = 0 if text else missed + 1
                if text:
                    yield text
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(
            f"cannot read {str(path)!r} as text: {error}. Give a UTF-8 text file, or texts."
        ) from None
    raise LoadError(
        f"{str(path)!r} has no text to draw from: windows of a sample begin at the start of a line"
    )


def _decoded(data: bytes, within: bool) -> str:
    """The text without the characters that were cut at its ends; `within` a line, from a space on if one is near."""
    if within:
        data = data.lstrip(CONTINUED)
        data = data[max(data.find(b" ", 0, NEAR), 0) :]
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        if len(data) - error.start > 3:
            raise
        return data[: error.start].decode("utf-8")
