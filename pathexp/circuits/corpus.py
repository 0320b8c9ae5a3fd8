"""A corpus as a stream of token ids: from a file or from any iterable of texts, never held whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import LoadError, PathexpError, TokenError
from ..model import Model

Tokens = NDArray[np.int64]
Text = str | Sequence[int] | NDArray[np.integer[Any]]
Corpus = str | Path | Iterable[Text]
"""The path of a text file, or texts, or lists of token ids."""

CHUNK = 1 << 16
"""Characters read from a file at a time."""


def texts_of(corpus: Corpus) -> Iterator[Text]:
    """Iterate over the texts of a corpus; a file is read in pieces that end at the end of a line.

    Raises LoadError if there is no such file or it is not UTF-8 text, PathexpError for what holds no texts.

    >>> list(texts_of(["one", "two"]))
    ['one', 'two']
    """
    if not isinstance(corpus, str | Path | Iterable):
        raise PathexpError(
            f"a corpus is the path of a text file, or texts, or lists of token ids; found {corpus!r:.60}"
        )
    return _pieces(Path(corpus)) if isinstance(corpus, str | Path) else iter(corpus)


def _pieces(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8") as file:
            while piece := file.read(CHUNK):
                yield piece + file.readline()
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(
            f"cannot read {str(path)!r} as text: {error}. Give a UTF-8 text file, or texts."
        ) from None


def token_stream(model: Model, corpus: Corpus) -> Iterator[Tokens]:
    """Iterate over the token ids of each text of a corpus; texts without tokens are left out."""
    for text in texts_of(corpus):
        tokens = _ids(model.encode(text) if isinstance(text, str) else text)
        if len(tokens):
            yield tokens


def _ids(text: Sequence[int] | NDArray[np.integer[Any]]) -> Tokens:
    try:
        tokens = np.asarray(text)
    except ValueError:
        tokens = np.array(None)
    if tokens.ndim != 1 or (len(tokens) and tokens.dtype.kind not in "iu"):
        raise TokenError(f"a text of a corpus is a string or a list of token ids, not {text!r:.60}")
    return tokens.astype(np.int64)


def windows(
    model: Model, corpus: Corpus, length: int | None = None, limit: int | None = None
) -> Iterator[Tokens]:
    """Iterate over windows of `length` tokens (by default n_ctx) that follow one another in a corpus.

    At most `limit` of them. What is left of a text after its last whole window is left out.
    Raises PathexpError if the length is not from 2 to n_ctx.
    """
    length = model.config.n_ctx if length is None else length
    if isinstance(length, bool) or not isinstance(length, int | np.integer):
        raise PathexpError(f"length is a whole number of tokens a window, not {length!r}")
    if not 2 <= length <= model.config.n_ctx:
        raise PathexpError(f"windows have from 2 to {model.config.n_ctx} tokens (n_ctx), asked {length}")
    found = (
        tokens[at : at + length]
        for tokens in token_stream(model, corpus)
        for at in range(0, len(tokens) - length + 1, length)
    )
    return found if limit is None else (window for window, _ in zip(found, range(limit), strict=False))
