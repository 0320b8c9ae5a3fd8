"""For how many tokens attending to them raises their own logit most: the diagonal of a head's OV table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from ...algebra.operations import wide
from ...answer import Note
from ...errors import PathexpError
from ...graph import Array
from ...graph.from_weights import embedding, require_token_space, unembedding
from ...model import Model
from .head import Head, every_head
from .row_maxima import largest_entry, maximum_at

WHOLE = 4096
"""The largest vocabulary of which all tokens are looked at."""
SAMPLED = 64
"""How many tokens of a larger vocabulary are, evenly spread over it."""


@dataclass(frozen=True)
class DiagonalShare:
    """By head, the share of `sampled` tokens of `tokens`; None for a model whose outputs are no tokens."""

    shares: Mapping[str, float | None]
    sampled: int
    tokens: int

    def note(self) -> Note:
        """Return what the column says."""
        some = f" ({self.sampled} of {self.tokens:,} tokens)" if self.sampled < self.tokens else ""
        return Note(
            f"diagonal: the share of tokens{some} whose own logit rises most if they are attended to; a copying score "
            "of +1\ncan go with few of them, since it is an average over directions"
        )


def diagonal_shares(model: Model) -> DiagonalShare:
    """Return for every head at which share of tokens attending to the token raises that token's own logit most.

    Elhage et al. 2021, "Detecting Copying Behavior". Up to 4,096 tokens all are looked at, of more 64. A tie does not
    count: a head that raises all alike copies nothing. O(tokens · d_model · d_vocab) for heads that
    copy all of them, less for others: a token has lost as soon as another logit is above its own.

    >>> import pathexp as px
    >>> diagonal_shares(px.induction_model()).shares
    {'L0H0': 0.0, 'L1H0': 1.0}
    """
    tokens = model.config.d_vocab
    sampled = tokens if tokens <= WHOLE else SAMPLED
    chosen = np.linspace(0, tokens - 1, sampled).astype(np.int64)
    if not model.config.predicts_tokens:
        return DiagonalShare({head.label: None for head in every_head(model)}, sampled, tokens)
    require_token_space(model.config)
    embedded, logits = wide(embedding(model))[:, chosen].T, wide(unembedding(model)).T
    found: dict[str, float | None] = {}
    most = largest_entry(logits)
    for _, heads in groupby(every_head(model), lambda head: head.layer):
        found |= _shares(tuple(heads), embedded, logits, chosen, most)
    return DiagonalShare(found, sampled, tokens)


def share_on_diagonal(head: Head) -> float:
    """Return for which share of all tokens attending to one raises its own logit more than any other.

    Raises PathexpError for a model whose outputs are no tokens. O(d_vocab² d_model) at most.
    """
    require_token_space(head.model.config)
    if not head.model.config.predicts_tokens:
        raise PathexpError(
            f"the outputs of {head.model!r} are no tokens, so that no token has a logit of its own"
        )
    embedded, logits = wide(embedding(head.model)).T, wide(unembedding(head.model)).T
    return _shares((head,), embedded, logits, np.arange(head.model.config.d_vocab))[head.label]


def _shares(
    heads: Sequence[Head],
    embedded: Array,
    logits: Array,
    chosen: NDArray[np.int64],
    most: float | None = None,
) -> Mapping[str, float]:
    """The share of tokens, (tokens, d_model), that each of some heads raises most: logits (d_model, d_vocab)."""
    written = np.concatenate([head.writes.apply(head.reads("V").apply(embedded)) for head in heads])
    wins = maximum_at(written, logits, np.tile(chosen, len(heads)), ties=False, most=most)
    shares = wins.reshape(len(heads), -1).mean(axis=1).tolist()
    return dict(zip((head.label for head in heads), shares, strict=True))
