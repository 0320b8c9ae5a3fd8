"""Text to token ids by merging neighbors, the best-scored merge first, as SentencePiece does for Llama."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, SupportsIndex

from ...errors import LoadError, TokenError
from .scored_merges import merged

_KIND = "scored-merges"
_WHITE = " \t\n\v\f\r"


@dataclass(frozen=True, repr=False)
class ScoredTokenizer:
    """Pieces with scores; a character that is no piece is spelled in bytes, pieces named <0x00> to <0xFF>.

    ``encode`` puts ``begin`` in front and ``end`` behind, and, with ``space``, a space before the text and after each
    special token; ``decode`` takes them away again. ``special`` tokens are cut out of a text before the rest is merged, the
    longest first; white space after those of ``stripping`` is dropped. ``mark`` is what stands for a space in pieces.
    Kudo and Richardson 2018, "SentencePiece", as in Llama's models.

    Raises TokenError if there is not one finite score for each piece, or ``begin``, ``end`` or ``special`` are no tokens.

    >>> ScoredTokenizer(("<s>", " ", "a", "b", "ab", " ab"), (0, 0, 0, 0, 2, 1), begin=0).encode("ab")
    [0, 5]
    """

    pieces: tuple[str, ...]
    scores: tuple[float, ...]
    begin: int | None = None
    space: bool = True
    end: int | None = None
    special: tuple[int, ...] = ()
    stripping: tuple[int, ...] = ()
    mark: str = " "

    def __post_init__(self) -> None:
        object.__setattr__(self, "pieces", tuple(self.pieces))
        object.__setattr__(self, "scores", tuple(self.scores))
        if not self.pieces or len(self.pieces) != len(self.scores):
            raise TokenError(f"{len(self.pieces)} pieces need as many scores, found {len(self.scores)}.")
        if not all(isinstance(score, int | float) and math.isfinite(score) for score in self.scores):
            raise TokenError("Scores must be finite numbers.")
        for name in ("special", "stripping"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for what, token in self._named():
            if type(token) is not int or not 0 <= token < len(self.pieces):
                raise TokenError(
                    f"The {what} token must be an id below {len(self.pieces)}, found {token!r:.60}."
                )

    def _named(self) -> Iterator[tuple[str, int]]:
        yield from (
            (what, token) for what, token in (("begin", self.begin), ("end", self.end)) if token is not None
        )
        yield from (("special", token) for token in (*self.special, *self.stripping))

    def __len__(self) -> int:
        return len(self.pieces)

    def __repr__(self) -> str:
        return f"ScoredTokenizer({len(self)} pieces)"

    def encode(self, text: str) -> list[int]:
        """The ids of a text, with what belongs around it. Time n log n in its length.

        Raises TokenError at a character that is neither a piece nor to be spelled in bytes.
        """
        if not isinstance(text, str):
            raise TokenError(f"encode takes text (str), found {type(text).__name__} {text!r:.60}.")
        found = [] if self.begin is None else [self.begin]
        place, fresh = 0, True
        for part in self._parts(text):
            if isinstance(part, int):
                found.append(part)
                place, fresh = place + len(self.pieces[part]), True
            else:
                found += self._merged(part, self.space and fresh, place)
                place, fresh = place + len(part), False
        return found if self.end is None else [*found, self.end]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids, without what ``encode`` puts around it, and without the spaces that it puts in.

        Raises TokenError for an id outside the vocabulary.
        """
        found = [self._checked(token, place) for place, token in enumerate(ids)]
        if found and found[0] == self.begin:
            found = found[1:]
        if found and found[-1] == self.end:
            found = found[:-1]
        return "".join(self._texts(found))

    def _texts(self, ids: list[int]) -> Iterator[str]:
        """Texts between special tokens, each without the space that was put before it, and these tokens."""
        run: list[int] = []
        for token in (*ids, None):
            if token is not None and token not in self._special:
                run.append(token)
                continue
            text = b"".join(self._bytes(one) for one in run).decode("utf-8", "backslashreplace")
            yield text.removeprefix(" ") if self.space else text
            if token is not None:
                yield self.pieces[token]
            run = []

    def strings(self, ids: Iterable[int]) -> tuple[str, ...]:
        r"""What each token looks like; bytes that are no text of their own are shown as \xe2.

        Raises TokenError for an id outside the vocabulary.
        """
        return tuple(
            self._bytes(self._checked(token, place)).decode("utf-8", "backslashreplace")
            for place, token in enumerate(ids)
        )

    def token_id(self, symbol: str) -> int:
        """The id of a text that is one token: the piece itself, or what it encodes to with its space.

        Raises TokenError if it is several tokens, and lists them.
        """
        if symbol in self._ids and self._ids[symbol] in self._special:
            return self._ids[symbol]
        marked = symbol.replace(" ", self.mark)
        if marked in self._ids:
            return self._ids[marked]
        ids = self._merged(symbol, False, 0) if symbol else []
        if len(ids) == 1:
            return ids[0]
        pieces = " + ".join(map(repr, self.strings(ids))) or "no token at all"
        raise TokenError(f"{symbol!r} is not one token: it is {pieces}. Give one of these, or a token id.")

    def to_dict(self) -> dict[str, object]:
        """The tokenizer as plain values for JSON."""
        return {
            "kind": _KIND,
            "pieces": list(self.pieces),
            "scores": list(self.scores),
            "begin": self.begin,
            "space": self.space,
            "end": self.end,
            "special": list(self.special),
            "stripping": list(self.stripping),
            "mark": self.mark,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ScoredTokenizer:
        """The tokenizer that ``to_dict`` wrote. Raises LoadError or TokenError if it is none."""
        pieces, scores, mark = data.get("pieces"), data.get("scores"), data.get("mark", " ")
        if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
            raise LoadError("A tokenizer of kind 'scored-merges' needs 'pieces', a list of text.")
        lists = {name: data.get(name, []) for name in ("special", "stripping")}
        ids = [data.get(name) for name in ("begin", "end")]
        if not isinstance(scores, list) or not all(token is None or type(token) is int for token in ids):
            raise LoadError("A tokenizer of kind 'scored-merges' needs 'scores', and 'begin', an id or null.")
        if (
            not isinstance(mark, str)
            or len(mark) != 1
            or not all(isinstance(each, list) for each in lists.values())
        ):
            raise LoadError(
                "A tokenizer of kind 'scored-merges' needs lists of special ids, and a mark of one character."
            )
        space = data.get("space") is not False
        special, stripping = (tuple(each) for each in lists.values())
        return cls(tuple(pieces), tuple(scores), ids[0], space, ids[1], special, stripping, mark)

    @cached_property
    def _ids(self) -> Mapping[str, int]:
        """Of equal pieces, the first."""
        return {piece: token for token, piece in reversed(list(enumerate(self.pieces)))}

    @cached_property
    def _special(self) -> frozenset[int]:
        return frozenset(self.special)

    @cached_property
    def _longest_first(self) -> tuple[int, ...]:
        named = (token for token in self.special if self.pieces[token])
        return tuple(
            sorted(named, key=lambda token: -len(self.pieces[token].encode("utf-8", "surrogatepass")))
        )

    def _parts(self, text: str) -> list[int | str]:
        """The text, special tokens cut out."""
        parts: list[int | str] = [text] if text else []
        for token in self._longest_first:
            if self.pieces[token] in text:
                parts = [part for whole in parts for part in self._cut(whole, token)]
        return parts

    def _cut(self, whole: int | str, token: int) -> Iterator[int | str]:
        if isinstance(whole, int):
            yield whole
            return
        piece, rest = self.pieces[token], whole
        while piece in rest:
            before, _, rest = rest.partition(piece)
            yield from [before] * bool(before)
            yield token
            rest = rest.lstrip(_WHITE) if token in self.stripping else rest
        yield from [rest] * bool(rest)

    def _merged(self, text: str, space: bool, begin: int) -> list[int]:
        """The ids of a text without special tokens, which stands at a place of the whole one."""
        characters = [*(" " if space else ""), *text]
        symbols = merged([self.mark if each == " " else each for each in characters], self._score)
        found: list[int] = []
        place = begin - space
        for symbol in symbols:
            found += self._spelled(symbol, place)
            place += len(symbol)
        return found

    def _score(self, piece: str) -> float | None:
        token = self._ids.get(piece)
        return None if token is None else self.scores[token]

    def _spelled(self, symbol: str, place: int) -> list[int]:
        if symbol in self._ids:
            return [self._ids[symbol]]
        spelled = [self._ids.get(f"<0x{byte:02X}>") for byte in symbol.encode("utf-8", "surrogatepass")]
        if None in spelled:
            raise TokenError(
                f"Character {symbol!r} (U+{ord(symbol[0]):04X}) at position {place} is not in this "
                f"vocabulary of {len(self)} pieces, and there are no bytes to spell it. Replace or remove it."
            )
        return [token for token in spelled if token is not None]

    def _bytes(self, token: int) -> bytes:
        piece = self.pieces[token]
        if len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
            return bytes([int(piece[3:5], 16)])
        if token not in self._special:
            piece = piece.replace(self.mark, " ")
        return piece.encode("utf-8", "surrogatepass")

    def _checked(self, token: int, place: int) -> int:
        if isinstance(token, SupportsIndex) and 0 <= token.__index__() < len(self):
            return token.__index__()
        raise TokenError(
            f"Token id {token!r} at position {place} is not in the vocabulary: "
            f"ids are integers from 0 to {len(self) - 1}."
        )
