"""Tokens said twice: the token before, the earlier copy, and the token after that copy stand at known places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from ...arguments import SEED, expect, sequence_of, whole
from ...errors import PathexpError
from ...model import Model, Trace
from ...model.model import check_model, check_predicts_tokens
from ..corpus import Corpus, Tokens, windows
from ..running import asked

PREVIOUS, INDUCTION, DUPLICATE, CURRENT, FIRST = (
    "previous token",
    "induction",
    "duplicate token",
    "current token",
    "first token",
)
KINDS = (PREVIOUS, INDUCTION, DUPLICATE, CURRENT, FIRST)


@dataclass(frozen=True)
class Repeated:
    """A run of random tokens said twice, after a prefix: copies begin at `start` and `start + length`."""

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

    def looks(self) -> dict[str, tuple[int, int]]:
        """Where the kinds look from a query, as (multiple of the query, offset)."""
        return {
            PREVIOUS: (1, -1),
            INDUCTION: (1, 1 - self.length),
            DUPLICATE: (1, -self.length),
            CURRENT: (1, 0),
            FIRST: (0, 0),
        }


def repeated_runs(
    model: Model, *, length: int | None = None, runs: int = 8, prefix: Sequence[int] = (), seed: int = 0
) -> Iterator[Repeated]:
    """Run a model on random tokens said twice, all different within a copy.

    Olsson et al. 2022, "In-context Learning and Induction Heads" (repeated random sequences).

    `length` tokens a copy, by default 50 or as many as fit; `prefix` goes before, such as a begin token.
    Raises PathexpError if fewer than 3 tokens a copy fit into the context or the vocabulary.
    """
    check_model(model, "repeated_runs")
    said = Said(model, length, prefix, seed)
    return (said.run(tokens) for tokens in islice(said.random(), checked_runs(runs)))


@dataclass(frozen=True)
class Said:
    """Texts of `copy` tokens said twice after a prefix, from random tokens or from a corpus.

    Raises PathexpError if fewer than 3 tokens a copy fit into the context or the vocabulary.
    """

    model: Model
    length: int | None = None
    prefix: Sequence[int] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        ids = sequence_of(whole(0), "a list of token ids")
        length = (self.length, whole().or_none)
        expect("tokens said twice", length=length, seed=(self.seed, SEED), prefix=(self.prefix, ids))
        check_predicts_tokens(self.model, "repeated tokens")
        c = self.model.config
        if not 3 <= self.copy <= self.room:
            raise PathexpError(
                f"random tokens said twice need from 3 to {self.room} tokens a copy in this model (n_ctx "
                f"{c.n_ctx}, {c.d_vocab} tokens); asked {self.copy}"
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
        """Random tokens said twice, all different within a copy, without end."""
        rng = np.random.default_rng(self.seed)
        while True:
            yield self.twice(rng.permutation(self.model.config.d_vocab)[: self.copy])

    def of(self, corpus: Corpus) -> Iterator[Tokens]:
        """The windows of a corpus, each said twice."""
        return (self.twice(window) for window in windows(self.model, corpus, self.copy))

    def twice(self, copy: Tokens) -> Tokens:
        """The prefix, and a copy twice."""
        return np.concatenate([np.array(self.prefix, dtype=np.int64), copy, copy])

    def run(self, tokens: Tokens) -> Repeated:
        """Run the model."""
        return self.of_run(self.model.run(tokens))

    def of_run(self, trace: Trace) -> Repeated:
        """A run of such tokens."""
        return Repeated(trace, len(self.prefix), self.copy)

    def question(self, what: str) -> str:
        """What is measured, for sums to be taken up."""
        begun = f" after {list(self.prefix)}" if self.prefix else ""
        return asked(f"{what} on tokens said twice{begun}", self.model, 2 * self.copy)


def checked_runs(runs: int) -> int:
    """Return how many texts there are to be. Raises PathexpError if that is no whole number from 1 up."""
    if isinstance(runs, bool) or not isinstance(runs, int | np.integer) or runs < 1:
        raise PathexpError(f"an average needs at least 1 run, a whole number; asked {runs!r}")
    return int(runs)
