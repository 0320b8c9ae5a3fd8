"""Text to token ids and back as tokenizer.json says, through the package ``tokenizers``.

What a token looks like is read off the file itself; only splitting and joining text needs the package.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, SupportsIndex

from ...errors import LoadError, TokenError
from ...installation import install_command
from ...visible import inert

_KIND = "tokenizer.json"
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


@dataclass(frozen=True, repr=False)
class JsonTokenizer:
    """The tokenizer of a tokenizer.json; ``size`` is the model's vocabulary, which may be padded.

    ``encode`` adds what the file says belongs around a text (such as a begin token), ``decode`` leaves it out
    again. Both need the package ``tokenizers``; everything else, and running on token ids, does not.

    >>> text = '{"model": {"type": "BPE", "vocab": {"a": 0, "\\u0120a": 1}}, "decoder": {"type": "ByteLevel"}}'
    >>> JsonTokenizer(text, size=3).strings([0, 1, 2])
    ('a', ' a', '<unused 2>')
    """

    text: str
    size: int

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"JsonTokenizer({len(self._pieces)} tokens)"

    @property
    def unused(self) -> int:
        """How many of the model's ids have no token: a vocabulary that was padded."""
        return self.size - len(self._pieces)

    def encode(self, text: str) -> list[int]:
        """The ids of a text, with what belongs around it.

        Raises TokenError if the package ``tokenizers`` is not installed or cannot read the file.
        """
        if not isinstance(text, str):
            raise TokenError(f"encode takes text (str), found {type(text).__name__} {text!r:.60}.")
        ids = self._encoded(text)
        if self._unspelled:
            self._check_spelled(text, ids)
        return ids

    def _encoded(self, text: str, special: bool = True) -> list[int]:
        try:
            return list(self._coder.encode(text, add_special_tokens=special).ids)
        except TokenError:
            raise
        except Exception as error:  # the package raises Exception itself
            raise TokenError(
                f"{text!r:.60} has characters that are not in this vocabulary of {len(self._pieces)} tokens, and there is "
                f"no token for what is unknown: {inert(str(error))}"
            ) from error

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids, without what ``encode`` puts around it.

        Raises TokenError for an id outside the vocabulary, or if the package is not installed.
        """
        found = [self._checked(token, place) for place, token in enumerate(ids)]
        before, behind = self._around
        if before and found[: len(before)] == before:
            found = found[len(before) :]
        if behind and found[-len(behind) :] == behind:
            found = found[: -len(behind)]
        return str(self._coder.decode(found, skip_special_tokens=False))

    def strings(self, ids: Iterable[int]) -> tuple[str, ...]:
        r"""What each token looks like; bytes that are no text of their own are shown as \xe2.

        Raises TokenError for an id outside the vocabulary.
        """
        return tuple(self._string(self._checked(token, place)) for place, token in enumerate(ids))

    def token_id(self, symbol: str) -> int:
        """The id of a text that is one token: the one that looks like it, or that it encodes to.

        Raises TokenError if it is several tokens, and lists them.
        """
        alike = self._ids.get(symbol, [])
        if len(alike) == 1:
            return alike[0]
        ids = self._encoded(symbol, special=False)
        if len(ids) == 1:
            return int(ids[0])
        if alike:
            raise TokenError(f"{symbol!r} is what several tokens look like: ids {alike}. Give an id.")
        pieces = " + ".join(map(repr, self.strings(ids))) or "no token at all"
        raise TokenError(f"{symbol!r} is not one token: it is {pieces}. Give one of these, or a token id.")

    def to_dict(self) -> dict[str, object]:
        """The tokenizer as plain values for JSON."""
        return {"kind": _KIND, "json": self.text, "size": self.size}

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> JsonTokenizer:
        """The tokenizer that ``to_dict`` wrote. Raises LoadError if it is none."""
        text, size = data.get("json"), data.get("size")
        if not isinstance(text, str) or type(size) is not int:
            raise LoadError(
                "A tokenizer of kind 'tokenizer.json' needs 'json', a text, and 'size', a number."
            )
        return read_tokenizer(text, size, "the stored tokenizer")

    @cached_property
    def _coder(self) -> Any:
        try:
            import tokenizers
        except ImportError:
            raise TokenError(
                f"Text needs the package 'tokenizers': {install_command('hf')} (token ids work without it)"
            ) from None
        try:
            coder = tokenizers.Tokenizer.from_str(self.text)
        except Exception as error:  # the package raises Exception itself
            raise TokenError(
                f"The package 'tokenizers' cannot read tokenizer.json: {inert(str(error))}"
            ) from error
        coder.no_padding()
        coder.no_truncation()
        return coder

    @cached_property
    def _around(self) -> tuple[list[int], list[int]]:
        """The ids that ``encode`` puts before and behind a text, as the file tells them."""
        return around_of(self._content.get("post_processor"))

    @cached_property
    def _unspelled(self) -> frozenset[str]:
        """The letters of bytes that no token of a byte-level vocabulary spells: the package would leave them out."""
        model = self._content["model"]
        added = self._content.get("added_tokens") or ()
        strips = any(entry.get("lstrip") or entry.get("rstrip") for entry in added)
        if _looks(self._content) is not _from_bytes or model.get("unk_token") is not None or strips:
            return frozenset()
        return frozenset(_BYTES) - set(_vocabulary(self._content))

    def _check_spelled(self, text: str, ids: list[int]) -> None:
        """Raises TokenError if bytes of the text are in none of the ids."""
        before, behind = self._around
        inner = ids[len(before) : len(ids) - len(behind)]
        normalizer = self._coder.normalizer
        wanted = text if normalizer is None else normalizer.normalize_str(text)
        if str(self._coder.decode(inner, skip_special_tokens=False)) == wanted:
            return
        lacking = [each for each in wanted if set(_letters(each)) & self._unspelled]
        if lacking:
            raise TokenError(
                f"Character {lacking[0]!r} (U+{ord(lacking[0]):04X}) at position {wanted.index(lacking[0])} has bytes that no "
                f"token of this vocabulary of {len(self._pieces)} spells. Replace or remove it."
            )

    @cached_property
    def _content(self) -> Mapping[str, Any]:
        content: Mapping[str, Any] = json.loads(self.text)
        return content

    @cached_property
    def _pieces(self) -> Mapping[int, str]:
        """What each token looks like, by id."""
        looks = self._looks
        return {token: looks(piece) for token, piece in self._spelled.items()} | self._added

    @cached_property
    def _spelled(self) -> Mapping[int, str]:
        """How the vocabulary spells each token, by id."""
        return {token: piece for piece, token in _vocabulary(self._content).items()}

    @cached_property
    def _added(self) -> dict[int, str]:
        """The tokens that were added to the vocabulary, by id."""
        return {entry["id"]: entry["content"] for entry in self._content.get("added_tokens") or ()}

    @cached_property
    def _looks(self) -> Callable[[str], str]:
        return _looks(self._content)

    @cached_property
    def _ids(self) -> Mapping[str, list[int]]:
        ids: dict[str, list[int]] = {}
        for token, piece in self._pieces.items():
            ids.setdefault(piece, []).append(token)
        return ids

    def _string(self, token: int) -> str:
        if token in self._added:
            return self._added[token]
        piece = self._spelled.get(token)
        return f"<unused {token}>" if piece is None else self._looks(piece)

    def _checked(self, token: int, place: int) -> int:
        if type(token) is int and 0 <= token < self.size:  # what follows takes long, of whole vocabularies
            return token
        if isinstance(token, SupportsIndex) and 0 <= token.__index__() < self.size:
            return token.__index__()
        raise TokenError(
            f"Token id {token!r} at position {place} is not in the vocabulary: "
            f"ids are integers from 0 to {self.size - 1}."
        )


def open_tokenizer(path: str | Path, size: int) -> JsonTokenizer:
    """Read a tokenizer.json for a model of ``size`` tokens. Raises LoadError if it is none."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise LoadError(f"Cannot load {str(path)!r}: {error}") from error
    return read_tokenizer(text, size, repr(str(path)))


