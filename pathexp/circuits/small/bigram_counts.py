"""The bigrams of a corpus as a running count: sparse, so that memory grows with different bigrams and not with text."""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from ...errors import PathexpError
from ...model import Model
from ..corpus.accumulate import accumulate
from ..corpus.corpus import Corpus, Source
from ..corpus.limits import NO_LIMITS, Limits
from ..corpus.tally import Sums, Tally, Tokens

Ids = NDArray[np.int64]


def merged(counts: Sums, more: Sums) -> Sums:
    """Add sparse counts: "codes" (k), first · d_vocab + second in ascending order, and "amounts" (k)."""
    codes, amounts = (
        np.concatenate([np.asarray(each.get(name, ()), np.int64) for each in (counts, more)])
        for name in ("codes", "amounts")
    )
    every, places = np.unique(codes, return_inverse=True)
    totals = np.zeros(len(every), dtype=np.int64)
    np.add.at(totals, places, amounts)
    return {"codes": every, "amounts": totals}


def count_bigrams(
    model: Model, corpus: Corpus | Source, *, chunks: int | None = None, limits: Limits = NO_LIMITS
) -> Tally:
    """Count the bigrams of each text of a corpus, as a model tokenizes it; at most so many `chunks` (texts).

    Raises PathexpError if the corpus has no two tokens in a row, or is cut into windows.

    >>> import pathexp as px
    >>> found = count_bigrams(px.random_model(d_vocab=10), [[1, 2, 1, 2], [2, 1]])
    >>> found.sums["codes"].tolist(), found.sums["amounts"].tolist()
    ([12, 21], [2, 2])
    """
    texts = Corpus.of(corpus, model)
    if texts.length is not None or texts.windows is not None:
        raise PathexpError(
            "bigrams are counted over whole texts: give chunks=, not the length or number of windows"
        )
    question = f"bigrams of {model.config.d_vocab} tokens, vocabulary {_mark(model):08x}"

    def measured(tokens: Tokens) -> Sums:
        coded = tokens[:-1] * model.config.d_vocab + tokens[1:]
        codes, amounts = np.unique(coded, return_counts=True)
        return {"codes": codes, "amounts": amounts}

    found = accumulate(texts.tokens(model), measured, question, most=chunks, limits=limits, merge=merged)
    _check(found, model.config.d_vocab)
    if not len(found.sums.get("codes", ())):
        raise PathexpError("the corpus has no two tokens in a row: there are no bigrams to compare with")
    return found


def _check(found: Tally, d_vocab: int) -> None:
    """Refuse sums, taken up from elsewhere, that are no counts of bigrams."""
    if not found.windows:
        return
    codes, amounts = (np.asarray(found.sums.get(name, np.array(None))) for name in ("codes", "amounts"))
    counts = (
        codes.ndim == 1
        and codes.shape == amounts.shape
        and {codes.dtype.kind, amounts.dtype.kind} <= {"i", "u"}
    )
    inside = counts and codes.min(initial=0) >= 0 and codes.max(initial=0) < d_vocab**2
    if not (inside and (np.diff(codes) > 0).all() and (amounts > 0).all()):
        raise PathexpError(f"these sums are no counts of bigrams ({found.question}): begin anew")


def _mark(model: Model) -> int:
    """A number that tells vocabularies apart."""
    if model.tokenizer is None:
        return 0
    return zlib.crc32("\0".join(model.tokenizer.strings(range(model.config.d_vocab))).encode())
