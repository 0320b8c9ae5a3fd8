"""One thread at a time, by what it works on."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock, RLock
from typing import Any


@dataclass(eq=False)
class _Turn:
    """Whose turn it is, and how many threads have it or wait for it."""

    lock: Any = field(default_factory=RLock)
    threads: int = 0


class Turns:
    """Turns by key: threads that work on one key do so one after the other, on others side by side.

    >>> turns = Turns()
    >>> with turns.alone("a"), turns.alone("b"), turns.alone("a"):
    ...     len(turns)
    2
    >>> len(turns)
    0
    """

    def __init__(self) -> None:
        self._turns: dict[Hashable, _Turn] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        """How many keys are worked on."""
        return len(self._turns)

    @contextmanager
    def alone(self, key: Hashable) -> Iterator[None]:
        """Wait until no other thread works on a key, and work on it; the same thread may begin again meanwhile."""
        with self._lock:
            turn = self._turns.setdefault(key, _Turn())
            turn.threads += 1
        try:
            with turn.lock:
                yield
        finally:
            with self._lock:
                turn.threads -= 1
                if not turn.threads:
                    del self._turns[key]
