"""Byte-pair and WordPiece vocabularies of GGUF as the tokenizer.json that cuts a text as llama.cpp does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .gguf_cuts import CUTS, Cuts
from .gguf_vocabulary import OWN, NoText, Vocabulary
from .tokenizer_json import JsonTokenizer, read_tokenizer

_DEFAULT = "default"
_LINES_AS_SPACES = {"type": "Replace", "pattern": {"Regex": r"[\x0B\x0C\x{85}]"}, "content": " "}
"""Three ends of lines that BERT's own normalizer leaves out and llama.cpp takes for spaces."""

_LEFT_STRIPPING = {
    "jina-v2-de": "<mask>",
    "jina-v2-es": "<mask>",
    "jina-v2-code": "<mask>",
    "modern-bert": "[MASK]",
}


def merged_words(vocabulary: Vocabulary) -> JsonTokenizer:
    """Byte-level pairs, merged within the words that the file's pre-tokenizer cuts. Raises NoText if it is not known."""
    pre = vocabulary.text("pre")
    if pre is None:
        raise NoText(
            f"{OWN}pre is not told, so how texts are cut into words is not known (llama.cpp takes {_DEFAULT!r}, and warns "
            "of it)"
        )
    if pre not in CUTS:
        raise NoText(f"{OWN}pre {pre!r:.60} is not known; known: {', '.join(CUTS)}")
    cuts = CUTS[pre]
    begin, end = vocabulary.around(begin=cuts.begin)
    return _tokenizer(vocabulary, _pairs(vocabulary, cuts), begin, end, lstrip=_LEFT_STRIPPING.get(pre))


def _pairs(vocabulary: Vocabulary, cuts: Cuts) -> Mapping[str, Any]:
    splits = [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        for pattern in cuts.patterns
    ]
    as_bytes = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*splits, as_bytes]},
        "decoder": as_bytes,
        "model": {
            "type": "BPE",
            "vocab": {piece: token for token, piece in enumerate(vocabulary.tokens)},
            "merges": [list(merge) for merge in vocabulary.merges],
            "ignore_merges": cuts.whole_words,
        },
    }


def word_pieces(vocabulary: Vocabulary) -> JsonTokenizer:
    """WordPiece: the longest piece that fits, from the left; a word that no pieces make up is unknown.

    A piece that begins a word is written with ▁ in front. Devlin et al. 2019, "BERT", its code. Raises NoText if the
    tokens around a text, or the unknown one, are not told.
    """
    begin = vocabulary.told("bos_token_id", vocabulary.id("cls_token_id", 101))
    end, unknown = vocabulary.told("seperator_token_id", 102), vocabulary.told("unknown_token_id", 100)
    special = set(vocabulary.special) | {begin, end, unknown}
    pieces = {_piece(piece, token in special): token for token, piece in enumerate(vocabulary.tokens)}
    if len(pieces) < len(vocabulary.tokens):
        raise vocabulary.error(
            "two of its tokens are one piece, one with ▁ in front and one of a word's middle"
        )
    content = {
        "normalizer": {"type": "Sequence", "normalizers": [_LINES_AS_SPACES, _normalizer(vocabulary)]},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": False},
        "model": {
            "type": "WordPiece",
            "vocab": pieces,
            "unk_token": vocabulary.tokens[unknown],
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 1_000_000,
        },
    }
    return _tokenizer(vocabulary, content, begin, end)


def _normalizer(vocabulary: Vocabulary) -> Mapping[str, Any]:
    lower = vocabulary.switch("normalizer.lowercase", True)
    return {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": vocabulary.switch("normalizer.strip_accents", lower),
        "lowercase": lower,
    }


def _piece(piece: str, special: bool) -> str:
    return piece if special else piece[1:] if piece.startswith("▁") else f"##{piece}"


def _tokenizer(
    vocabulary: Vocabulary,
    content: Mapping[str, Any],
    begin: int | None,
    end: int | None,
    lstrip: str | None = None,
) -> JsonTokenizer:
    plain = {"single_word": False, "normalized": False}
    added = [
        {
            "id": token,
            "content": vocabulary.tokens[token],
            "special": vocabulary.is_control(token),
            "lstrip": vocabulary.tokens[token] == lstrip,
            "rstrip": token in vocabulary.stripping,
            **plain,
        }
        for token in vocabulary.special
    ]
    around = _template(vocabulary.tokens, begin, end)
    whole = {"version": "1.0", "added_tokens": added, "post_processor": around, **content}
    return read_tokenizer(json.dumps(whole), vocabulary.size, vocabulary.where)


def _template(tokens: tuple[str, ...], begin: int | None, end: int | None) -> dict[str, Any] | None:
    """What puts tokens around a text."""
    named = {name: token for name, token in (("before", begin), ("behind", end)) if token is not None}
    if not named:
        return None
    pieces = {name: {"SpecialToken": {"id": tokens[token], "type_id": 0}} for name, token in named.items()}
    before, behind = (([pieces[name]] if name in pieces else []) for name in ("before", "behind"))
    text, other = ({"Sequence": {"id": letter, "type_id": 0}} for letter in "AB")
    return {
        "type": "TemplateProcessing",
        "single": [*before, text, *behind],
        "pair": [*before, text, other, *behind],
        "special_tokens": {
            tokens[token]: {"id": tokens[token], "ids": [token], "tokens": [tokens[token]]}
            for token in named.values()
        },
    }