def read_tokenizer(text: str, size: int, where: str) -> JsonTokenizer:
    """A tokenizer from the text of a tokenizer.json, its vocabulary looked through.

    Raises LoadError if it is no such text, or has more tokens than the model.
    """
    try:
        content = json.loads(text)
        added = content.get("added_tokens") or ()
        tokens = [*_vocabulary(content).values(), *(entry["id"] for entry in added)]
        pieces = [*_vocabulary(content), *(entry["content"] for entry in added)]
        around_of(content.get("post_processor"))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise LoadError(f"Cannot load {where}: it is no tokenizer.json: {error!r:.120}") from error
    if not all(isinstance(piece, str) for piece in pieces):
        raise LoadError(f"Cannot load {where}: its tokens must be text.")
    if not all(type(token) is int and token >= 0 for token in tokens):
        raise LoadError(f"Cannot load {where}: its token ids must be whole numbers.")
    if max(tokens, default=-1) >= size:
        raise LoadError(
            f"Cannot load {where}: it has token id {max(tokens)}, but the model knows {size} tokens only. "
            "It belongs to another model, or tokens were added to it alone."
        )
    return JsonTokenizer(text, size)


def _vocabulary(content: Mapping[str, Any]) -> Mapping[str, int]:
    """Pieces to ids: a mapping in most kinds, a list of piece and score in Unigram."""
    vocabulary = content["model"]["vocab"]
    if isinstance(vocabulary, list):
        return {entry[0]: token for token, entry in enumerate(vocabulary)}
    return dict(vocabulary)


