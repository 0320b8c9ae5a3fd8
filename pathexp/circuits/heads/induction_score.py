"""Why an induction head looks where it looks: its score, expanded, and what comes by keys of an earlier head."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...arguments import TEXT, expect, whole
from ...expansion import ScoreExpansion, expand_score
from ...graph import Array
from ...model import Model
from ...model.model import check_model
from ..corpus import Tokens
from ..running import Tally, tally
from .repeated_tokens import Repeated, Said, checked_runs


@dataclass(frozen=True)
class KeyPath:
    """How much of a head's looking at the induction position comes by keys that an earlier head made.

    Means over queries of how far the induction position's score stands above the mean of the other keys' (the
    softmax sees nothing else): `advantage` in all, `through` by pairs of paths whose key path passes `before`,
    `by_kind` of term. `tally` holds the running sums over texts, to save and to go on from.
    """

    head: str
    before: str
    advantage: float
    through: float
    by_kind: dict[str, float]
    queries: int
    tally: Tally

    @property
    def share(self) -> float:
        """The share of the advantage that keys through the earlier head hold."""
        return self.through / self.advantage


def explain_induction(
    model: Model,
    head: str,
    before: str,
    *,
    length: int | None = None,
    runs: int = 2,
    prefix: Sequence[int] = (),
    seed: int = 0,
    queries: int = 8,
    start: Tally | None = None,
    seconds: float | None = None,
    progress: bool = False,
) -> KeyPath:
    """Return what share of a head's induction score comes by keys that an earlier head made.

    The score of the induction position is expanded over pairs of paths for the last `queries` positions of
    `runs` texts of random tokens said twice; `start`, `seconds`, `progress` as for `tally`. Elhage et al. 2021, "Path Expansion of Attention Scores QK Circuit".

    >>> import pathexp as px
    >>> round(explain_induction(px.induction_model(), "L1H0", "L0H0").share, 2)
    0.84
    """
    expect("explain_induction", head=(head, TEXT), before=(before, TEXT), queries=(queries, whole(1)))
    check_model(model, "explain_induction")
    said = Said(model, length, prefix, seed)
    found = tally(
        said.random(),
        lambda tokens: _explained(said, tokens, head, before, queries),
        said.question(f"{head} looking by keys through {before}, {queries} queries, random seed {seed},"),
        start=start,
        limit=checked_runs(runs),
        seconds=seconds,
        progress=progress,
    )
    advantage, through = (float(value) for value in found.mean("whole and through"))
    kinds = {
        name.removeprefix("kind "): float(found.mean(name)) for name in found.sums if name.startswith("kind ")
    }
    return KeyPath(head, before, advantage, through, kinds, found.windows * min(queries, said.copy), found)


def _explained(said: Said, tokens: Tokens, head: str, before: str, queries: int) -> Mapping[str, Array]:
    return _means(list(_scores(said.of_run(said.model.run(tokens)), head, queries)), before)


def _means(scores: list[ScoreExpansion], before: str) -> Mapping[str, Array]:
    """Means over queries of a text: the advantage, what comes through the earlier head, and each kind of term."""
    both = np.mean(
        [[each.advantage(), each.where(key=f"S .* {before} .* K").advantage()] for each in scores], axis=0
    )
    kinds = {
        f"kind {kind}": np.mean([each.pair.advantage(each.rows_by_kind()[kind]) for each in scores])
        for kind in scores[0].rows_by_kind()
    }
    return {"whole and through": both} | {name: np.asarray(value) for name, value in kinds.items()}


def _scores(text: Repeated, head: str, queries: int) -> Iterator[ScoreExpansion]:
    for query in text.second[-queries:]:
        yield expand_score(text.trace, head, query, text.key(query))
