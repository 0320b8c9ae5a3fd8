"""What an argument of a public call may be: checked at the call's first line, refused by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real

from .errors import PathexpError


@dataclass(frozen=True)
class Kind:
    """What an argument may be: in words, and as a test."""

    says: str
    holds: Callable[[object], bool]

    @property
    def or_none(self) -> Kind:
        """The same, or None."""
        return Kind(f"{self.says}, or None", lambda value: value is None or self.holds(value))


def whole(least: int | None = None) -> Kind:
    """A whole number, from a least one up; a truth value is none.

    >>> whole(1).holds(3), whole(1).holds(0), whole(1).holds(True), whole(1).says
    (True, False, False, 'a whole number from 1 up')
    """

    def holds(value: object) -> bool:
        return (
            isinstance(value, Integral)
            and not isinstance(value, bool)
            and (least is None or int(value) >= least)
        )

    return Kind("a whole number" if least is None else f"a whole number from {least} up", holds)


def index_of(rows: Sequence[object]) -> Kind:
    """The index of one of some rows, from the front or from the back.

    >>> index_of("ab").holds(-2), index_of("ab").holds(2), index_of("ab").says
    (True, False, 'a whole number from -2 to 1')
    """
    n = len(rows)
    return Kind(
        f"a whole number from {-n} to {n - 1}", lambda value: whole().holds(value) and value in range(-n, n)
    )


def instance(kind: type | tuple[type, ...], says: str) -> Kind:
    """An instance of a class."""
    return Kind(says, lambda value: isinstance(value, kind))


def one_of(*names: str) -> Kind:
    """One of some words."""
    return Kind(
        f"one of {', '.join(map(repr, names))}", lambda value: isinstance(value, str) and value in names
    )


def sequence_of(each: Kind, says: str, length: int | None = None) -> Kind:
    """A sequence (no text) whose members are all of a kind."""

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
TEXT = instance(str, "a text")
TRUTH = Kind("True or False", lambda value: isinstance(value, bool) or type(value).__name__ == "bool")
TOKEN = Kind("a token, an id or a text", lambda value: TEXT.holds(value) or whole(0).holds(value))
SEED = whole(0)
AMOUNT = whole(1)
"""How many of the largest to list."""


LOGITS = Kind("an array of numbers, (positions, tokens),", lambda value: _is_array(value, 2))


def _is_array(value: object, axes: int) -> bool:
    """Whether a value is an array of real numbers with so many axes."""
    return (
        getattr(value, "ndim", None) == axes and getattr(getattr(value, "dtype", None), "kind", "") in "fiu"
    )


def expect(call: str, **arguments: tuple[object, Kind]) -> None:
    """Raise PathexpError for the first argument that is not of its kind, by the names of call and argument.

    >>> expect("bugs", k=(3, whole(1)))
    >>> expect("bugs", k=("x", whole(1)))
    Traceback (most recent call last):
    ...
    pathexp.errors.PathexpError: bugs() takes a whole number from 1 up as k, found 'x'
    """
    for name, (value, kind) in arguments.items():
        if not kind.holds(value):
            raise PathexpError(f"{call}() takes {kind.says} as {name}, found {value!r:.60}")
