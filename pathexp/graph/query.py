"""The path language: a query is a set of paths, written like a regular expression over node labels.

A word is the labels of a path, from its source to its sink; a query accepts a word as a whole or not at all.
Text is parsed once into an immutable value; values print as text that parses back to an equal value.

    union         =  intersection ("|" intersection)*
    intersection  =  sequence ("&" sequence)*
    sequence      =  item+
    item          =  atom ["*" | "+" | "?"]  |  "~" "(" union ")"
    atom          =  label  |  "."  |  "(" union ")"  |  "(" ")"
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar, Literal, NamedTuple, NoReturn, cast, get_args

from ..errors import QueryError

MAX_DEPTH = 64
"""How deeply the parts of a query may be nested."""

ANY = "."
"""The atom that stands for any component."""

Sign = Literal["*", "+", "?"]
SIGNS: tuple[str, ...] = get_args(Sign)


@dataclass(frozen=True)
class Query(ABC):
    """A set of words over node labels; `&`, `|` and `~` are the set operations, `==` compares the text.

    >>> through = query("E .* L1H1 U")
    >>> print(~through & "E .* L0H0 .* U")
    ~(E .* L1H1 U) & E .* L0H0 .* U
    """

    binding: ClassVar[int]

    def __post_init__(self) -> None:
        if self.depth > MAX_DEPTH:
            raise QueryError(
                f"a query nests {self.depth} deep, and the limit is {MAX_DEPTH}; combine fewer queries"
            )

    @property
    @abstractmethod
    def children(self) -> tuple[Query, ...]:
        """The queries this one is made of."""

    @cached_property
    def depth(self) -> int:
        """How deeply the parts are nested; 1 for an atom."""
        return 1 + max((child.depth for child in self.children), default=0)

    def names(self) -> Iterator[str]:
        """Iterate over the labels and class names in the order of the text, `.` left out."""
        for child in self.children:
            yield from child.names()

    def __and__(self, other: Query | str) -> Query:
        return intersection((self, query(other)))

    def __or__(self, other: Query | str) -> Query:
        return union((self, query(other)))

    def __invert__(self) -> Query:
        return self.child if isinstance(self, Complement) else Complement(self)

    def __repr__(self) -> str:
        return f"query({str(self)!r})"

    def bound(self, binding: int) -> str:
        """Return the text, in parentheses if it binds less tightly than asked."""
        return str(self) if self.binding >= binding else f"({self})"


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

    binding = 4

    @property
    def children(self) -> tuple[Query, ...]:
        return ()

    def __str__(self) -> str:
        return "()"


@dataclass(frozen=True, repr=False)
class Repeat(Query):
    """A query repeated: `*` any number of times, `+` at least once, `?` at most once."""

    binding = 3
    child: Query
    sign: Sign

    @property
    def children(self) -> tuple[Query, ...]:
        return (self.child,)

    def __str__(self) -> str:
        return self.child.bound(4) + self.sign


@dataclass(frozen=True, repr=False)
class Complement(Query):
    """All words that a query does not accept."""

    binding = 3
    child: Query

    @property
    def children(self) -> tuple[Query, ...]:
        return (self.child,)

    def __str__(self) -> str:
        return f"~({self.child})"


@dataclass(frozen=True, repr=False)
class Sequence(Query):
    """One query after the other."""

    binding = 2
    parts: tuple[Query, ...]

    @property
    def children(self) -> tuple[Query, ...]:
        return self.parts

    def __str__(self) -> str:
        return " ".join(part.bound(3) for part in self.parts)


@dataclass(frozen=True, repr=False)
class Intersection(Query):
    """Words that all of the queries accept."""

    binding = 1
    parts: tuple[Query, ...]

    @property
    def children(self) -> tuple[Query, ...]:
        return self.parts

    def __str__(self) -> str:
        return " & ".join(part.bound(2) for part in self.parts)


@dataclass(frozen=True, repr=False)
class Union(Query):
    """Words that at least one of the queries accepts."""

    binding = 0
    parts: tuple[Query, ...]

    @property
    def children(self) -> tuple[Query, ...]:
        return self.parts

    def __str__(self) -> str:
        return " | ".join(part.bound(1) for part in self.parts)


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


# Text --------------------------------------------------------------------------------------------------


def query(text: str | Query) -> Query:
    """Read a path query; a Query is returned as it is.

    Raises QueryError, with a caret under the place, if the text cannot be read. Whether the labels exist is
    seen when the query meets a graph.

    >>> query("E .* L1H1 U")
    query('E .* L1H1 U')
    >>> query("E(L0H0|L0H1)?U") == query("E (L0H0 | L0H1)? U")
    True
    """
    if isinstance(text, Query):
        return text
    if not isinstance(text, str):
        raise QueryError(
            f"a query is text such as 'E .* L1H1 U' or a Query, not {type(text).__name__} {text!r}"
        )
    return _parse(text)


@lru_cache(maxsize=1024)
def _parse(text: str) -> Query:
    return Parser(text).whole()


class Token(NamedTuple):
    """A label, or a sign of the language, and where it stands in the text; the end is the empty text."""

    text: str
    place: int


_TOKEN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[.|&~*+?()]")
_OPERAND = "a label, '.', '~(' or '('"
_ADVICE = {
    "{": "Counted repetition is not part of the language: write the part as often as you want it.",
    "[": "Sets of labels are written as alternatives, (L0H0 | L0H1).",
    "^": "A query always matches whole paths, so it needs no anchor.",
    "$": "A query always matches whole paths, so it needs no anchor.",
    "!": "A complement is written ~(...).",
    "-": "A sequence is written with spaces, E L0H1 U.",
    ">": "A sequence is written with spaces, E L0H1 U.",
    "→": "A sequence is written with spaces, E L0H1 U.",
    ",": "A sequence is written with spaces, E L0H1 U, alternatives with |.",
}


def _tokens(text: str) -> Iterator[Token]:
    place = 0
    while place < len(text):
        if text[place].isspace():
            place += 1
        elif found := _TOKEN.match(text, place):
            yield Token(found[0], place)
            place = found.end()
        else:
            advice = _ADVICE.get(text[place], "Labels are letters, digits and _, and start with no digit.")
            raise QueryError(_pointed(text, place, f"{text[place]!r} is not part of the language", advice))
    yield Token("", len(text))


class Parser:
    """Reads one text, left to right, by recursive descent."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tuple(_tokens(text))
        self.index = 0
        self.nesting = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.index]

    def take(self) -> Token:
        token = self.token
        self.index += 1
        return token

    def fail(self, place: int, problem: str, advice: str) -> NoReturn:
        raise QueryError(_pointed(self.text, place, problem, advice))

    def whole(self) -> Query:
        if not self.token.text:
            self.fail(0, "the query is empty", "All paths are E .* U, or: () | ~().")
        found = self.union()
        if self.token.text:  # only ")" ends a union before the end
            self.fail(self.token.place, "this ) closes nothing", "Remove it, or open it with ( before.")
        return found

    def union(self) -> Query:
        return union(self.separated("|", self.intersection))

    def intersection(self) -> Query:
        return intersection(self.separated("&", self.sequence))

    def separated(self, sign: str, part: Callable[[], Query]) -> Iterator[Query]:
        yield part()
        while self.token.text == sign:
            self.take()
            yield part()

    def sequence(self) -> Query:
        parts = [self.item()]
        while self.token.text not in ("", ")", "|", "&"):
            parts.append(self.item())
        return sequence(parts)

    def item(self) -> Query:
        if self.token.text == "~":
            return self.complement()
        found = self.atom()
        if self.token.text not in SIGNS:
            return found
        sign = cast(Sign, self.take().text)
        self.no_sign(f"something repeated by {sign} is repeated again", "Use one of * + ?, or parentheses.")
        return Repeat(found, sign)

    def complement(self) -> Query:
        self.take()
        if self.token.text != "(":
            self.fail(self.token.place, "expected ( after ~", "Say how far it reaches, such as ~(L0H1).")
        found = ~self.group()
        self.no_sign("it is not clear what is repeated", "Write (~(...))* or ~((...)*).")
        return found

    def no_sign(self, problem: str, advice: str) -> None:
        if self.token.text in SIGNS:
            self.fail(self.token.place, problem, advice)

    def atom(self) -> Query:
        if self.token.text == "(":
            return self.group()
        token = self.take()
        if token.text in SIGNS:
            self.fail(token.place, f"nothing stands before {token.text} to repeat", f"Put {_OPERAND} before.")
        if token.text in ("", ")", "|", "&"):
            found = f"found {token.text}" if token.text else "found the end"
            self.fail(token.place, f"expected {_OPERAND}, {found}", "The empty word is written ().")
        return Atom(token.text)

    def group(self) -> Query:
        opening = self.take()
        self.nesting += 1
        if self.nesting > MAX_DEPTH:
            self.fail(opening.place, f"parentheses nest more than {MAX_DEPTH} deep", "Use fewer.")
        found = Empty() if self.token.text == ")" else self.union()
        if self.token.text != ")":
            self.fail(opening.place, "this ( is never closed", "Close it with ).")
        self.take()
        self.nesting -= 1
        return found


def _pointed(text: str, place: int, problem: str, advice: str) -> str:
    return f"cannot read the query: {problem}\n{pointer(text, place)}\n{advice}"


_WINDOW = 60


def pointer(text: str, place: int) -> str:
    """Return two lines: the text around a place, and a caret under the place."""
    first, last = max(0, place - _WINDOW), place + _WINDOW
    before = ("… " if first else "") + text[first:place]
    after = text[place:last] + (" …" if last < len(text) else "")
    line = "".join(" " if c.isspace() else c for c in before + after)
    return f"    {line}\n    {' ' * len(before)}^"
