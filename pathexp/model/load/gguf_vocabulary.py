"""The vocabulary that the keys of a GGUF file hold, checked: tokens, their types and scores, and the special ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...errors import LoadError

OWN = "tokenizer.ggml."
_UNKNOWN, _CONTROL, _USER = 2, 3, 4  # gguf's TokenType
_ALWAYS_CONTROL = frozenset(
    (
        "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>",
        "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>",
        "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>", "<｜end▁of▁sentence｜>", "[e~[",
    )
)  # fmt: skip
"""Tokens that llama.cpp takes for ends of texts by their look, whatever their type."""


class NoText(Exception):
    """Why texts cannot be cut as llama.cpp cuts them; ids work all the same."""


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of a file for a model of ``size`` tokens. Raises LoadError where lists are missing or do not fit."""

    fields: Mapping[str, Any]
    size: int
    where: str

    def __post_init__(self) -> None:
        if len(self.tokens) > self.size:
            raise self.error(f"it has {len(self.tokens)} tokens, but the model knows {self.size} only")
        seen: dict[str, int] = {}
        for token, piece in enumerate(self.tokens):
            if piece in seen:
                raise self.error(f"token {piece!r:.60} is there twice, as {seen[piece]} and {token}")
            seen[piece] = token

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """The tokens as they are written; an empty one has a name, as in llama.cpp."""
        found = self._list("tokens", str)
        return tuple(piece or f"[EMPTY_{token}]" for token, piece in enumerate(found))

    @cached_property
    def scores(self) -> tuple[float, ...]:
        """One finite score a token."""
        found = self._list("scores", float, int)
        if len(found) < len(self.tokens) or not all(map(math.isfinite, found)):
            raise self.error(
                f"{OWN}scores must be {len(self.tokens)} finite numbers, one a token, found {len(found)}"
            )
        return tuple(float(score) for score in found[: len(self.tokens)])

    @cached_property
    def merges(self) -> list[tuple[str, str]]:
        """The merges, each of two parts that a space separates."""
        split = [(merge, merge.find(" ", 1)) for merge in self._list("merges", str)]
        for merge, at in split:
            if at < 1 or at == len(merge) - 1:
                raise self.error(
                    f"{OWN}merges has {merge!r:.60}, which is not two parts with a space between"
                )
        return [(merge[:at], merge[at + 1 :]) for merge, at in split]

    @cached_property
    def types(self) -> tuple[int, ...]:
        """The type of each token; all are normal where none are told."""
        if self.fields.get(OWN + "token_type") is None:
            return (1,) * len(self.tokens)
        found = self._list("token_type", int)
        if len(found) < len(self.tokens):
            raise self.error(
                f"{OWN}token_type must be {len(self.tokens)} numbers, one a token, found {len(found)}"
            )
        return tuple(found[: len(self.tokens)])

    @cached_property
    def special(self) -> tuple[int, ...]:
        """The tokens that are cut out of a text before the rest is looked at."""
        return tuple(
            token
            for token, (piece, kind) in enumerate(zip(self.tokens, self.types, strict=True))
            if kind in (_UNKNOWN, _CONTROL, _USER) or piece in _ALWAYS_CONTROL
        )

    @cached_property
    def stripping(self) -> tuple[int, ...]:
        """The special tokens that take the white space after them: Phi-3's, which only its name tells."""
        name = str(self.fields.get("general.name", "")).lower()
        if "phi-3" not in name and "phi3" not in name:
            return ()
        return tuple(
            token for token in self.special if self.tokens[token] not in ("<unk>", "<s>", "<|endoftext|>")
        )

    def is_control(self, token: int) -> bool:
        """Whether a token is for control, not for a text."""
        return self.types[token] in (_UNKNOWN, _CONTROL) or self.tokens[token] in _ALWAYS_CONTROL

    def around(
        self, *, begin: bool, begin_id: int | None = None, end_id: int | None = None
    ) -> tuple[int | None, int | None]:
        """The ids before and behind a text. Raises NoText where one is asked for and not told.

        ``begin``: whether one is put in front where no key says so; ``begin_id``, ``end_id``: those where no key does.
        """
        return self._asked("bos", begin, begin_id), self._asked("eos", False, end_id)

    def _asked(self, which: str, wanted: bool, default: int | None) -> int | None:
        return self.told(f"{which}_token_id", default) if self.switch(f"add_{which}_token", wanted) else None

    def told(self, name: str, default: int | None = None) -> int:
        """The token of a key that is needed. Raises NoText where it is not there."""
        token = self.id(name, default)
        if token is None:
            raise NoText(f"texts need {OWN}{name}, which is not told")
        return token

    def id(self, name: str, default: int | None = None) -> int | None:
        """The token of a key, or the default where it is not there. Raises LoadError if it is no token."""
        found = self.fields.get(OWN + name)
        if found is None:
            return default if default is not None and default < len(self.tokens) else None
        if type(found) is not int or not 0 <= found < len(self.tokens):
            raise self.error(f"{OWN}{name} must be an id below {len(self.tokens)}, found {found!r:.60}")
        return found

    def switch(self, name: str, default: bool) -> bool:
        """True or false. Raises LoadError if it is neither."""
        found = self.fields.get(OWN + name, default)
        if not isinstance(found, bool):
            raise self.error(f"{OWN}{name} must be true or false, found {found!r:.60}")
        return found

    def text(self, name: str) -> str | None:
        """A text, None where it is not there. Raises LoadError if it is none."""
        found = self.fields.get(OWN + name)
        if found is not None and not isinstance(found, str):
            raise self.error(f"{OWN}{name} must be a text, found {found!r:.60}")
        return found

    def error(self, problem: str) -> LoadError:
        """The error for a key."""
        return LoadError(f"Cannot load {self.where}: {problem}.")

    def _list(self, name: str, *kinds: type) -> list[Any]:
        found = self.fields.get(OWN + name)
        if not isinstance(found, list) or not all(type(each) in kinds for each in found):
            named = " or ".join(kind.__name__ for kind in kinds)
            raise self.error(f"{OWN}{name} must be a list of {named}, found {found!r:.60}")
        return found
