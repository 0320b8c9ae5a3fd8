"""What was made once for an object, kept for as long as the object lives."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from ..turns import Turns

Owner = TypeVar("Owner")
Value = TypeVar("Value")


class WeakCache(Generic[Owner, Value]):
    """Values by owner and key, dropped with their owner.

    A value must not refer to its owner, or neither would ever be let go: where it needs what the owner holds, give
    it a copy of the owner, which shares the arrays.

    >>> class Owner: ...
    >>> cache, owner = WeakCache[Owner, list[int]](), Owner()
    >>> cache.get(owner, "squares", lambda: [1, 4]) is cache.get(owner, "squares", lambda: [])
    True
    >>> len(cache)
    1
    >>> del owner
    >>> len(cache)
    0
    """

    def __init__(self) -> None:
        self._values: WeakKeyDictionary[object, dict[Hashable, Value]] = WeakKeyDictionary()
        self._making = Turns()

    def __len__(self) -> int:
        """How many owners are alive."""
        return len(self._values)

    def get(self, owner: Owner, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the value of an owner and a key, made if there is none yet; what another thread makes just now is waited for."""
        values = self._values.setdefault(owner, {})
        if key not in values:
            with self._making.alone((id(owner), key)):
                if key not in values:
                    values[key] = make()
        return values[key]

    def find(self, owner: Owner, key: Hashable) -> Value | None:
        """Return the value of an owner and a key, or None."""
        return self._values.get(owner, {}).get(key)
