"""Tokenizers by the kind that they write of themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...errors import LoadError
from ..tokenizer import Tokenizer
from .scored_tokenizer import ScoredTokenizer
from .tokenizer_json import JsonTokenizer

_KINDS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "longest-match": Tokenizer.from_dict,
    "scored-merges": ScoredTokenizer.from_dict,
    "tokenizer.json": JsonTokenizer.from_dict,
}


def coder_from_dict(data: Mapping[str, Any]) -> Any:
    """The tokenizer that some ``to_dict`` wrote.

    Raises LoadError if its kind is not known.

    >>> coder_from_dict({"kind": "longest-match", "symbols": ["a"]})
    Tokenizer(1 symbols)
    """
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise LoadError(f"Tokenizer kind {kind!r} is not known; known: {', '.join(map(repr, _KINDS))}.")
    return _KINDS[kind](data)
