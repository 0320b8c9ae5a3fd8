"""One check a kind of value: what is asked for, and what was found, by name."""

from __future__ import annotations

import math
from collections.abc import Iterable
from difflib import get_close_matches
from numbers import Integral, Real

from ..errors import ConfigError


def size(name: str, value: object, least: int) -> int:
    """A plain integer of at least ``least``; raises ConfigError for anything else."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ConfigError(f"{name} must be an integer of at least {least}, found {value!r}.")
    return int(value)


def number(name: str, value: object, above: float | None = None, least: float | None = None) -> float:
    """A plain finite number above, or of at least, a bound; raises ConfigError for anything else."""
    bound = f" above {above}" if above is not None else f" of at least {least}" if least is not None else ""
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ConfigError(f"{name} must be a finite number{bound}, found {value!r}.")
    if (above is not None and value <= above) or (least is not None and value < least):
        raise ConfigError(f"{name} must be a finite number{bound}, found {value!r}.")
    return float(value)


def choice(name: str, value: object, known: Iterable[str | None]) -> None:
    """One of the known words; raises ConfigError, listing them, for anything else."""
    words = tuple(known)
    if not (value is None or isinstance(value, str)) or value not in words:
        raise ConfigError(f"{name}={value!r} is not known; known: {', '.join(map(repr, words))}.")


def switch(name: str, value: object) -> None:
    """True or False; raises ConfigError for anything else."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} must be True or False, found {value!r}.")


def names(what: str, given: Iterable[str], known: Iterable[str], required: Iterable[str]) -> None:
    """All names known and none missing; raises ConfigError that says which, with the nearest known one."""
    words, there = tuple(known), tuple(given)
    for name in there:
        if name not in words:
            raise ConfigError(f"{what} has no {name!r}.{_nearest(name, words)} Known: {', '.join(words)}.")
    missing = [name for name in required if name not in there]
    if missing:
        raise ConfigError(f"{what} needs {', '.join(required)}; missing: {', '.join(missing)}.")


def _nearest(name: str, words: tuple[str, ...]) -> str:
    near = get_close_matches(name, words, n=1)
    return f" Did you mean {near[0]!r}?" if near else ""
