"""Path queries as text: like regular expressions over node labels, read once into immutable values.

union         =  intersection ("|" intersection)*
intersection  =  sequence ("&" sequence)*
sequence      =  item+
item          =  atom ["*" | "+" | "?"]  |  "~" "(" union ")"
atom          =  label ["." suffix]  |  "."  |  "(" union ")"  |  "(" ")"
suffix        =  "V" | "K" | "Q" | "value" | "gate" | "mlp" | "router" | "base" | "added" | "mid" | "out" | "attn_out" | "mlp_out" | "score", with no blank around the dot
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple, NoReturn, cast

from ..errors import QueryError
from .language import (
    MAX_DEPTH,
    SIGNS,
    SUFFIXES,
    Atom,
    Empty,
    Query,
    Repeat,
    Sign,
    everything,
    intersection,
    sequence,
    union,
)

__all__ = ["Query", "everything", "pointer", "query"]


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


_TOKEN = re.compile(rf"[A-Za-z_][A-Za-z0-9_]*(?:\.(?:{'|'.join(SUFFIXES)})(?![A-Za-z0-9_]))?|[.|&~*+?()]")
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
            advice = _ADVICE.get(
                text[place], "Labels are letters, digits and _, and do not start with a digit, as in L0H3."
            )
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
