"""The verdict on a score: do the pairs of paths add up to the run's own score before the softmax?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .tolerance import CONFIDENCE, UNIT, lengths, rounding_tolerance

if TYPE_CHECKING:
    from .scores import ScoreExpansion

ONE_BY_ONE = 2_000
"""Up to this many terms a verdict adds them one by one; beyond, by the recurrence over all pairs."""


@dataclass(frozen=True)
class ScoreVerdict:
    """A comparison of a sum over pairs of paths with the run's own score.

    `ok` holds if they differ by at most `tolerance`, derived from the rounding of both sides.
    """

    ok: bool
    error: float
    tolerance: float
    found: float
    expected: float
    method: str

    def __str__(self) -> str:
        head = "pairs of paths add up to the score" if self.ok else "PAIRS OF PATHS DO NOT ADD UP"
        sign = "≤" if self.error <= self.tolerance else ">"
        return (
            f"{head}: error {self.error:.2e} {sign} tolerance {self.tolerance:.2e}\n"
            f"  {self.method}: {self.found:.9g} for {self.expected:.9g}"
        )

    def __bool__(self) -> bool:
        return self.ok


def verify_score(terms: ScoreExpansion, expected: float) -> ScoreVerdict:
    """Compare a score expansion (with the rest, if it is narrowed) with the run's score."""
    whole, count = terms.whole(), terms.count()
    others = whole.count() - count
    rest = whole.value() - terms.value() if others else 0.0
    beside = f" and {others:,} others by recurrence" if others else ""
    if count <= ONE_BY_ONE:
        values = [term.value for term in terms]
        found, size, method = float(sum(values)), float(np.sum(np.abs(values))), "terms added one by one"
    else:
        found, size, method = terms.value(), 0.0, "terms by recurrence over all pairs"
    tolerance = _tolerance(whole) + CONFIDENCE * UNIT * size * min(count, ONE_BY_ONE) ** 0.5
    error = abs(found + rest - expected)
    method = f"{count:,} {method}{beside}"
    return ScoreVerdict(bool(error <= tolerance), error, float(tolerance), found + rest, expected, method)


def _tolerance(whole: ScoreExpansion) -> float:
    """What the rounding of the query and of the key, and of their product, may do to the score.

    An error of e in each of d numbers of the query moves the score by about e · ‖key‖, and the other way round.
    """
    form, i, j = whole.pair.form, whole.pair.query, whole.pair.key
    query, key = (float(lengths(side.logits()[at])) for side, at in ((whole.queries, i), (whole.keys, j)))
    of_query = rounding_tolerance(whole.queries.graph, 0, 0.0)
    of_key = rounding_tolerance(whole.keys.graph, 0, 0.0)
    product = CONFIDENCE * UNIT * np.sqrt(form.d_head + 4) * query * key
    return float(form.scale * (of_query * key + of_key * query + product))
