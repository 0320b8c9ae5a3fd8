"""Frozen values stay read-only when they are copied: numpy gives copies and pickles arrays that can be written to."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np


def restore(value: object, state: Mapping[str, Any]) -> None:
    """Give a value the attributes that a copy or a pickle holds, arrays and arrays in mappings read-only.

    >>> class Value: pass
    >>> made = Value()
    >>> restore(made, {"array": np.ones(2)})
    >>> made.array.flags.writeable
    False
    """
    for name, each in state.items():
        if isinstance(each, dict):
            each = MappingProxyType({key: locked(member) for key, member in each.items()})
        object.__setattr__(value, name, locked(each))


def locked(value: Any) -> Any:
    """Return a value, an array made read-only."""
    if isinstance(value, np.ndarray):
        value.setflags(write=False)
    return value
