"""Large arrays in memory that earlier ones have let go: pages that a process has already are not asked for again.

A layer of a large model is raised, used and let go, and the next one takes as many bytes. From the system each byte costs a page that is
found and zeroed, in virtual machines several times what it costs to fill it with numbers.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Callable
from threading import Lock
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LEAST = 2**22
"""Smaller arrays, in bytes, are numpy's own: the allocator has memory for them at hand."""


class Buffers:
    """Arrays of doubles whose memory, when nothing refers to them or to a part of them any more, is kept for others as large.

    At most `limit()` bytes are kept unused.

    >>> buffers = Buffers(lambda: 2**23)
    >>> part = buffers.array((2**10, 2**9))[3:]
    >>> buffers.spare
    0
    >>> del part
    >>> buffers.spare, buffers.array((2**9, 2**10)).shape, buffers.spare
    (4194304, (512, 1024), 4194304)
    """

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
        self._back: deque[Array] = deque()
        self._spare: OrderedDict[int, list[Array]] = OrderedDict()
        self._lock = Lock()

    def array(self, shape: tuple[int, ...]) -> Array:
        """Return an array of a shape, its numbers not set."""
        size = math.prod(shape)
        if 8 * size < LEAST:
            return np.empty(shape)
        buffer = self._taken(size)
        made = np.frombuffer(
            buffer.data, dtype=np.float64
        )  # what is cut from it refers to it, not to the buffer
        finalize(made, self._came_back, buffer).atexit = False
        return made.reshape(shape)

    @property
    def spare(self) -> int:
        """How many bytes are kept unused."""
        with self._lock:
            self._sort()
            return self._bytes()

    def trim(self) -> None:
        """Give back to the system what is over the limit, which may be lower now."""
        with self._lock:
            self._sort()

    def _taken(self, size: int) -> Array:
        with self._lock:
            self._sort()
            if found := self._spare.get(size):
                return found.pop()
        return np.empty(size)

    def _came_back(self, buffer: Array) -> None:
        """Take memory back. The collector may call this anywhere, also where the lock is held already."""
        self._back.append(buffer)
        if self._lock.acquire(blocking=False):
            try:
                self._sort()
            finally:
                self._lock.release()

    def _sort(self) -> None:
        """Put what came back by its size; what is over the limit goes to the system, sizes that were not asked for lately first."""
        while self._back:
            buffer = self._back.popleft()
            self._spare.setdefault(buffer.size, []).append(buffer)
            self._spare.move_to_end(buffer.size)
        while self._bytes() > self._limit():
            size, oldest = next(iter(self._spare.items()))
            if oldest:
                oldest.pop()
            if not oldest:
                del self._spare[size]

    def _bytes(self) -> int:
        return sum(8 * size * len(buffers) for size, buffers in self._spare.items())
