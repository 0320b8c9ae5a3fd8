"""Why an induction head attends where it does: its score, expanded, by which head made its keys, and which its queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ...answer import Answer, Facts, Part, Table, columns
from ...arguments import TEXT, expect, whole
from ...expansion.scores.score import scores
from ...graph import Array
from ...model import Model
from ...model.model import check_model
from ..corpus.accumulate import accumulate
from ..corpus.limits import NO_LIMITS, Limits
from ..corpus.tally import Tally, Tokens
from .repeated_tokens import Length, RepeatedRun, RepeatedTokens, checked_runs


class Makers(NamedTuple):
    """A head, and the earlier heads that make what its keys and its queries read."""

    head: str
    previous_head: str
    query_head: str

    def question(self, queries: int, seed: int) -> str:
        """Return what is measured of it, for sums to be taken up."""
        return (
            f"induction score of {self.head} through keys of {self.previous_head} and queries of {self.query_head}, "
            f"{queries} queries, random seed {seed},"
        )


@dataclass(frozen=True, eq=False, repr=False)
class InductionScore(Answer):
    """Which part of a head's score of the induction position comes through keys that one head made, and through queries.

    Means over queries of the advantage: the score of the induction position minus the mean of the other keys' (the
    softmax sees nothing else). `advantage` is that of all terms, `through` that of pairs of paths whose key path
    passes `previous_head`, `through_queries` of those whose query path passes `query_head`, `through_both` of those that
    do both (and are counted in either), `by_kind` that of each kind of term. `tally` holds the sums over texts, to save
    and to resume from.
    """

    head: str
    previous_head: str
    query_head: str
    advantage: float
    through: float
    through_queries: float
    through_both: float
    by_kind: dict[str, float]
    queries: int
    tally: Tally

    @property
    def share(self) -> float | None:
        """The share of the advantage that keys through the earlier head hold; None where there is no advantage."""
        return self.through / self.advantage if self.advantage > 0 else None

    @property
    def query_share(self) -> float | None:
        """The share of the advantage that queries through `query_head` hold; None where there is no advantage."""
        return self.through_queries / self.advantage if self.advantage > 0 else None

    def headline(self) -> str:
        """Return the shares, or that there is nothing to share."""
        if self.advantage <= 0:
            return (
                f"{self.head} scores the induction position {self.advantage:+.2f} against the other keys: no advantage, "
                "so nothing is a share of it"
            )
        return (
            f"{self.head} scores the induction position {self.advantage:+.2f} above the other keys; {self.through:+.2f} "
            f"({self.share:.1%}) through keys made by {self.previous_head}, {self.through_queries:+.2f} "
            f"({self.query_share:.1%}) through queries made by {self.query_head}, {self.through_both:+.2f} through both"
        )

    def parts(self) -> Iterator[Part]:
        """Yield the advantage by kind of term."""
        names = (
            "head", "previous_head", "query_head", "advantage", "through", "share", "through_queries", "query_share",
            "through_both", "queries",
        )  # fmt: skip
        yield Facts({name: getattr(self, name) for name in names})
        yield Table(
            (columns.text("kind"), columns.number("advantage")), self.by_kind.items(), "kinds", key=("kind",),
            value="advantage", rest=[("all", self.advantage)], absent="zero",
        )  # fmt: skip


def induction_score(
    model: Model,
    head: str,
    previous_head: str,
    *,
    query_head: str | None = None,
    length: Length = None,
    runs: int = 2,
    prefix: Sequence[int] = (),
    seed: int = 0,
    queries: int = 8,
    limits: Limits = NO_LIMITS,
) -> InductionScore:
    """Return what share of a head's induction score comes through keys that one earlier head made, and through queries.

    The score of the induction position is expanded over pairs of paths for the last `queries` positions of `runs`
    texts of repeated random tokens, of the longest length; `query_head` is by default `previous_head`; `limits` say
    when to stop, and from which sums to resume. Elhage et al. 2021, "Path
    Expansion of Attention Scores QK Circuit". Raises GraphError if there is no such head.

    >>> import pathexp as px
    >>> round(induction_score(px.induction_model(), "L1H0", "L0H0").share, 2)
    0.84
    """
    expect(
        "induction_score", head=(head, TEXT), previous_head=(previous_head, TEXT), queries=(queries, whole(1))
    )
    check_model(model, "induction_score")
    makers = Makers(head, previous_head, previous_head if query_head is None else query_head)
    expect("induction_score", query_head=(makers.query_head, TEXT))
    texts = RepeatedTokens(model, length, prefix, seed)
    found = accumulate(
        texts.random(),
        lambda copy: _explained(texts.run(copy), makers, queries),
        texts.question(makers.question(queries, seed)),
        most=checked_runs(runs),
        limits=limits,
        together=True,
    )
    return _score(makers, found, texts, queries)


def induction_scores(
    texts: RepeatedTokens, heads: Sequence[Makers], runs: int, *, queries: int = 8, limits: Limits = NO_LIMITS
) -> tuple[InductionScore, ...]:
    """Return the scores of several heads, as `induction_score`, each text run once for all of them.

    >>> import pathexp as px
    >>> texts = RepeatedTokens(px.induction_model())
    >>> [round(found.share, 2) for found in induction_scores(texts, [Makers("L1H0", "L0H0", "L0H0")], 2)]
    [0.84]
    """
    if not heads:
        return ()

    def measure(copy: Tokens) -> Mapping[str, Array]:
        run = texts.run(copy)
        return {
            f"{makers.head}: {name}": value
            for makers in heads
            for name, value in _explained(run, makers, queries).items()
        }

    question = f"induction scores of {', '.join(makers.head for makers in heads)}, {queries} queries, random seed {texts.seed},"
    found = accumulate(
        texts.random(),
        measure,
        texts.question(question),
        most=checked_runs(runs),
        limits=limits,
        together=True,
    )
    return tuple(_score(makers, _only(found, makers, texts, queries), texts, queries) for makers in heads)


def _only(found: Tally, makers: Makers, texts: RepeatedTokens, queries: int) -> Tally:
    """The sums of one head, as if it had been asked about alone."""
    mine = f"{makers.head}: "
    sums = {name.removeprefix(mine): value for name, value in found.sums.items() if name.startswith(mine)}
    return replace(found, question=texts.question(makers.question(queries, texts.seed)), sums=sums)


def _score(makers: Makers, found: Tally, texts: RepeatedTokens, queries: int) -> InductionScore:
    whole, keys, asked, both = (float(value) for value in found.mean("whole and through"))
    kinds = {
        name.removeprefix("kind "): float(found.mean(name)) for name in found.sums if name.startswith("kind ")
    }
    amount = found.windows * min(queries, texts.copy)
    return InductionScore(*makers, whole, keys, asked, both, kinds, amount, found)


def _explained(text: RepeatedRun, makers: Makers, queries: int) -> Mapping[str, Array]:
    """Means over queries of a text: the advantage, what comes through each maker and both, and each kind of term."""
    found = scores(text.trace, makers.head, [(query, text.key(query)) for query in text.second[-queries:]])
    keyed = found[0].where(key=f"S .* {makers.previous_head} .* K")
    asked = found[0].where(query=f"S .* {makers.query_head} .* Q")
    some = (found[0], keyed, asked, replace(keyed, queries=asked.queries))
    through = [
        [replace(part, pair=each.pair).advantage() for part in some] for each in found
    ]  # one walk a side for all queries
    kinds = {
        f"kind {kind}": np.mean([each.pair.advantage(each.rows_by_kind()[kind]) for each in found])
        for kind in found[0].rows_by_kind()
    }
    return {"whole and through": np.mean(through, axis=0)} | {
        name: np.asarray(value) for name, value in kinds.items()
    }
