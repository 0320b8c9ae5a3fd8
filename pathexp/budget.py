"""One budget of bytes for arrays that can be made again: raised layers of weights, stacked heads, tables.

What was used last is kept; what does not fit is let go and made again when asked for, with the same numbers. The
budget is PATHEXP_MEMORY in bytes ("3e9", "3GB"), or `memory_budget`.
"""

from __future__ import annotations

import os
import re
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from threading import Lock
from types import MappingProxyType
from typing import Any, TypeVar
from weakref import ref

import numpy as np

from .buffers import Buffers
from .errors import PathexpError
from .turns import Turns

Value = TypeVar("Value")
Place = tuple[int, Hashable]

VARIABLE = "PATHEXP_MEMORY"
DEFAULT = 2 * 1024**3
"""2 GiB: all of a model of 135 million parameters, and one layer of a large one with room for what is derived."""


PASSING = 16
"""Arrays that pass take at most one byte in so many."""


class Budget:
    """What is kept, by owner and key, the least recently used first to go; dropped with its owner.

    A value must not refer to its owner, or neither would be let go before it is pushed out.

    >>> class Owner: ...
    >>> budget, owner = Budget(1000), Owner()
    >>> budget.get(owner, "a", lambda: np.ones(100)) is budget.get(owner, "a", lambda: np.ones(100))
    True
    >>> _ = budget.get(owner, "b", lambda: np.ones(50))
    >>> budget
    400 bytes of 1,000 kept in 1 values
    >>> del owner
    >>> budget
    0 bytes of 1,000 kept in 0 values
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._kept: OrderedDict[Place, tuple[object, dict[int, int]]] = OrderedDict()
        self._shared: Counter[int] = Counter()
        self._owners: dict[int, ref[object]] = {}
        self._places: dict[int, set[Place]] = {}
        self._passing: OrderedDict[int, int] = OrderedDict()
        self._gone: deque[int] = deque()
        self._lock = Lock()
        self._making = Turns()
        self._total = 0

    def get(self, owner: object, key: Hashable, make: Callable[[], Value], *, passing: bool = False) -> Value:
        """Return the value of an owner and a key, made if it is not kept.

        ``passing``: large, and soon used no more, such as patterns of a long text. Of arrays that such values hold at most one byte
        in sixteen of the limit is kept, and no value that refers to another. What another thread makes just now is waited for.
        """
        place = id(owner), key
        kept: tuple[Value] | None = self._find(place)
        if kept is not None:
            return kept[0]
        with self._making.alone(place):
            kept = self._find(place)
            if kept is not None:
                return kept[0]
            value = make()
            self._put(owner, place, value, passing)
            return value

    def find(self, owner: object, key: Hashable) -> object | None:
        """Return the value of an owner and a key, or None where none is kept."""
        kept: tuple[object] | None = self._find((id(owner), key))
        return None if kept is None else kept[0]

    def _find(self, place: Place) -> tuple[Any] | None:
        """The value that is kept at a place, as the one member of a tuple."""
        with self._lock:
            self._forget()
            if place not in self._kept:
                return None
            self._kept.move_to_end(place)
            return (self._kept[place][0],)

    def resize(self, limit: int) -> None:
        """Set the limit in bytes; what is over it is let go."""
        with self._lock:
            self.limit = limit
            self._shrink()

    def __repr__(self) -> str:
        with self._lock:
            self._forget()
            return f"{self._total:,} bytes of {self.limit:,} kept in {len(self._kept):,} values"

    def _put(self, owner: object, place: Place, value: object, passing: bool) -> None:
        memory = dict(memory_of(value))
        with self._lock:
            self._forget()
            if sum(memory.values()) > self.limit or place in self._kept:
                return
            if place[0] not in self._owners:
                self._owners[place[0]] = ref(owner, partial(self._note, place[0]))
            self._kept[place] = value, memory
            self._places.setdefault(place[0], set()).add(place)
            self._total += sum(size for array, size in memory.items() if not self._shared[array])
            self._shared.update(memory.keys())
            if passing:
                self._passing.update(memory)
                self._let_pass()
            self._shrink()

    def _note(self, owner: int, _: object) -> None:
        """Note an owner that is gone. The collector may call this anywhere, also where the lock is held already."""
        self._gone.append(owner)
        if self._lock.acquire(blocking=False):
            try:
                self._forget()
            finally:
                self._lock.release()

    def _shrink(self) -> None:
        while self._total > self.limit and self._kept:
            self._drop(next(iter(self._kept)))

    def _let_pass(self) -> None:
        """Drop all that refers to the oldest arrays that pass, until few enough bytes of them are left."""
        while len(self._passing) > 1 and sum(self._passing.values()) * PASSING > self.limit:
            oldest = next(iter(self._passing))
            for place in [place for place, (_, memory) in self._kept.items() if oldest in memory]:
                self._drop(place)

    def _drop(self, place: Place) -> None:
        _, memory = self._kept.pop(place)
        self._places[place[0]].discard(place)
        for array, size in memory.items():
            self._shared[array] -= 1
            if not self._shared[array]:
                del self._shared[array]
                self._passing.pop(array, None)
                self._total -= size

    def _forget(self) -> None:
        """Drop what belongs to owners that are gone."""
        while self._gone:
            owner = self._gone.popleft()
            for place in tuple(self._places.get(owner, ())):
                self._drop(place)
            self._places.pop(owner, None)
            del self._owners[owner]


def memory_of(value: object) -> Iterator[tuple[int, int]]:
    """Yield the arrays whose memory a value holds, and their bytes: in sequences, mappings and dataclasses.

    Views are those of the array that they are cut from, so that what two values share is counted once.

    >>> whole = np.ones(3)
    >>> sum(dict(memory_of((whole, {"a": [whole[:2], np.ones(2)]}))).values())
    40
    """
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if value is None or type(value) in _PLAIN:
            continue
        if isinstance(value, np.ndarray):
            while isinstance(value.base, np.ndarray):
                value = value.base
            yield id(value), value.nbytes
        elif isinstance(value, _SEQUENCES):
            waiting.extend(reversed(value))
        elif isinstance(value, _MAPPINGS):
            waiting.extend([*value.values()][::-1])
        elif parts := getattr(type(value), "__dataclass_fields__", None):
            waiting.extend(getattr(value, name, None) for name in reversed(parts))


_PLAIN = frozenset((bool, int, float, str, bytes))
"""Kinds of values that hold no array: most of what is looked at."""

_SEQUENCES, _MAPPINGS = (tuple, list), (dict, MappingProxyType)


_UNITS: Mapping[str, float] = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "ki": 2**10, "mi": 2**20, "gi": 2**30}
_SIZE = re.compile(r"([0-9.]+(?:e\+?[0-9]+)?)\s*(ki|mi|gi|k|m|g|)b?", re.IGNORECASE)


def bytes_of(size: int | float | str) -> int:
    """Return a number of bytes from a number or a text such as "3GB" or "512MiB".

    Raises PathexpError for what is none.

    >>> bytes_of("1.5 GB"), bytes_of("4KiB"), bytes_of(10)
    (1500000000, 4096, 10)
    """
    match = _SIZE.fullmatch(str(size).strip())
    try:
        if match and not isinstance(size, bool):
            return int(float(match[1]) * _UNITS[match[2].lower()])
    except (ValueError, OverflowError):
        pass
    raise PathexpError(
        f"memory: expected a number of bytes such as 3000000000, 3GB or 512MiB, got {size!r:.40}"
    )


@dataclass(frozen=True)
class MemoryBudget:
    """The budget as it stands: its limit and what is kept, in bytes."""

    limit: int
    kept: int
    values: int


def memory_budget(size: int | float | str | None = None) -> MemoryBudget:
    """Set the budget for arrays that can be made again, if a size is given, and return how it stands.

    `size`: bytes, or a text such as "3GB". A smaller budget makes the same numbers, more slowly. Not counted are
    what is being computed with, runs, answers, and memory that the next arrays take over, at most a quarter as much. Raises
    PathexpError for what is no size.

    >>> memory_budget("2GiB").limit
    2147483648
    """
    if size is not None:
        BUDGET.resize(bytes_of(size))
        BUFFERS.trim()
    with BUDGET._lock:
        BUDGET._forget()
        return MemoryBudget(BUDGET.limit, BUDGET._total, len(BUDGET._kept))


BUDGET = Budget(bytes_of(os.environ.get(VARIABLE) or DEFAULT))
"""The one budget. It pins nothing: values go with their owners."""

BUFFERS = Buffers(lambda: BUDGET.limit // 4)
"""Memory of large arrays that were let go, for the next ones."""
