"""The tokens that a GGUF file carries, as a tokenizer that cuts a text as llama.cpp does.

Kinds, defaults and algorithms: ggml-org/llama.cpp, src/llama-vocab.cpp. Special tokens in a text are read as such.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from ...errors import LoadWarning
from .checkpoint import listed
from .gguf_vocabulary import OWN, NoText, Vocabulary
from .gguf_words import merged_words, word_pieces
from .scored_tokenizer import ScoredTokenizer
from .tokenizer_json import JsonTokenizer

Coder = ScoredTokenizer | JsonTokenizer

_READ = (
    "model", "pre", "tokens", "token_type", "scores", "merges", "add_bos_token", "add_eos_token", "add_space_prefix",
    "bos_token_id", "eos_token_id", "unknown_token_id", "seperator_token_id", "cls_token_id", "normalizer.lowercase",
    "normalizer.strip_accents",
)  # fmt: skip
_HARMLESS = (
    "padding_token_id", "mask_token_id", "eot_token_id", "eom_token_id", "fim_pre_token_id", "fim_suf_token_id",
    "fim_mid_token_id", "fim_pad_token_id", "fim_rep_token_id", "fim_sep_token_id", "prefix_token_id", "suffix_token_id",
    "middle_token_id", "token_type_count", "suppress_tokens", "added_tokens", "add_sep_token", "remove_extra_whitespaces",
    "precompiled_charsmap",
)  # fmt: skip
"""Ids for whoever writes texts, and what llama.cpp reads for kinds only that are not known here."""


def gguf_tokenizer(fields: Mapping[str, Any], size: int, where: str) -> Coder | None:
    """The tokenizer of a file's keys for a model of ``size`` tokens; None, with a warning, if its kind is not known.

    Ids work without. Raises LoadError if the lists are missing or do not fit together, or hold more tokens than the model.
    """
    _name_others(fields, where)
    kind = fields.get(OWN + "model")
    if kind in ("no_vocab", "none"):
        return None
    makers: Mapping[Any, Callable[[Vocabulary], Coder]] = {
        "llama": _scored,
        "gpt2": merged_words,
        "bert": word_pieces,
    }
    try:
        if not isinstance(kind, str) or kind not in makers:
            raise NoText(f"tokenizer model {kind!r:.60} is not known; known: {', '.join(makers)}")
        return makers[kind](Vocabulary(fields, size, where))
    except NoText as problem:
        said = (
            f"{where}: {problem}. Text does not work; token ids do, and text with the tokenizer.json that the model was "
            "made with: tokenizer=, or --tokenizer FILE."
        )
        warnings.warn(said, LoadWarning, stacklevel=2)
        return None


def _name_others(fields: Mapping[str, Any], where: str) -> None:
    known = {OWN + name for name in (*_READ, *_HARMLESS)}
    own = (key for key in fields if key.startswith("tokenizer."))
    others = [
        key
        for key in own
        if key not in known and not key.startswith(("tokenizer.chat_template", "tokenizer.huggingface."))
    ]
    if others:
        warnings.warn(
            f"{where}: {listed(sorted(others))} are not known here, and not read; texts may be cut otherwise than there.",
            LoadWarning,
            stacklevel=2,
        )


def _scored(vocabulary: Vocabulary) -> ScoredTokenizer:
    """Pieces with scores, as SentencePiece has them for Llama."""
    begin, end = vocabulary.around(begin=True, begin_id=1, end_id=2)
    unused = range(len(vocabulary.tokens), vocabulary.size)
    return ScoredTokenizer(
        pieces=(*vocabulary.tokens, *(f"<unused {token}>" for token in unused)),
        scores=(*vocabulary.scores, *(0.0 for _ in unused)),
        begin=begin,
        space=vocabulary.switch("add_space_prefix", True),
        end=end,
        special=vocabulary.special,
        stripping=vocabulary.stripping,
        mark="▁",
    )
