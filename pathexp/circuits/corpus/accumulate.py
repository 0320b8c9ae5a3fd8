"""Averages over a corpus as running sums: memory stays flat, a count can be stopped, saved and resumed."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import islice

from ...arguments import TEXT, TRUTH, Kind, expect, instance, sequence_of, whole
from ...errors import PathexpError
from ...expansion.search import interrupts
from ...workers import in_turn
from .limits import NO_LIMITS, Limits
from .tally import Measure, Merge, Tally, Tokens, added, marked


def accumulate(
    windows: Iterable[Tokens],
    measure: Measure,
    question: str,
    *,
    most: int | None = None,
    limits: Limits = NO_LIMITS,
    merge: Merge = added,
    together: bool = False,
) -> Tally:
    """Sum a measure over windows of tokens, one at a time.

    Parameters
    ----------
    question: what is measured of what, in words; the tally of `limits.start` must have the same.
    most: how many windows to take at most, those of `limits.start` included.
    merge: how the sums of one more window are added to those so far.
    together: measure as many windows at a time as there are cores, and add them in order; of `measure` alone.

    An interrupt (Ctrl-C) ends it after the window at hand; a second one, within the window.
    Raises PathexpError if `limits.start` answers another question or holds windows of another corpus.

    >>> import numpy as np
    >>> found = accumulate([np.array([1, 2]), np.array([3])], lambda window: {"sum": window.sum()}, "sums")
    >>> found.windows, found.tokens, int(found.sums["sum"])
    (2, 3, 6)
    """
    expect(
        "accumulate",
        question=(question, TEXT),
        measure=(measure, Kind("a function of a window", callable)),
        windows=(windows, instance(Iterable, "windows of tokens")),
        most=(most, whole(0).or_none),
        limits=(limits, instance(Limits, "Limits")),
        merge=(merge, Kind("a function of two mappings", callable)),
        together=(together, TRUTH),
    )
    stream = _checked(windows)
    found = _resumed(stream, question, limits.start)
    report = _Report(question, limits)
    chosen = islice(stream, None if most is None else max(0, most - found.windows))
    every = in_turn(measure, chosen) if together else ((window, measure(window)) for window in chosen)
    with interrupts() as interrupted, closing(every):
        try:
            for window, measured in every:
                found = found.plus(window, measured, merge)
                if interrupted() or report.is_over(found):
                    break
            ended = interrupted()
        except KeyboardInterrupt:
            if not found.windows:
                raise
            ended = True
    if ended:
        report.say(f"stopped after {found.windows} windows")
        return replace(found, interrupted=True)
    return found


def _checked(windows: Iterable[Tokens]) -> Iterator[Tokens]:
    ids = sequence_of(whole(0), "windows, lists of token ids")
    for window in windows:
        expect("accumulate", windows=(window, ids))
        yield window


def _resumed(stream: Iterator[Tokens], question: str, start: Tally | None) -> Tally:
    """The sums to go on from, the windows that they hold passed over and compared."""
    if start is None:
        return Tally(question)
    if start.question != question:
        raise PathexpError(f"these sums answer {start.question!r}; asked was {question!r}: begin anew")
    mark, windows = 0, 0
    for window in islice(stream, start.windows):
        mark, windows = marked(window, mark), windows + 1
    if (windows, mark) != (start.windows, start.mark):
        raise PathexpError(
            f"these sums hold {start.windows} windows of another corpus; the {windows} at the beginning of this one "
            f"differ: give the same corpus from its beginning, or begin anew ({question})"
        )
    return start


class _Report:
    """The clock of a count: whether its time is over, and a line on stderr now and then."""

    def __init__(self, question: str, limits: Limits) -> None:
        self.question, self.limits = question, limits
        self.began = self.said = self.kept = time.monotonic()

    def is_over(self, found: Tally) -> bool:
        """Report progress, save what there is now and then, and return whether the time is over."""
        now = time.monotonic()
        if now - self.said > 1:
            self.said = now
            self.say(f"{found.windows} windows, {found.tokens} tokens")
        if self.limits.keep is not None and now - self.kept >= self.limits.every:
            self.kept = now
            found.save(self.limits.keep)
        return self.limits.seconds is not None and now - self.began >= self.limits.seconds

    def say(self, line: str) -> None:
        """Write a line on stderr, if progress is to be reported."""
        if self.limits.progress:
            print(f"{self.question}: {line}", file=sys.stderr)
