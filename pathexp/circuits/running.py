"""Running sums by their old names, until every question takes a corpus and limits as values."""

from __future__ import annotations

from collections.abc import Iterable

from .corpus.accumulate import accumulate
from .corpus.limits import Limits
from .corpus.tally import Measure, Tally, Tokens
from .corpus.tally import question_of as asked

__all__ = ["Tally", "asked", "tally"]


def tally(
    windows: Iterable[Tokens],
    measure: Measure,
    question: str,
    *,
    start: Tally | None = None,
    limit: int | None = None,
    seconds: float | None = None,
    progress: bool = False,
) -> Tally:
    """Sum a measure over windows of tokens, one at a time; see `accumulate`."""
    limits = Limits(seconds, progress, start)
    return accumulate(windows, measure, question, most=limit, limits=limits)
