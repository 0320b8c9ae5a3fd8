"""Repeated random tokens: the token before, the earlier copy, and the token after that copy are at known places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import gcd
from typing import TypeAlias

import numpy as np

from ...arguments import SEED, expect, sequence_of, whole
from ...errors import PathexpError
from ...model import Model, Trace
from ...model.model import check_model
from ...model.softmax import log_probs_of
from ..corpus.corpus import Corpus, Source
from ..corpus.tally import Tokens, question_of

PREVIOUS, INDUCTION, DUPLICATE, CURRENT, FIRST = (
    "previous token",
    "induction",
    "duplicate token",
    "current token",
    "first token",
)
TYPES = (PREVIOUS, INDUCTION, DUPLICATE, CURRENT, FIRST)

LENGTH = 50
"""Tokens per copy, where as many fit."""
Length: TypeAlias = int | Sequence[int] | None
"""Tokens per copy: one length, several, or those of the house."""


@dataclass(frozen=True)
class RepeatedRun:
    """A run of repeated tokens after a prefix: copies begin at `start` and `start + length`."""

    trace: Trace
    start: int
    length: int

    @property
    def second(self) -> range:
        """The positions of the second copy."""
        return range(self.start + self.length, self.start + 2 * self.length)

    def key(self, query: int) -> int:
        """The induction position of a query in the second copy: after its token's earlier copy."""
        return query - self.length + 1

    def losses(self) -> tuple[float, float]:
        """The mean loss within the first copy and within the second, each from its second token on.

        Raises PathexpError for a model to which a next-token loss does not apply: see `predicts_next`.
        """
        if not predicts_next(self.trace.model):
            raise PathexpError(f"{self.trace.model!r} predicts no next token, so it has no next-token loss")
        n = len(self.trace)
        each = -log_probs_of(self.trace.logits, np.arange(n - 1), self.trace.tokens[1:])
        middle = self.start + self.length
        return float(each[self.start : middle - 1].mean()), float(each[middle : n - 1].mean())

    def attended(self) -> dict[str, tuple[int, int]]:
        """Return to which position each attention type attends, as (multiple of the query, offset)."""
        return {
            PREVIOUS: (1, -1),
            INDUCTION: (1, 1 - self.length),
            DUPLICATE: (1, -self.length),
            CURRENT: (1, 0),
            FIRST: (0, 0),
        }


def predicts_next(model: Model) -> bool:
    """Whether a next-token loss means something: outputs are tokens, and no position sees what comes after it."""
    return model.config.predicts_tokens and model.config.causal


def repeated_runs(
    model: Model, *, length: int | None = None, runs: int = 8, prefix: Sequence[int] = (), seed: int = 0
) -> Iterator[RepeatedRun]:
    """Run a model on repeated random tokens, all different within a copy.

    Olsson et al. 2022, "In-context Learning and Induction Heads", "Key Concepts" (repeated random sequences).

    `length` tokens per copy, by default 50 or as many as fit; `prefix` goes before, such as a begin token.
    Raises PathexpError if fewer than 3 tokens per copy fit into the context or the vocabulary.
    """
    check_model(model, "repeated_runs")
    expect("repeated tokens", length=(length, whole().or_none))
    texts = RepeatedTokens(model, length, prefix, seed)
    return (texts.run(copy) for copy in islice(texts.random(), checked_runs(runs)))


@dataclass(frozen=True)
class RepeatedTokens:
    """Copies of tokens that are repeated once after a prefix, at one length or several: random, or from a corpus.

    With several lengths a copy is as long as the longest, and texts of a shorter one repeat its end. `lengths` are by
    default two without a common divisor, 50 and 33 where they fit: what attends by a fixed offset, or to a multiple of a
    period, is then not taken for what attends by content. Raises PathexpError if fewer than 3 tokens per copy fit into
    the context or the vocabulary, and for lengths that repeat.

    >>> import pathexp as px
    >>> RepeatedTokens(px.load("attn-2l")).lengths, RepeatedTokens(px.induction_model(), 5).lengths
    ((50, 33), (5,))
    """

    model: Model
    length: Length = None
    prefix: Sequence[int] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        ids = sequence_of(whole(0), "a list of token ids")
        several = sequence_of(whole(), "integers, the lengths of copies")
        kind = several if isinstance(self.length, Sequence | np.ndarray) else whole().or_none
        expect("repeated tokens", length=(self.length, kind))
        expect("repeated tokens", seed=(self.seed, SEED), prefix=(self.prefix, ids))
        c, bad = self.model.config, [n for n in self.lengths if not 3 <= n <= self.room]
        if bad or not self.lengths:
            raise PathexpError(
                f"repeated random tokens: expected from 3 to {self.room} tokens per copy in this model (n_ctx "
                f"{c.n_ctx}, vocabulary {c.d_vocab}), got {bad[0] if bad else 'no length'}"
            )
        if len(set(self.lengths)) < len(self.lengths):
            raise PathexpError(f"repeated random tokens: lengths differ, got {list(self.lengths)}")

    @property
    def room(self) -> int:
        """How many tokens a copy may have."""
        c = self.model.config
        return min((c.n_ctx - len(self.prefix)) // 2, c.d_vocab)

    @property
    def lengths(self) -> tuple[int, ...]:
        """How many tokens copies have, the longest first."""
        if isinstance(self.length, Sequence | np.ndarray):
            return tuple(sorted(map(int, self.length), reverse=True))
        return coprime_lengths(min(LENGTH, self.room)) if self.length is None else (self.length,)

    @property
    def copy(self) -> int:
        """How many tokens the longest copy has."""
        return self.lengths[0]

    def random(self) -> Iterator[Tokens]:
        """Yield copies of random tokens, all different within a copy, without end."""
        rng = np.random.default_rng(self.seed)
        while True:
            yield rng.permutation(self.model.config.d_vocab)[: self.copy].astype(np.int64)

    def of(self, corpus: Source, runs: int) -> Iterator[Tokens]:
        """Yield so many windows of a corpus as copies, at random lines of a large file."""
        return Corpus(corpus, self.copy, runs).spread(self.model).cut(self.model)

    def run(self, copy: Tokens, length: int | None = None) -> RepeatedRun:
        """Run the model on the prefix and the last `length` tokens of a copy twice; all of them by default."""
        once = copy if length is None else copy[len(copy) - length :]
        tokens = np.concatenate([np.array(self.prefix, dtype=np.int64), once, once])
        return RepeatedRun(self.model.run(tokens), len(self.prefix), len(once))

    def question(self, what: str) -> str:
        """Return what is measured, for sums to be taken up."""
        begun = f" after {list(self.prefix)}" if self.prefix else ""
        lengths = ", ".join(map(str, self.lengths))
        return question_of(f"{what} on tokens repeated at length {lengths}{begun}", self.model, self.copy)


def coprime_lengths(longest: int) -> tuple[int, ...]:
    """Return a length and the one nearest to two thirds of it, from 3 up, that shares no divisor with it, if any.

    >>> coprime_lengths(50), coprime_lengths(6), coprime_lengths(3)
    ((50, 33), (6, 5), (3,))
    """
    others = [n for n in range(3, longest) if gcd(n, longest) == 1]
    return (longest, *sorted(others, key=lambda n: abs(3 * n - 2 * longest))[:1])


def checked_runs(runs: int) -> int:
    """Return how many texts there are to be. Raises PathexpError if that is not an integer ≥ 1."""
    if isinstance(runs, bool) or not isinstance(runs, int | np.integer) or runs < 1:
        raise PathexpError(f"runs: expected an integer ≥ 1, got {runs!r}")
    return int(runs)
