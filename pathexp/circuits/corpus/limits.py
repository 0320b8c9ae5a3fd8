"""The limits of a long count: when it stops, what it reports, and from which sums it goes on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...arguments import TRUTH, Kind, expect, instance
from .tally import Tally

SECONDS = Kind(
    "a number of seconds ≥ 0",
    lambda value: isinstance(value, int | float) and not isinstance(value, bool) and value >= 0,
)


@dataclass(frozen=True)
class Limits:
    """How long a count may take, whether it reports progress on stderr, and the sums that it starts from.

    Parameters
    ----------
    seconds: stop after the window during which so much time is over; an interrupt (Ctrl-C) stops as well. What is
        returned holds what was counted until then, and its `tally` can be saved and resumed.
    progress: whether to report on stderr how many windows were counted.
    start: the tally of an earlier count, `found.tally` or `Tally.load(file)`. The windows that it holds are passed
        over, so give the same corpus from its beginning; another question or another corpus is refused.

    keep, every: a file in which the sums so far are saved every so many seconds, so that a process that dies loses no
        more than these.

    Raises PathexpError for a negative time, or a start that is no tally.

    >>> Limits(seconds=60.0).start is None
    True
    """

    seconds: float | None = None
    progress: bool = False
    start: Tally | None = None
    keep: str | Path | None = None
    every: float = 60.0

    def __post_init__(self) -> None:
        expect(
            "Limits",
            seconds=(self.seconds, SECONDS.or_none),
            progress=(self.progress, TRUTH),
            keep=(self.keep, instance((str, Path), "the path of a file").or_none),
            every=(self.every, SECONDS),
            start=(self.start, instance(Tally, "a Tally, as Tally.load(file) gives").or_none),
        )


NO_LIMITS = Limits()
