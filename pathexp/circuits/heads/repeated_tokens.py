"""Repeated random tokens: the token before, the earlier copy, and the token after that copy are at known places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from ...arguments import SEED, expect, sequence_of, whole
from ...errors import PathexpError
from ...model import Model, Trace
from ...model.model import check_model, check_predicts_tokens
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
        """The mean loss within the first copy and within the second, each from its second token on."""
        n = len(self.trace)
        each = -self.trace.log_probs[np.arange(n - 1), self.trace.tokens[1:]]
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


def repeated_runs(
    model: Model, *, length: int | None = None, runs: int = 8, prefix: Sequence[int] = (), seed: int = 0
) -> Iterator[RepeatedRun]:
    """Run a model on repeated random tokens, all different within a copy.

    Olsson et al. 2022, "In-context Learning and Induction Heads" (repeated random sequences).

    `length` tokens per copy, by default 50 or as many as fit; `prefix` goes before, such as a begin token.
    Raises PathexpError if fewer than 3 tokens per copy fit into the context or the vocabulary.
    """
    check_model(model, "repeated_runs")
    texts = RepeatedTokens(model, length, prefix, seed)
    return (texts.run(tokens) for tokens in islice(texts.random(), checked_runs(runs)))


@dataclass(frozen=True)
class RepeatedTokens:
    """Texts of `copy` tokens that are repeated once after a prefix, from random tokens or from a corpus.

    Raises PathexpError if fewer than 3 tokens per copy fit into the context or the vocabulary.
    """

    model: Model
    length: int | None = None
    prefix: Sequence[int] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        ids = sequence_of(whole(0), "a list of token ids")
        length = (self.length, whole().or_none)
        expect("repeated tokens", length=length, seed=(self.seed, SEED), prefix=(self.prefix, ids))
        check_predicts_tokens(self.model, "repeated tokens")
        c = self.model.config
        if not 3 <= self.copy <= self.room:
            raise PathexpError(
                f"repeated random tokens: expected from 3 to {self.room} tokens per copy in this model (n_ctx "
                f"{c.n_ctx}, vocabulary {c.d_vocab}), got {self.copy}"
            )

    @property
    def room(self) -> int:
        """How many tokens a copy may have."""
        c = self.model.config
        return min((c.n_ctx - len(self.prefix)) // 2, c.d_vocab)

    @property
    def copy(self) -> int:
        """How many tokens a copy has."""
        return min(50, self.room) if self.length is None else self.length

    def random(self) -> Iterator[Tokens]:
        """Yield repeated random tokens, all different within a copy, without end."""
        rng = np.random.default_rng(self.seed)
        while True:
            yield self.twice(rng.permutation(self.model.config.d_vocab)[: self.copy])

    def of(self, corpus: Source) -> Iterator[Tokens]:
        """Yield the windows of a corpus, each repeated once."""
        return (self.twice(window) for window in Corpus(corpus, self.copy).cut(self.model))

    def twice(self, copy: Tokens) -> Tokens:
        """Return the prefix, and a copy twice."""
        return np.concatenate([np.array(self.prefix, dtype=np.int64), copy, copy])

    def run(self, tokens: Tokens) -> RepeatedRun:
        """Run the model."""
        return self.of_run(self.model.run(tokens))

    def of_run(self, trace: Trace) -> RepeatedRun:
        """Return a run of such tokens."""
        return RepeatedRun(trace, len(self.prefix), self.copy)

    def question(self, what: str) -> str:
        """Return what is measured, for sums to be taken up."""
        begun = f" after {list(self.prefix)}" if self.prefix else ""
        return question_of(f"{what} on repeated tokens{begun}", self.model, 2 * self.copy)


def checked_runs(runs: int) -> int:
    """Return how many texts there are to be. Raises PathexpError if that is not an integer ≥ 1."""
    if isinstance(runs, bool) or not isinstance(runs, int | np.integer) or runs < 1:
        raise PathexpError(f"runs: expected an integer ≥ 1, got {runs!r}")
    return int(runs)
