"""How far a tree grows: to a number of nodes, of seconds, or to a share explained."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from ...arguments import NUMBER, expect, whole
from ...errors import PathexpError
from ..header import counted

Progress: TypeAlias = Callable[[int], None]
"""What is called after every opening, with how many nodes are open."""


EVERY = 1.0
"""How many seconds pass between two lines of progress."""


def reporter(progress: Progress | bool) -> Progress | None:
    """Return what reports progress: a function that is given, or lines on stderr, once a second."""
    if callable(progress):
        return progress
    return _Lines() if progress else None


@dataclass
class _Lines:
    """Prints how many nodes are open, at most once a second."""

    last: float = field(default_factory=time.perf_counter)

    def __call__(self, nodes: int) -> None:
        now = time.perf_counter()
        if now - self.last > EVERY:
            self.last = now
            print(f"tree: {counted(nodes, 'node')} opened", file=sys.stderr)


NODES = 100
"""How many nodes are opened unless another limit is given."""

MOST = 100_000
"""How many nodes are opened at most, where only seconds or a share are given."""


@dataclass(frozen=True)
class Limits:
    """Limits on nodes opened, on seconds, and on the share of the value that complete paths shall add.

    Raises PathexpError for a limit that is none: nodes from 0 up, seconds from 0 up, a share between 0 and 1.
    """

    nodes: int | None = None
    seconds: float | None = None
    share: float | None = None
    started: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        expect("tree", nodes=(self.nodes, whole(0).or_none), seconds=(self.seconds, NUMBER.or_none))
        expect("tree", share=(self.share, NUMBER.or_none))
        if self.seconds is not None and self.seconds < 0:
            raise PathexpError(f"tree() takes seconds from 0 up, got {self.seconds!r}")
        if self.share is not None and not 0 < self.share <= 1:
            raise PathexpError(f"tree() takes a share above 0 and up to 1, got {self.share!r}")

    @property
    def most(self) -> int:
        """How many nodes are opened at most."""
        if self.nodes is not None:
            return self.nodes
        return NODES if self.seconds is None and self.share is None else MOST

    def reached(self, nodes: int, value: float, finished: float) -> str:
        """Return the name of the limit that is reached, or nothing."""
        if nodes >= self.most:
            return "nodes"
        if self.seconds is not None and time.perf_counter() - self.started >= self.seconds:
            return "seconds"
        if self.share is not None and nodes and abs(value - finished) <= (1 - self.share) * abs(value):
            return "share"
        return ""
