"""The bigrams of a corpus as a running count: sparse, so that memory grows with different bigrams and not with text."""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from ..errors import PathexpError
from ..model import Model
from .corpus.accumulate import accumulate
from .corpus.corpus import Corpus, Source
from .corpus.limits import Limits
from .corpus.tally import Sums, Tally, Tokens

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
    model: Model,
    corpus: Source,
    *,
    start: Tally | None = None,
    limit: int | None = None,
    seconds: float | None = None,
    progress: bool = False,
) -> Tally:
    """Count the bigrams of each text of a corpus, as a model tokenizes it; limits as in `Limits`, by texts.

    A file is read in pieces of 65,536 characters, each a text.

    Raises PathexpError if the corpus has no two tokens in a row.

    >>> import pathexp as px
    >>> found = count_bigrams(px.random_model(d_vocab=10), [[1, 2, 1, 2], [2, 1]])
    >>> found.sums["codes"].tolist(), found.sums["amounts"].tolist()
    ([12, 21], [2, 2])
    """
    question = f"bigrams of {model.config.d_vocab} tokens, vocabulary {_mark(model):08x}"

    def measured(tokens: Tokens) -> Sums:
        coded = tokens[:-1] * model.config.d_vocab + tokens[1:]
        codes, amounts = np.unique(coded, return_counts=True)
        return {"codes": codes, "amounts": amounts}

    found = accumulate(
        Corpus(corpus).tokens(model), measured, question, most=limit, limits=Limits(seconds, progress, start), merge=merged
    )  # fmt: skip
    if not len(found.sums.get("codes", ())):
        raise PathexpError("the corpus has no two tokens in a row: there are no bigrams to compare with")
    return found


def _mark(model: Model) -> int:
    """A number that tells vocabularies apart."""
    if model.tokenizer is None:
        return 0
    return zlib.crc32("\0".join(map(model.token_string, range(model.config.d_vocab))).encode())
