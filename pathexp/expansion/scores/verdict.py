"""The verdict on a score: do the pairs of paths add up to the run's own score before the softmax?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...answer import Answer, Check, Facts, Part
from ...graph import lengths
from ...model.rounding import CONFIDENCE
from ..expansion import Expansion
from ..noise import UNIT
from ..tolerance import rounding_tolerance
from ..verdict import BLIND
from .pair import Pair

ONE_BY_ONE = 2_000
"""Up to this many terms a verdict adds them one by one; beyond, by the recurrence over all pairs."""


@dataclass(frozen=True, eq=False, repr=False)
class ScoreVerdict(Answer):
    """A comparison of a sum over pairs of paths with the run's own score.

    It holds if they differ by at most `tolerance`, derived from the rounding of both sides. Where that is not small
    beside the query's scores, nothing can be told, and `reason` says so.
    """

    error: float
    tolerance: float
    found: float
    expected: float
    method: str
    reason: str = ""

    def __bool__(self) -> bool:
        return self.ok

    @property
    def check(self) -> Check:
        """The comparison as a part of an answer."""
        return Check(
            "pairs of paths add up to the score", self.error, self.tolerance, "rounding of queries, keys and products",
            f"{self.method}: got {self.found:.9g}, expected {self.expected:.9g}", self.reason, "verdict",
        )  # fmt: skip

    def headline(self) -> str:
        """Return the check in one line."""
        return str(self.check)

    def parts(self) -> Iterator[Part]:
        """Yield what was compared, and the check."""
        yield Facts({"found": self.found, "expected": self.expected, "method": self.method})
        yield self.check

    def text(self, *, width: int | None = None, top: int | None = None) -> str:
        """Return the check and what was compared."""
        return f"{self.check}\n  {self.check.detail}"


def verify_score(
    values: Sequence[float] | None,
    total: float,
    whole: float,
    counts: tuple[int, int],
    tolerance: float,
    expected: float,
    scale: float,
) -> ScoreVerdict:
    """Compare terms of a score (`values` one by one, else their `total`), and all others, with the run's score.

    `whole` is the total of all terms; `counts` says how many there are here, and in all; `scale` is the size of the
    scores that the tolerance must be small beside.
    """
    count, others = counts[0], counts[1] - counts[0]
    rest = whole - total if others else 0.0
    found, method = total, "terms by recurrence over all pairs"
    if values is not None:
        found, method = float(sum(values)), "terms summed individually"
        tolerance += CONFIDENCE * UNIT * float(np.sum(np.abs(values))) * len(values) ** 0.5
    error = abs(found + rest - expected)
    beside = f" and {others:,} others by recurrence" if others else ""
    blind = tolerance > BLIND * scale and error > 0
    reason = f"the tolerance is not small beside the scores (root mean square {scale:.3g})" if blind else ""
    return ScoreVerdict(error, tolerance, found + rest, expected, f"{count:,} {method}{beside}", reason)


def score_tolerance(pair: Pair, queries: Expansion, keys: Expansion) -> float:
    """What the rounding of the query and of the key, of all their paths, and of their product may do to the score.

    An error of e in each of d numbers of the query moves the score by about e · ‖key‖, and the other way round.
    """
    query, key = (float(lengths(side.logits()[at])) for side, at in ((queries, pair.query), (keys, pair.key)))
    of_query = rounding_tolerance(queries.graph, 0, 0.0)
    of_key = rounding_tolerance(keys.graph, 0, 0.0)
    product = CONFIDENCE * UNIT * np.sqrt(pair.form.d_head + 4) * query * key
    return float(pair.form.scale * (of_query * key + of_key * query + product))
