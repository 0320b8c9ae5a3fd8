"""How much a search may spend, and what it says while it runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real

from ...errors import PathexpError

MEMORY = 2**31
"""Bytes that a search may hold in suffixes unless told otherwise."""

GRACE, LEAST_GRACE = 0.05, 0.5
"""What a search may take beyond its time, to have an answer at all: a share of it, or so many seconds."""


@dataclass(frozen=True)
class Budget:
    """Limits on seconds, on suffixes kept and on the bytes they take; None means no limit.

    Raises PathexpError for a limit that is no number from 0 up.
    """

    seconds: float | None = None
    nodes: int | None = None
    memory: int = MEMORY
    progress: bool | Callable[[str], None] = False
    started: float = field(default_factory=time.perf_counter)
    interrupted: Callable[[], bool] = bool

    def __post_init__(self) -> None:
        for name in ("seconds", "nodes", "memory"):
            _check(name, getattr(self, name))

    @property
    def elapsed(self) -> float:
        """Seconds since the search began."""
        return time.perf_counter() - self.started

    def late(self) -> bool:
        """Whether the time is used up, or somebody asked to stop."""
        return self.interrupted() or (self.seconds is not None and self.elapsed >= self.seconds)

    @property
    def grace(self) -> float:
        """Seconds beyond its time that a search may take to have an answer at all."""
        return max(GRACE * (self.seconds or 0.0), LEAST_GRACE)

    def overdue(self) -> bool:
        """Whether the grace is used up as well, or somebody asked to stop."""
        return self.interrupted() or (self.seconds is not None and self.elapsed >= self.seconds + self.grace)

    def spent(self, nodes: int, held: int) -> bool:
        """Whether a limit is reached, with so many suffixes kept and bytes held."""
        return self.late() or (self.nodes is not None and nodes >= self.nodes) or held >= self.memory

    def say(self, what: str) -> None:
        """Report progress, if asked to: to a function that is given, else on stderr."""
        if callable(self.progress):
            self.progress(what)
        elif self.progress:
            print(f"{self.elapsed:7.1f} s  {what}", file=sys.stderr, flush=True)


def _check(name: str, limit: object) -> None:
    if limit is None or (isinstance(limit, Real) and not isinstance(limit, bool) and float(limit) >= 0):
        return
    raise PathexpError(
        f"{name}={limit!r} is no limit for a search; give a number from 0 up, or None for no limit"
    )
