"""Text to token ids and back, for models whose vocabulary is a list of readable pieces."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import SupportsIndex

from ..arguments import TEXT, check
from ..errors import LoadError, LoadWarning, TokenError

REFUSE, SKIP = "refuse", "skip"
_KIND = "longest-match"
_CONTEXT = 12  # characters shown on either side of one that is not known


@dataclass(frozen=True)
class Tokenizer:
    """A vocabulary of pieces and one rule: at each place, take the longest piece that fits.

    A token id is the place of its piece in ``symbols``. Decoding joins the pieces, so text that
    encodes comes back exactly. (The reverse need not hold: ids that no text encodes to may come
    back as other ids.)

    ``unknown``: what is done where no piece fits: "refuse", "skip" the character, or put another text in its place; the
    latter two with a LoadWarning that counts them.

    Raises TokenError if ``symbols`` is empty, or has an empty piece, one that is no text, or one twice, and for a
    replacement that is not encodable itself.

    >>> pieces = Tokenizer(("t", "h", "e", " ", "the", " the"))
    >>> pieces.encode("the the")
    [4, 5]
    >>> pieces.decode([4, 5])
    'the the'
    """

    symbols: tuple[str, ...]
    unknown: str = REFUSE

    def __post_init__(self) -> None:
        object.__setattr__(self, "symbols", tuple(self.symbols))
        _check(self.symbols)
        check("unknown", self.unknown, TEXT, TokenError)
        if self.unknown not in (REFUSE, SKIP):
            self._ids_of(self.unknown)

    def __len__(self) -> int:
        return len(self.symbols)

    def __repr__(self) -> str:
        return f"Tokenizer({len(self)} symbols)"

    def encode(self, text: str) -> list[int]:
        """The ids of ``text``, by longest match; an empty text has none.

        Raises TokenError at a place where no piece fits, if ``unknown`` is "refuse". Time grows with the length of the
        text times the number of piece lengths.

        >>> Tokenizer(("a", "b", "ab")).encode("abba")
        [2, 1, 0]
        """
        if not isinstance(text, str):
            raise TokenError(f"encode takes text (str), found {type(text).__name__} {text!r}.")
        if self.unknown == REFUSE:
            return self._ids_of(text)
        kept, left = self.known(text, self.unknown)
        if left:
            done = "left out" if self.unknown == SKIP else f"replaced by {self.unknown!r}"
            said = f"{left} character{'s' * (left > 1)} of {text!r:.60} {done}: this vocabulary of {len(self)} symbols does not have"
            warnings.warn(f"{said} {'them' if left > 1 else 'it'}.", LoadWarning, stacklevel=3)
        return self._ids_of(kept)

    def _ids_of(self, text: str) -> list[int]:
        """The ids of a text, every character of which must be known."""
        found: list[int] = []
        start = 0
        while start < len(text):
            stop = self._stop(text, start)
            found.append(self._ids[text[start:stop]])
            start = stop
        return found

    def known(self, text: str, unknown: str = "skip") -> tuple[str, int]:
        """The text without the characters that no piece fits, and how many they were.

        ``unknown``: "skip" leaves them out; any other text is put in the place of each, and must be encodable. Raises
        TokenError for a replacement that is not.

        >>> Tokenizer(("a", "b", " ")).known("a#b##", "skip"), Tokenizer(("a", "b", " ")).known("a#b", " ")
        (('ab', 3), ('a b', 1))
        """
        put = "" if unknown == SKIP else unknown
        self._ids_of(put)
        pieces: list[str] = []
        start = left = 0
        while start < len(text):
            stop = self._fits(text, start)
            pieces.append(put if stop is None else text[start:stop])
            left += stop is None
            start = start + 1 if stop is None else stop
        return "".join(pieces), left

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ``ids``: their pieces, joined.

        Raises TokenError for an id outside the vocabulary.

        >>> Tokenizer(("a", "b", "ab")).decode([2, 1, 0])
        'abba'
        """
        return "".join(self.strings(ids))

    def strings(self, ids: Iterable[int]) -> tuple[str, ...]:
        """The piece of each id.

        Raises TokenError for an id outside the vocabulary.

        >>> Tokenizer(("a", "b", "ab")).strings([2, 0])
        ('ab', 'a')
        """
        return tuple(self._string(token, place) for place, token in enumerate(ids))

    def token_id(self, symbol: str) -> int:
        """The id of a text that is exactly one token.

        Raises TokenError if the text is empty or splits into several tokens, and lists them.

        >>> Tokenizer(("a", "b", "ab")).token_id("ab")
        2
        """
        if not isinstance(symbol, str):
            raise TokenError(f"a token is given as text (str), found {type(symbol).__name__} {symbol!r:.60}.")
        ids = self._ids_of(symbol)
        if len(ids) == 1:
            return ids[0]
        pieces = " + ".join(map(repr, self.strings(ids))) or "no token at all"
        raise TokenError(f"{symbol!r} is not one token: it is {pieces}. {self._advice(symbol)}")

    def to_dict(self) -> dict[str, object]:
        """The tokenizer as plain values for JSON.

        >>> Tokenizer(("a", "b")).to_dict()
        {'kind': 'longest-match', 'symbols': ['a', 'b']}
        """
        return {"kind": _KIND, "symbols": list(self.symbols)}

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Tokenizer:
        """The tokenizer that ``to_dict`` wrote.

        Raises LoadError if the kind is not known or the symbols are no list, TokenError if they
        are no vocabulary.

        >>> Tokenizer.from_dict({"kind": "longest-match", "symbols": ["a", "b"]})
        Tokenizer(2 symbols)
        """
        kind, symbols = data.get("kind"), data.get("symbols")
        if kind != _KIND:
            raise LoadError(f"Tokenizer kind {kind!r} is not known; known: {_KIND!r}.")
        if not isinstance(symbols, list):
            raise LoadError(
                f"A tokenizer's 'symbols' must be a list of text, found {type(symbols).__name__}."
            )
        return cls(tuple(symbols))

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {symbol: token for token, symbol in enumerate(self.symbols)}

    @cached_property
    def _lengths(self) -> dict[str, tuple[int, ...]]:
        """For each first character, the lengths of the pieces that begin with it, longest first."""
        lengths: dict[str, set[int]] = {}
        for symbol in self.symbols:
            lengths.setdefault(symbol[0], set()).add(len(symbol))
        return {first: tuple(sorted(found, reverse=True)) for first, found in lengths.items()}

    def _stop(self, text: str, start: int) -> int:
        """Where the longest piece that begins at ``start`` ends."""
        stop = self._fits(text, start)
        if stop is None:
            raise TokenError(self._unknown(text, start))
        return stop

    def _fits(self, text: str, start: int) -> int | None:
        for length in self._lengths.get(text[start], ()):
            if text[start : start + length] in self._ids:
                return min(start + length, len(text))
        return None

    def _string(self, token: int, place: int) -> str:
        if isinstance(token, SupportsIndex) and 0 <= token.__index__() < len(self):
            return self.symbols[token]
        raise TokenError(
            f"Token id {token!r} at position {place} is not in the vocabulary: "
            f"ids are integers from 0 to {len(self) - 1}."
        )

    def _unknown(self, text: str, start: int) -> str:
        before, after = text[max(0, start - _CONTEXT) : start], text[start + 1 : start + 1 + _CONTEXT]
        return (
            f"Character {text[start]!r} (U+{ord(text[start]):04X}) at position {start}, "
            f"between {before!r} and {after!r}, is not in this vocabulary of {len(self)} symbols. "
            f"Replace or remove it (load(..., unknown='skip') or --unknown skip does, and counts; so does another text); the single characters known are {self._characters!r}."
        )

    @cached_property
    def _characters(self) -> str:
        return "".join(sorted(symbol for symbol in self.symbols if len(symbol) == 1))

    def _advice(self, symbol: str) -> str:
        other = symbol[1:] if symbol.startswith(" ") else " " + symbol
        if other in self._ids:
            return f"{other!r} is one token: a word inside a sentence begins with its space."
        return "Give one of these, or a token id."


def _check(symbols: tuple[str, ...]) -> None:
    if not symbols:
        raise TokenError("A tokenizer needs at least one symbol, found none.")
    seen: dict[str, int] = {}
    for token, symbol in enumerate(symbols):
        if not isinstance(symbol, str) or not symbol:
            raise TokenError(f"Symbol {token} must be a text of at least one character, found {symbol!r}.")
        if symbol in seen:
            raise TokenError(f"Symbol {symbol!r} occurs twice, as token {seen[symbol]} and {token}.")
        seen[symbol] = token
