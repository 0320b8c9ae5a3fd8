"""How much a search may spend, and what it says while it runs."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field

MEMORY = 2**31
"""Bytes that a search may hold in suffixes unless told otherwise."""


@dataclass(frozen=True)
class Budget:
    """Limits on seconds, on suffixes kept and on the bytes they take; None means no limit."""

    seconds: float | None = None
    nodes: int | None = None
    memory: int = MEMORY
    progress: bool = False
    started: float = field(default_factory=time.perf_counter)

    @property
    def elapsed(self) -> float:
        """Seconds since the search began."""
        return time.perf_counter() - self.started

    def late(self) -> bool:
        """Whether the time is used up."""
        return self.seconds is not None and self.elapsed >= self.seconds

    def spent(self, nodes: int, held: int) -> bool:
        """Whether a limit is reached, with so many suffixes kept and bytes held."""
        return self.late() or (self.nodes is not None and nodes >= self.nodes) or held >= self.memory

    def say(self, what: str) -> None:
        """Report progress on stderr, if asked to."""
        if self.progress:
            print(f"{self.elapsed:7.1f} s  {what}", file=sys.stderr, flush=True)
