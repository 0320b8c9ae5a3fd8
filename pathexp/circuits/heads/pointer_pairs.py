"""Induction by Q-composition: an earlier head tells where the current token stood, and queries ask for the next place.

The earlier head attends from a token to its earlier copy and writes that copy's position; the later head's queries read it and
match the keys of the position after (pointer arithmetic); its OV copies the token there. It needs positions on the stream.
Elhage et al. 2021, "How Induction Heads Work", footnote on models with position embeddings on the residual stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from ...algebra import compose
from ...graph import Array
from ...graph.from_weights import embedding, positions
from ...model import Model
from .copying import ov_spectrum
from .head import Head, every_head

SHARE = 0.5
"""From which shares of tokens, of places and of the copying score the weights count as evidence."""


@dataclass(frozen=True)
class PointerPair:
    """Two heads as an induction circuit by Q-composition, from the weights alone.

    `matching` is the share of tokens whose queries, in the earlier head, meet their own key best; `pointing` the share of
    places p such that a query that reads "p" from it meets the key of place p + 1 best; `copying` the later head's score.
    """

    head: str
    query_head: str
    matching: float
    pointing: float
    copying: float

    @property
    def is_induction(self) -> bool:
        """Whether all three are at least `SHARE`."""
        return min(self.matching, self.pointing, self.copying) >= SHARE


def pointer_pairs(model: Model) -> tuple[PointerPair, ...]:
    """Return every head with every earlier one as an induction circuit by Q-composition; none without learned positions.

    O(d_vocab² d_head) an earlier head, O(n_ctx² d_head) a pair.

    >>> import pathexp as px
    >>> [pair.is_induction for pair in pointer_pairs(px.induction_model())]
    [False]
    """
    if model.config.positions not in ("learned", "sinusoidal"):
        return ()
    every = tuple(every_head(model))
    matched, copied = cache(_matching), cache(lambda head: ov_spectrum(head).score or 0.0)
    return tuple(
        PointerPair(late.label, early.label, matched(early), _pointing(late, early), copied(late))
        for late, early in _pairs(every)
    )


def _pairs(every: tuple[Head, ...]) -> Iterator[tuple[Head, Head]]:
    return ((late, early) for late in every for early in every if early.layer < late.layer)


def _matching(head: Head) -> float:
    """The share of tokens whose query meets their own key more than any other's."""
    tokens = embedding(head.model)
    table = (head.reads("Q") @ tokens).dense().T @ (head.reads("K") @ tokens).dense()
    return _above_all(table, 0)


def _pointing(late: Head, early: Head) -> float:
    """The share of places of which the next is asked for most by queries that read them from the earlier head."""
    places = positions(late.model)
    asked = compose(late.reads("Q"), early.writes, early.reads("V"), places).dense()[:, :-1]
    return _above_all(asked.T @ (late.reads("K") @ places).dense(), 1)


def _above_all(table: Array, ahead: int) -> float:
    """The share of rows whose entry so far right of the diagonal is above all others; a row of equals has none."""
    if not len(table):
        return 0.0
    rows, columns = np.arange(len(table)), np.arange(len(table)) + ahead
    own, others = table[rows, columns].copy(), table.copy()
    others[rows, columns] = -np.inf
    return float((own > others.max(axis=1)).mean())
