"""Rows of token ids that were padded to one length: what pads is left out, so that no run ever sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arguments import refuse_masked, shown
from ..errors import TokenError

Ids = npt.NDArray[np.int64]
_ADVICE = "model.run takes one"


def each_text(texts: Any, mask: Any, ids: Callable[[Any], Ids]) -> list[Ids]:
    """Return the token ids of each text, without what pads; ``ids`` makes checked ids of a text or of ids.

    Raises TokenError, naming the text by its number, for what is no list of texts or rows, for texts that ``ids``
    refuses, and for a mask that does not fit.

    >>> each_text([[5, 6, 0], [7, 8, 9]], [[1, 1, 0], [1, 1, 1]], np.array)
    [array([5, 6]), array([7, 8, 9])]
    """
    rows = _rows(texts)
    if mask is not None:
        rows = _unpadded(rows, mask)
    return [_named(number, row, ids) for number, row in enumerate(rows)]


def _rows(texts: Any) -> list[Any]:
    """The texts one by one; a single text or row is none."""
    refuse_masked("token ids", texts, TokenError)
    listed = not isinstance(texts, str | bytes) and (
        isinstance(texts, Sequence) or getattr(texts, "ndim", 0) == 2
    )
    if not listed:
        raise TokenError(
            f"run_many takes a list of texts or of rows of token ids, found {shown(texts)}; {_ADVICE}."
        )
    rows = list(texts)
    if odd := [row for row in rows if not isinstance(row, str | Sequence) and np.ndim(row) != 1]:
        raise TokenError(
            f"run_many takes a list of texts or of rows of token ids, found one of {shown(odd[0])}; {_ADVICE}."
        )
    return rows


def _named(number: int, row: Any, ids: Callable[[Any], Ids]) -> Ids:
    try:
        return ids(row)
    except TokenError as error:
        raise TokenError(f"Text {number}: {error}") from error


def _unpadded(rows: list[Any], mask: Any) -> list[Any]:
    """The rows without what a mask hides."""
    refuse_masked("mask", mask, TokenError)
    masks = list(mask) if isinstance(mask, Sequence) or getattr(mask, "ndim", 0) == 2 else None
    if masks is None or isinstance(mask, str) or len(masks) != len(rows):
        found = "no rows" if masks is None or isinstance(mask, str) else f"{len(masks)}"
        raise TokenError(f"mask needs one row of 0 and 1 a text: found {found} for {len(rows)} texts.")
    return [_kept(number, row, one) for number, (row, one) in enumerate(zip(rows, masks, strict=True))]


def _kept(number: int, row: Any, mask: Any) -> Any:
    """The tokens of one row that its mask does not hide: they stand together, with padding before or behind."""
    if isinstance(row, str):
        raise TokenError(f"Text {number}: a mask goes with rows of token ids, found the text {row!r:.40}.")
    tokens, keep = _array(number, "token ids", row), _array(number, "mask", mask)
    if tokens.ndim != 1 or keep.shape != tokens.shape:
        raise TokenError(
            f"Text {number}: mask has shape {keep.shape}, token ids {tokens.shape}: give the same."
        )
    if keep.dtype.kind not in "biuf" or not np.isin(keep, (0, 1)).all():
        raise TokenError(
            f"Text {number}: a mask is 1 for tokens and 0 for padding, found {shown(keep.tolist())}."
        )
    places = np.flatnonzero(keep)
    if not len(places):
        raise TokenError(f"Text {number}: its mask hides all {len(tokens)} tokens; leave the row out.")
    begin, end = int(places[0]), int(places[-1]) + 1
    if len(places) != end - begin:
        hole = begin + int(np.argmin(keep[begin:end]))
        raise TokenError(
            f"Text {number}: its mask hides position {hole}, between tokens that count ({begin} and {end - 1}); padding "
            "stands before or behind a text."
        )
    return tokens[begin:end]


def _array(number: int, what: str, row: Any) -> npt.NDArray[Any]:
    try:
        return np.asarray(row)
    except ValueError as error:
        raise TokenError(f"Text {number}: {what} must be a list of numbers, found {shown(row)}.") from error