def _looks(content: Mapping[str, Any]) -> Callable[[str], str]:
    """How a piece of this vocabulary is shown: as bytes, with spaces for ▁, or as it is."""
    rules = json.dumps([content.get(part) for part in ("decoder", "pre_tokenizer", "normalizer")])
    if '"ByteLevel"' in rules:
        return _from_bytes
    if '"Metaspace"' in rules or "\\u2581" in rules:
        return lambda piece: _BYTE.sub(_byte, piece.replace("▁", " "))
    return lambda piece: piece


def _byte(match: re.Match[str]) -> str:
    return bytes([int(match[1], 16)]).decode("utf-8", "backslashreplace")


def _from_bytes(piece: str) -> str:
    if any(character not in _BYTES for character in piece):
        return piece
    return bytes(_BYTES[character] for character in piece).decode("utf-8", "backslashreplace")


def _letters(text: str) -> str:
    """The letters that stand for the bytes of a text."""
    return "".join(_LETTERS[byte] for byte in text.encode("utf-8", "surrogatepass"))


def around_of(processor: object) -> tuple[list[int], list[int]]:
    """The ids that the post-processor of a tokenizer.json puts before and behind a text.

    >>> template = [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]
    >>> special = {"<s>": {"id": "<s>", "ids": [1]}}
    >>> around_of({"type": "TemplateProcessing", "single": template, "special_tokens": special})
    ([1], [])
    """
    if not isinstance(processor, Mapping):
        return [], []
    kind = processor.get("type")
    if kind == "Sequence":
        parts = [around_of(part) for part in processor.get("processors") or ()]
        return [i for before, _ in reversed(parts) for i in before], [
            i for _, behind in parts for i in behind
        ]
    if kind in ("BertProcessing", "RobertaProcessing"):
        return [processor["cls"][1]], [processor["sep"][1]]
    if kind != "TemplateProcessing":
        return [], []
    at = next((i for i, piece in enumerate(processor["single"]) if "Sequence" in piece), 0)
    before, behind = (
        [
            token
            for piece in pieces
            for token in processor["special_tokens"][piece["SpecialToken"]["id"]]["ids"]
        ]
        for pieces in (processor["single"][:at], processor["single"][at + 1 :])
    )
    return before, behind


def byte_letters() -> dict[str, int]:
    """The letters that stand for the 256 bytes in byte-level vocabularies. Radford et al. 2019, its code.

    >>> byte_letters()["Ġ"], byte_letters()["a"]
    (32, 97)
    """
    shown = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {chr(256 + i): byte for i, byte in enumerate(hidden)}


_BYTES = byte_letters()
_LETTERS = {byte: letter for letter, byte in _BYTES.items()}
