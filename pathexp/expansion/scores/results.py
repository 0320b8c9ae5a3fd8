"""What is said of a score: what each kind of term does to it, and its largest terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from .term import PositionBias, ScoreTerm

AnyScoreTerm: TypeAlias = ScoreTerm | PositionBias


@dataclass(frozen=True)
class Effect:
    """What one kind of term adds to a score, and what the softmax makes of it.

    `value` is added to the score, `advantage` to the score above the mean of the other visible keys;
    `attention` is the run's, `without` what it would be without these terms.
    """

    kind: str
    count: int
    value: float
    advantage: float
    attention: float
    without: float


@dataclass(frozen=True)
class ScoreRanking:
    """The terms of largest |value| in a score; value + remainder is the sum of all terms.

    `examined` pairs of paths were multiplied out; no term that is not listed exceeds `bound` in size.
    """

    terms: tuple[AnyScoreTerm, ...]
    values: tuple[float, ...]
    remainder: float
    examined: int
    count: int
    bound: float

    @property
    def value(self) -> float:
        """The signed sum of the listed terms."""
        return float(sum(self.values))

    def __str__(self) -> str:
        rows = [f"{value:+12.6f}  {term}" for term, value in zip(self.terms, self.values, strict=True)]
        rest = f"{self.remainder:+12.6f}  exact remainder, {self.count - len(self.terms):,} terms not listed"
        return "\n".join([f"{len(self.terms)} largest of {self.count:,} terms (proven)", *rows, rest])
