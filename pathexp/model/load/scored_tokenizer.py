"""Text to token ids by merging neighbors, the best-scored merge first, as SentencePiece does for Llama."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Any, SupportsIndex, TypeAlias

from ...errors import LoadError, TokenError

_KIND = "scored-merges"
_GONE = -1
"""In place of a token that was merged into the one before it."""

_Merge: TypeAlias = tuple[float, int, int, tuple[int, int], int]
"""Minus the score, the place of the left one, the piece, the two that it is made of, the place of the right one."""


@dataclass(frozen=True, repr=False)
class ScoredTokenizer:
    """Pieces with scores; a character that is no piece is spelled in bytes, pieces named <0x00> to <0xFF>.

    ``encode`` puts ``begin`` in front and, with ``space``, a space before the text; ``decode`` takes both
    away again.
    A space in a piece is a space. Kudo and Richardson 2018, "SentencePiece", as in Llama's models.

    Raises TokenError if there is not one finite score for each piece, or ``begin`` is no token.

    >>> ScoredTokenizer(("<s>", " ", "a", "b", "ab", " ab"), (0, 0, 0, 0, 2, 1), begin=0).encode("ab")
    [0, 5]
    """

    pieces: tuple[str, ...]
    scores: tuple[float, ...]
    begin: int | None = None
    space: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "pieces", tuple(self.pieces))
        object.__setattr__(self, "scores", tuple(self.scores))
        if not self.pieces or len(self.pieces) != len(self.scores):
            raise TokenError(f"{len(self.pieces)} pieces need as many scores, found {len(self.scores)}.")
        if not all(isinstance(score, int | float) and math.isfinite(score) for score in self.scores):
            raise TokenError("Scores must be finite numbers.")
        if self.begin is not None and not 0 <= self.begin < len(self.pieces):
            raise TokenError(f"The begin token must be an id below {len(self.pieces)}, found {self.begin}.")

    def __len__(self) -> int:
        return len(self.pieces)

    def __repr__(self) -> str:
        return f"ScoredTokenizer({len(self)} pieces)"

    def encode(self, text: str) -> list[int]:
        """The ids of a text, after the begin token if there is one. Time n log n in its length.

        Raises TokenError at a character that is neither a piece nor to be spelled in bytes.
        """
        if not isinstance(text, str):
            raise TokenError(f"encode takes text (str), found {type(text).__name__} {text!r:.60}.")
        start = [] if self.begin is None else [self.begin]
        return start + (self._merged(" " * self.space + text) if text else [])

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids, without begin token and the space before it.

        Raises TokenError for an id outside the vocabulary.
        """
        found = [self._checked(token, place) for place, token in enumerate(ids)]
        if found and found[0] == self.begin:
            found = found[1:]
        text = b"".join(self._bytes(token) for token in found).decode("utf-8", "backslashreplace")
        return text.removeprefix(" ") if self.space else text

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
        if symbol in self._ids:
            return self._ids[symbol]
        ids = self._merged(symbol) if symbol else []
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
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ScoredTokenizer:
        """The tokenizer that ``to_dict`` wrote. Raises LoadError or TokenError if it is none."""
        pieces, scores, begin = data.get("pieces"), data.get("scores"), data.get("begin")
        if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
            raise LoadError("A tokenizer of kind 'scored-merges' needs 'pieces', a list of text.")
        if not isinstance(scores, list) or not (begin is None or type(begin) is int):
            raise LoadError("A tokenizer of kind 'scored-merges' needs 'scores', and 'begin', an id or null.")
        return cls(tuple(pieces), tuple(scores), begin, data.get("space") is not False)

    @cached_property
    def _ids(self) -> Mapping[str, int]:
        """Of equal pieces, the first."""
        return {piece: token for token, piece in reversed(list(enumerate(self.pieces)))}

    def _merged(self, text: str) -> list[int]:
        """Merge neighbors, the highest score first and the first of equals, with a queue of possible merges."""
        ids = [token for place, character in enumerate(text) for token in self._spelled(character, place)]
        before, after = list(range(-1, len(ids) - 1)), list(range(1, len(ids) + 1))
        queue = [
            merge for left, right in pairwise(range(len(ids))) for merge in self._merge(ids, left, right)
        ]
        heapify(queue)
        while queue:
            _, left, token, pair, right = heappop(queue)
            if (ids[left], ids[right]) != pair or after[left] != right:
                continue  # one of the two has merged with another since
            ids[left], ids[right], after[left] = token, _GONE, after[right]
            if after[left] < len(ids):
                before[after[left]] = left
                for merge in self._merge(ids, left, after[left]):
                    heappush(queue, merge)
            if before[left] >= 0:
                for merge in self._merge(ids, before[left], left):
                    heappush(queue, merge)
        return [token for token in ids if token != _GONE]

    def _merge(self, ids: list[int], left: int, right: int) -> Iterator[_Merge]:
        """The merge of two neighbors, if they make a piece."""
        token = self._ids.get(self.pieces[ids[left]] + self.pieces[ids[right]])
        if token is not None:
            yield -self.scores[token], left, token, (ids[left], ids[right]), right

    def _spelled(self, character: str, place: int) -> list[int]:
        if character in self._ids:
            return [self._ids[character]]
        spelled = [self._ids.get(f"<0x{byte:02X}>") for byte in character.encode("utf-8", "surrogatepass")]
        if None in spelled:
            raise TokenError(
                f"Character {character!r} (U+{ord(character):04X}) at position {place - 1} is not in this "
                f"vocabulary of {len(self)} pieces, and there are no bytes to spell it. Replace or remove it."
            )
        return [token for token in spelled if token is not None]

    def _bytes(self, token: int) -> bytes:
        piece = self.pieces[token]
        if len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
            return bytes([int(piece[3:5], 16)])
        return piece.encode("utf-8", "surrogatepass")

    def _checked(self, token: int, place: int) -> int:
        if isinstance(token, SupportsIndex) and 0 <= token.__index__() < len(self):
            return token.__index__()
        raise TokenError(
            f"Token id {token!r} at position {place} is not in the vocabulary: "
            f"ids are integers from 0 to {len(self) - 1}."
        )
