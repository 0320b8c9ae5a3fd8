"""For how many tokens attending to them raises their own logit most: the diagonal of a head's OV table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...answer import Note
from ...model import Model
from .head import Head, every_head

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
    count: a head that raises all alike copies nothing. O(tokens · d_vocab · d_head) a head.

    >>> import pathexp as px
    >>> diagonal_shares(px.induction_model()).shares
    {'L0H0': 0.0, 'L1H0': 1.0}
    """
    tokens = model.config.d_vocab
    sampled = tokens if tokens <= WHOLE else SAMPLED
    chosen = np.linspace(0, tokens - 1, sampled).astype(np.int64)
    found = {
        head.label: _share(head, chosen) if model.config.predicts_tokens else None
        for head in every_head(model)
    }
    return DiagonalShare(found, sampled, tokens)


def _share(head: Head, chosen: np.ndarray, block: int = 256) -> float:
    table, wins = head.ov_table, 0
    for at in range(0, len(chosen), block):
        tokens = chosen[at : at + block]
        one_hot = np.zeros((len(tokens), table.source.size))
        one_hot[np.arange(len(tokens)), tokens] = 1
        raised = table.apply(one_hot)
        own = raised[np.arange(len(tokens)), tokens].copy()
        raised[np.arange(len(tokens)), tokens] = -np.inf
        wins += int((own > raised.max(axis=1)).sum())
    return wins / len(chosen)
