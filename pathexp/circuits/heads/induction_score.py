"""Why an induction head attends where it does: its score, expanded, and the part through keys of an earlier head."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...answer import Answer, Facts, Part, Table, columns
from ...arguments import TEXT, expect, whole
from ...expansion.scores.score import score
from ...expansion.scores.score_expansion import ScoreExpansion
from ...graph import Array
from ...model import Model
from ...model.model import check_model
from ..corpus.accumulate import accumulate
from ..corpus.limits import NO_LIMITS, Limits
from ..corpus.tally import Tally
from .repeated_tokens import RepeatedRun, RepeatedTokens, checked_runs


@dataclass(frozen=True, eq=False, repr=False)
class InductionScore(Answer):
    """Which part of a head's score of the induction position comes through keys that an earlier head made.

    Means over queries of the advantage: the score of the induction position minus the mean of the other keys' (the
    softmax sees nothing else). `advantage` is that of all terms, `through` that of pairs of paths whose key path
    passes `previous_head`, `by_kind` that of each kind of term. `tally` holds the sums over texts, to save and to
    resume from.
    """

    head: str
    previous_head: str
    advantage: float
    through: float
    by_kind: dict[str, float]
    queries: int
    tally: Tally

    @property
    def share(self) -> float:
        """The share of the advantage that keys through the earlier head hold."""
        return self.through / self.advantage

    def headline(self) -> str:
        """Return the share."""
        return (
            f"{self.head} scores the induction position {self.advantage:+.2f} above the other keys; "
            f"{self.through:+.2f} ({self.share:.1%}) through keys made by {self.previous_head}"
        )

    def parts(self) -> Iterator[Part]:
        """Yield the advantage by kind of term."""
        names = ("head", "previous_head", "advantage", "through", "share", "queries")
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
    length: int | None = None,
    runs: int = 2,
    prefix: Sequence[int] = (),
    seed: int = 0,
    queries: int = 8,
    limits: Limits = NO_LIMITS,
) -> InductionScore:
    """Return what share of a head's induction score comes through keys that an earlier head made.

    The score of the induction position is expanded over pairs of paths for the last `queries` positions of `runs`
    texts of repeated random tokens; `limits` say when to stop, and from which sums to resume. Elhage et al. 2021, "Path
    Expansion of Attention Scores QK Circuit". Raises GraphError if there is no such head.

    >>> import pathexp as px
    >>> round(induction_score(px.induction_model(), "L1H0", "L0H0").share, 2)
    0.84
    """
    expect(
        "induction_score", head=(head, TEXT), previous_head=(previous_head, TEXT), queries=(queries, whole(1))
    )
    check_model(model, "induction_score")
    texts = RepeatedTokens(model, length, prefix, seed)
    found = accumulate(
        texts.random(),
        lambda tokens: _explained(texts.run(tokens), head, previous_head, queries),
        texts.question(
            f"induction score of {head} through keys of {previous_head}, {queries} queries, random seed {seed},"
        ),
        most=checked_runs(runs),
        limits=limits,
    )
    return _score(head, previous_head, found, found.windows * min(queries, texts.copy))


def _score(head: str, previous_head: str, found: Tally, queries: int) -> InductionScore:
    advantage, through = (float(value) for value in found.mean("whole and through"))
    kinds = {
        name.removeprefix("kind "): float(found.mean(name)) for name in found.sums if name.startswith("kind ")
    }
    return InductionScore(head, previous_head, advantage, through, kinds, queries, found)


def _explained(text: RepeatedRun, head: str, previous_head: str, queries: int) -> Mapping[str, Array]:
    """Means over queries of a text: the advantage, what comes through the earlier head, and each kind of term."""
    scores = list(_scores(text, head, queries))
    through = f"S .* {previous_head} .* K"
    both = np.mean([[each.advantage(), each.where(key=through).advantage()] for each in scores], axis=0)
    kinds = {
        f"kind {kind}": np.mean([each.pair.advantage(each.rows_by_kind()[kind]) for each in scores])
        for kind in scores[0].rows_by_kind()
    }
    return {"whole and through": both} | {name: np.asarray(value) for name, value in kinds.items()}


def _scores(text: RepeatedRun, head: str, queries: int) -> Iterator[ScoreExpansion]:
    for query in text.second[-queries:]:
        yield score(text.trace, head, query=query, key=text.key(query))
