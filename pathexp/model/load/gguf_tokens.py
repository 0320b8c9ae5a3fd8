"""The tokens that a GGUF file carries, as a tokenizer."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from ...errors import LoadError, LoadWarning
from .scored_tokenizer import ScoredTokenizer
from .tokenizer_json import JsonTokenizer, read_tokenizer

_OWN = "tokenizer.ggml."
_CONTROL, _USER = 3, 4  # gguf's TokenType
_ANY_CASE = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"


def _byte_level(use_regex: bool) -> dict[str, Any]:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def _split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def _words(digits: str) -> list[dict[str, Any]]:
    pattern = (
        rf"{_ANY_CASE}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|"
        r"\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    return [_split(pattern), _byte_level(use_regex=False)]


_CUTS: Mapping[str, list[dict[str, Any]]] = {
    "gpt-2": [_byte_level(use_regex=True)],
    "smollm": [{"type": "Digits", "individual_digits": True}, _byte_level(use_regex=True)],
    "llama-bpe": _words(r"\p{N}{1,3}"),
    "qwen2": _words(r"\p{N}"),
}
"""How text is cut before merging, by ``tokenizer.ggml.pre``. llama.cpp, src/llama-vocab.cpp."""


def gguf_tokenizer(fields: Mapping[str, Any], where: str) -> ScoredTokenizer | JsonTokenizer | None:
    """The tokenizer of a file's keys; None, with a warning, if its kind is not known (ids work without).

    Raises LoadError if the lists are missing or do not fit together.
    """
    kind = fields.get(_OWN + "model")
    if kind in ("no_vocab", "none"):
        return None
    makers: Mapping[Any, Callable[..., Any]] = {"llama": _scored, "gpt2": _merges}
    if kind in makers:
        return makers[kind](fields, where)  # type: ignore[no-any-return]
    _warn(where, f"tokenizer model {kind!r} is not known; known: {', '.join(makers)}")
    return None


def _warn(where: str, problem: str) -> None:
    warnings.warn(f"{where}: {problem}. Text does not work; token ids do.", LoadWarning, stacklevel=2)


def _list(fields: Mapping[str, Any], name: str, where: str) -> list[Any]:
    found = fields.get(_OWN + name)
    if not isinstance(found, list):
        raise LoadError(f"Cannot load {where}: {_OWN}{name} must be a list, found {found!r:.60}.")
    return found


def _begin(fields: Mapping[str, Any], default: bool) -> int | None:
    wanted = fields.get(_OWN + "add_bos_token", default)
    return fields.get(_OWN + "bos_token_id") if wanted else None


def _scored(fields: Mapping[str, Any], where: str) -> ScoredTokenizer:
    pieces = [piece.replace("▁", " ") for piece in _list(fields, "tokens", where)]
    scores = [float(score) for score in _list(fields, "scores", where)]
    space = bool(fields.get(_OWN + "add_space_prefix", True))
    return ScoredTokenizer(tuple(pieces), tuple(scores), _begin(fields, default=True), space)


def _merges(fields: Mapping[str, Any], where: str) -> JsonTokenizer | None:
    pre = fields.get(_OWN + "pre", "gpt-2")
    if pre not in _CUTS:
        _warn(where, f"tokenizer.ggml.pre {pre!r} is not known; known: {', '.join(_CUTS)}")
        return None
    tokens = _list(fields, "tokens", where)
    types = fields.get(_OWN + "token_type") or [1] * len(tokens)
    content = {
        "version": "1.0",
        "added_tokens": [
            _added(token, piece, types[token] == _CONTROL)
            for token, piece in enumerate(tokens)
            if types[token] in (_CONTROL, _USER)
        ],
        "normalizer": {"type": "NFC"} if pre == "qwen2" else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": _CUTS[pre]},
        "post_processor": _template(tokens, _begin(fields, default=False)),
        "decoder": _byte_level(use_regex=True),
        "model": {
            "type": "BPE",
            "vocab": {piece: token for token, piece in enumerate(tokens)},
            "merges": [merge.split(" ", 1) for merge in _list(fields, "merges", where)],
            "ignore_merges": pre == "llama-bpe",
        },
    }
    return read_tokenizer(json.dumps(content), len(tokens), where)


def _added(token: int, piece: str, special: bool) -> dict[str, Any]:
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": token, "content": piece, "special": special, **plain}


def _template(tokens: list[str], begin: int | None) -> dict[str, Any] | None:
    """What puts the begin token in front."""
    if begin is None:
        return None
    name = tokens[begin]
    before, text = {"SpecialToken": {"id": name, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
    pair = {"Sequence": {"id": "B", "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [before, text],
        "pair": [before, text, pair],
        "special_tokens": {name: {"id": name, "ids": [begin], "tokens": [name]}},
    }
