"""What a path query is: an immutable set of words over node labels, with set operators and a printed form.

A word is the labels of a path, from its source to its sink; a query accepts a word as a whole or not at all.
The printed form parses back to an equal value; parentheses stand only where they are needed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, get_args

from ..errors import QueryError

MAX_DEPTH = 32
"""How deeply parentheses may nest in a query's text."""

ANY = "."
"""The atom that stands for any component."""

MLP_PORTS = ("value", "gate")
EXPERT_PORTS = ("mlp", "router")
WEIGHT_PORTS = ("base", "added")
PORTS = ("V", "K", "Q", *MLP_PORTS, *EXPERT_PORTS, *WEIGHT_PORTS)
"""Through which of its inputs a component is read, where a graph keeps that apart: `L0H2.V`, `L3M.gate`, `L3E5.router`; or by which part of its weights."""

POINTS = ("mid", "out", "attn_out", "mlp_out", "score", "router")
"""Points that may follow a layer or a head, as in `L5.out` and `L1H0.score`: a place where paths end or begin."""

SUFFIXES = tuple(dict.fromkeys((*PORTS, *POINTS)))
"""What may follow a label and a dot; the whole is one label."""

Sign = Literal["*", "+", "?"]
SIGNS: tuple[str, ...] = get_args(Sign)


@dataclass(frozen=True)
class Query(ABC):
    """A set of words over node labels; `&`, `|` and `~` are the set operations, `==` compares the text.

    >>> from pathexp.graph import query
    >>> through = query("E .* L1H1 U")
    >>> print(~through & query("E .* L0H0 .* U"))
    ~(E .* L1H1 U) & E .* L0H0 .* U
    """

    binding: ClassVar[int]
    """How tightly the text holds together, from 0 for a union to 4 for a label."""
    asked: ClassVar[int] = 0
    """The binding that a child's text must have to stand without parentheses."""

    def __post_init__(self) -> None:
        if self.depth > MAX_DEPTH:
            raise QueryError(
                f"parentheses would nest {self.depth} deep in this query's text, and the limit is "
                f"{MAX_DEPTH}; combine fewer queries"
            )

    @property
    @abstractmethod
    def children(self) -> tuple[Query, ...]:
        """The queries this one is made of."""

    @cached_property
    def depth(self) -> int:
        """How deeply parentheses nest in the text."""
        return max((child.depth + (child.binding < self.asked) for child in self.children), default=0)

    def names(self) -> Iterator[str]:
        """Iterate over the labels and class names in the order of the text, `.` left out."""
        for child in self.children:
            yield from child.names()

    def __and__(self, other: Query) -> Query:
        return intersection((self, other)) if isinstance(other, Query) else NotImplemented

    def __or__(self, other: Query) -> Query:
        return union((self, other)) if isinstance(other, Query) else NotImplemented

    def __invert__(self) -> Query:
        return self.child if isinstance(self, Complement) else Complement(self)

    def __repr__(self) -> str:
        return f"query({str(self)!r})"

    def texts(self) -> Iterator[str]:
        """Iterate over the children's texts, in parentheses where they bind less tightly than asked."""
        for child in self.children:
            yield str(child) if child.binding >= self.asked else f"({child})"


@dataclass(frozen=True, repr=False)
class Atom(Query):
    """One label, one class name, or `.` (any component): words of length one."""

    binding = 4
    name: str

    @property
    def children(self) -> tuple[Query, ...]:
        return ()

    def names(self) -> Iterator[str]:
        if self.name != ANY:
            yield self.name

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, repr=False)
class Empty(Query):
    """The empty word."""

    binding = 5
    depth = 1

    @property
    def children(self) -> tuple[Query, ...]:
        return ()

    def __str__(self) -> str:
        return "()"


@dataclass(frozen=True, repr=False)
class Repeat(Query):
    """A query repeated: `*` any number of times, `+` at least once, `?` at most once."""

    binding, asked = 3, 4
    child: Query
    sign: Sign

    @property
    def children(self) -> tuple[Query, ...]:
        return (self.child,)

    def __str__(self) -> str:
        return "".join(self.texts()) + self.sign


@dataclass(frozen=True, repr=False)
class Complement(Query):
    """All words that a query does not accept."""

    binding, asked = 3, 5
    child: Query

    @property
    def children(self) -> tuple[Query, ...]:
        return (self.child,)

    def __str__(self) -> str:
        return "~" + "".join(self.texts())


@dataclass(frozen=True, repr=False)
class Sequence(Query):
    """One query after the other."""

    binding, asked = 2, 3
    parts: tuple[Query, ...]

    @property
    def children(self) -> tuple[Query, ...]:
        return self.parts

    def __str__(self) -> str:
        return " ".join(self.texts())


@dataclass(frozen=True, repr=False)
class Intersection(Query):
    """Words that all of the queries accept."""

    binding, asked = 1, 2
    parts: tuple[Query, ...]

    @property
    def children(self) -> tuple[Query, ...]:
        return self.parts

    def __str__(self) -> str:
        return " & ".join(self.texts())


@dataclass(frozen=True, repr=False)
class Union(Query):
    """Words that at least one of the queries accepts."""

    binding, asked = 0, 1
    parts: tuple[Query, ...]

    @property
    def children(self) -> tuple[Query, ...]:
        return self.parts

    def __str__(self) -> str:
        return " | ".join(self.texts())


everything: Query = Union((Empty(), Complement(Empty())))
"""The query that accepts every word."""


def sequence(parts: Iterable[Query]) -> Query:
    """Return one query after the other, flat, without empty words."""
    flat = [part for part in _flat(Sequence, parts) if part != Empty()]
    return Sequence(tuple(flat)) if len(flat) > 1 else flat[0] if flat else Empty()


def intersection(parts: Iterable[Query]) -> Query:
    """Return what all queries have in common, flat, each once and without `everything`."""
    flat = list(dict.fromkeys(part for part in _flat(Intersection, parts) if part != everything))
    return Intersection(tuple(flat)) if len(flat) > 1 else flat[0] if flat else everything


def union(parts: Iterable[Query]) -> Query:
    """Return what any of the queries accepts, flat and each once."""
    flat = list(dict.fromkeys(_flat(Union, parts)))
    return Union(tuple(flat)) if len(flat) > 1 else flat[0]


def _flat(kind: type[Sequence] | type[Intersection] | type[Union], parts: Iterable[Query]) -> Iterator[Query]:
    for part in parts:
        if isinstance(part, kind):
            yield from part.parts
        else:
            yield part
