"""The bigrams of a corpus as a running count: sparse, so that memory grows with different bigrams and not with text."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..errors import PathexpError
from ..graph import Array
from ..model import Model
from .corpus import Corpus, Tokens, token_stream
from .running import Tally, tally

Ids = NDArray[np.int64]


class BigramTally(Tally):
    """Running counts: `sums` holds "codes" (k), first · d_vocab + second in ascending order, and "amounts" (k)."""

    def plus(self, window: Tokens, measured: Mapping[str, Array]) -> Tally:
        """Return the counts with those of one more text."""
        codes = np.concatenate(
            [np.asarray(each.get("codes", ()), np.int64) for each in (self.sums, measured)]
        )
        amounts = np.concatenate(
            [np.asarray(each.get("amounts", ()), np.int64) for each in (self.sums, measured)]
        )
        every, places = np.unique(codes, return_inverse=True)
        totals = np.zeros(len(every), dtype=np.int64)
        np.add.at(totals, places, amounts)
        sums = {"codes": every, "amounts": totals}
        return BigramTally(self.question, self.windows + 1, self.tokens + len(window), sums)


def count_bigrams(
    model: Model,
    corpus: Corpus,
    *,
    start: Tally | None = None,
    limit: int | None = None,
    seconds: float | None = None,
    progress: bool = False,
) -> Tally:
    """Count the bigrams of each text of a corpus, as a model tokenizes it; arguments as for `tally`, by texts.

    A file is read in pieces of 65,536 characters, each a text.

    Raises PathexpError if the corpus has no two tokens in a row.

    >>> import pathexp as px
    >>> found = count_bigrams(px.random_model(d_vocab=10), [[1, 2, 1, 2], [2, 1]])
    >>> found.sums["codes"].tolist(), found.sums["amounts"].tolist()
    ([12, 21], [2, 2])
    """
    question = f"bigrams of {model.config.d_vocab} tokens, vocabulary {_mark(model):08x}"
    begun = BigramTally(question) if start is None else BigramTally(**vars(start))

    def measured(tokens: Tokens) -> Mapping[str, Array]:
        coded = tokens[:-1] * model.config.d_vocab + tokens[1:]
        codes, amounts = np.unique(coded, return_counts=True)
        return {"codes": codes, "amounts": amounts}

    found = tally(
        token_stream(model, corpus),
        measured,
        question,
        start=begun,
        limit=limit,
        seconds=seconds,
        progress=progress,
    )
    if not len(found.sums.get("codes", ())):
        raise PathexpError("the corpus has no two tokens in a row: there are no bigrams to compare with")
    return found


def _mark(model: Model) -> int:
    """A number that tells vocabularies apart."""
    if model.tokenizer is None:
        return 0
    return zlib.crc32("\0".join(map(model.token_string, range(model.config.d_vocab))).encode())
