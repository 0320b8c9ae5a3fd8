"""What an argument may be: checked where it comes in, refused in one wording everywhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, dataclass, fields
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any

from .errors import ConfigError, PathexpError


@dataclass(frozen=True)
class Kind:
    """What a value may be: in words, as a test, and what to do if it is something else."""

    says: str
    holds: Callable[[object], bool]
    advice: str = ""

    @property
    def or_none(self) -> Kind:
        """The same, or None."""
        return Kind(
            f"{self.says}, or None", lambda value: value is None or self.holds(value), advice=self.advice
        )


def check(name: str, value: Any, kind: Kind, error: type[PathexpError] = PathexpError) -> Any:
    """Return a value that is of its kind; raise the error, by the value's name, for any other.

    >>> check("k", 3, whole(1))
    3
    >>> check("k", -1, whole(1))
    Traceback (most recent call last):
    ...
    pathexp.errors.PathexpError: k: expected an integer ≥ 1, got -1
    """
    if not kind.holds(value):
        advice = f"; {kind.advice}" if kind.advice else ""
        raise error(f"{name}: expected {kind.says}, got {shown(value)}{advice}")
    return value


def expect(call: str, **arguments: tuple[object, Kind]) -> None:
    """Raise PathexpError for the first argument that is not of its kind, by the names of call and argument.

    >>> expect("bugs", k=(3, whole(1)))
    >>> expect("bugs", k=("x", whole(1)))
    Traceback (most recent call last):
    ...
    pathexp.errors.PathexpError: bugs(), k: expected an integer ≥ 1, got 'x'
    """
    for name, (value, kind) in arguments.items():
        check(f"{call}(), {name}", value, kind)


def shown(value: object) -> str:
    """Return a value on one line of at most 60 characters.

    >>> shown([1, 2]), len(shown([1] * 100))
    ('[1, 2]', 60)
    """
    line = " ".join(repr(value).split())
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"


_WIDTH = 60


def whole(least: int | None = None) -> Kind:
    """An integer, from a least one up; True and False are none.

    >>> whole(1).holds(3), whole(1).holds(0), whole(1).holds(True), whole(1).says
    (True, False, False, 'an integer ≥ 1')
    """

    def holds(value: object) -> bool:
        return (
            isinstance(value, Integral)
            and not isinstance(value, bool)
            and (least is None or int(value) >= least)
        )

    return Kind("an integer" if least is None else f"an integer ≥ {least}", holds)


def index_of(rows: Sequence[object]) -> Kind:
    """The index of one of some rows, from the front or from the back.

    >>> index_of("ab").holds(-2), index_of("ab").holds(2), index_of("ab").says
    (True, False, 'an integer from -2 to 1')
    """
    n = len(rows)
    return Kind(
        f"an integer from {-n} to {n - 1}", lambda value: whole().holds(value) and value in range(-n, n)
    )


def finite(above: float | None = None, least: float | None = None) -> Kind:
    """A finite number, above a bound or from a least one up.

    >>> finite(above=0).says, finite(above=0).holds(0.0), finite(least=0).holds(0.0)
    ('a finite number > 0', False, True)
    """

    def holds(value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
            return False
        return (above is None or float(value) > above) and (least is None or float(value) >= least)

    bound = f" > {above:g}" if above is not None else f" ≥ {least:g}" if least is not None else ""
    return Kind(f"a finite number{bound}", holds)


def instance(kind: type | tuple[type, ...], says: str, advice: str = "") -> Kind:
    """An instance of a class."""
    return Kind(says, lambda value: isinstance(value, kind), advice)


def one_of(*words: str | None) -> Kind:
    """One of some words, or None where that is among them."""

    def holds(value: object) -> bool:
        return (value is None or isinstance(value, str)) and value in words

    return Kind(f"one of {', '.join(map(repr, words))}", holds)


def sequence_of(each: Kind, says: str, length: int | None = None) -> Kind:
    """A sequence (no string) whose members are all of a kind."""

    def holds(value: object) -> bool:
        if isinstance(value, str | bytes) or not (isinstance(value, Sequence) or hasattr(value, "__array__")):
            return False
        try:
            members = list(value)  # type: ignore[call-overload]
        except TypeError:
            return False
        return all(map(each.holds, members)) and length in (None, len(members))

    return Kind(says, holds)


NUMBER = Kind(
    "a number", lambda value: isinstance(value, Real) and not isinstance(value, bool) and value == value
)
SHARE = Kind(
    "a number from 0 to 1",
    lambda value: finite(least=0).holds(value) and isinstance(value, Real) and float(value) <= 1,
)
TEXT = instance(str, "a string")
TRUTH = Kind("True or False", lambda value: isinstance(value, bool) or type(value).__name__ == "bool")
SWITCH = instance(bool, "True or False")
"""True or False of Python's own, as files can hold it."""
TOKEN = Kind("a token, an id or a string", lambda value: TEXT.holds(value) or whole(0).holds(value))
SEED = whole(0)
AMOUNT = whole(1)
"""How many of the largest to list."""


LOGITS = Kind("an array of numbers, (positions, tokens)", lambda value: _is_array(value, 2))


def _is_array(value: object, axes: int) -> bool:
    """Whether a value is an array of real numbers with so many axes."""
    return (
        getattr(value, "ndim", None) == axes and getattr(getattr(value, "dtype", None), "kind", "") in "fiu"
    )


def refuse_masked(what: str, value: object, error: type[PathexpError] = PathexpError) -> None:
    """Raise the error for a masked array: what its mask hides would be read as numbers.

    >>> refuse_masked("W_E", [1.0])
    """
    if hasattr(value, "mask") and hasattr(value, "filled"):
        raise error(
            f"{what}: expected plain numbers, got a masked array, whose hidden numbers would count; give "
            "array.filled(…), or leave out what is hidden"
        )


def check_names(what: str, given: Iterable[str], known: Iterable[str], required: Iterable[str]) -> None:
    """Raise ConfigError unless all names are known and none is missing, with the nearest known name.

    >>> check_names("Config", ["d_modle"], ["d_model", "d_head"], [])
    Traceback (most recent call last):
    ...
    pathexp.errors.ConfigError: Config has no 'd_modle'. Did you mean 'd_model'? Known: d_model, d_head.
    """
    words, there = tuple(known), tuple(given)
    for name in there:
        if name not in words:
            raise ConfigError(f"{what} has no {name!r}.{_nearest(name, words)} Known: {', '.join(words)}.")
    missing = [name for name in required if name not in there]
    if missing:
        raise ConfigError(f"{what} needs {', '.join(required)}; missing: {', '.join(missing)}.")


def check_fields(what: str, given: Iterable[str], made: type) -> None:
    """Raise ConfigError unless all names are fields of a dataclass and none without a default is missing.

    >>> check_fields("kind", ["hold"], Kind)
    Traceback (most recent call last):
    ...
    pathexp.errors.ConfigError: kind has no 'hold'. Did you mean 'holds'? Known: says, holds, advice.
    """
    known = fields(made)
    required = [field.name for field in known if field.default is MISSING]
    check_names(what, given, (field.name for field in known), required)


def _nearest(name: str, words: tuple[str, ...]) -> str:
    near = get_close_matches(name, words, n=1)
    return f" Did you mean {near[0]!r}?" if near else ""
