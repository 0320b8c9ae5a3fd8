"""A tokenizer that is given beside a model that has none of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ...errors import LoadError
from ..model import Model
from .tokenizer_json import open_tokenizer, read_tokenizer


def given_tokenizer(model: Model, given: Any) -> Model:
    """The model with a tokenizer that was given beside it; the model itself where none was.

    ``given``: one of ours, one of transformers (a fast one) or tokenizers, or the path of a tokenizer.json.

    Raises LoadError for anything else, and for one with more tokens than the model.
    """
    if given is None:
        return model
    if isinstance(given, str | Path):
        return replace(model, tokenizer=open_tokenizer(given, model.config.d_vocab))
    if all(hasattr(given, name) for name in ("encode", "decode", "strings", "token_id", "to_dict")):
        return replace(model, tokenizer=given)
    behind = getattr(given, "backend_tokenizer", given)
    if not hasattr(behind, "to_str"):
        raise LoadError(
            f"tokenizer: expected one of pathexp or tokenizers, a fast one of transformers, or the path of a tokenizer.json, "
            f"found {type(given).__name__}."
        )
    text = str(behind.to_str())
    return replace(model, tokenizer=read_tokenizer(text, model.config.d_vocab, f"the {type(given).__name__}"))
