"""Vocabularies of each kind that GGUF knows, and a table of texts that are easily cut wrongly."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pathexp.model.load.tokenizer_json import byte_letters
from tests.model.load import gguf_writing as writing
from tests.model.load.gguf_writing import CASES

TEXTS = (
    "", " ", "  ", "   ", "\n", "\n\n", "\n \n", "\t", "\t\t a", " \n ", "a", " a", "a ", "  a", "a  b", "a   b", "hello world", "Hello World",
    "HELLO world", "helloWorld HelloWORLD", "hello\nworld", "hello\n\n\nworld\r\n", "hello \n world", "trailing space ", "trailing   ",
    "1", "12", "123", "1234", "12345", "1234567 89", "3.14159", "1,234,567.89", "a1b22c333", "x=1+2*3", "2024-01-31T12:00", "٣٤٥", "½²",
    "I'm you're WE'LL they'D 'tis it's IT'S don't DON'T 'S", "'''", "quote\"d \"text\"", "(a) [b] {c}", "a.b,c;d:e!f?g", "...", "?!?!", "@#$%^&*", "$+<=>^~|`",
    "def f(x):\n    return x ** 2\n\n\tpass", "<div class='a'>b</div>", "https://example.org/a_b?c=d&e=f#g", "C:\\dir\\file", "snake_case kebab-case",
    "éàü ÄÖÜ ñ", "naïve café", "e\u0301 a\u0308", "Straße ſ K", "привет мир", "Привет, МИР!", "你好世界", "你好，世界。", "こんにちは 世界", "안녕하세요 세계", "สวัสดี",
    "مرحبا بالعالم", "שלום", "हिन्दी में", "🙂", "🙂🙂 🚀", "👩‍👩‍👧‍👦 family", "🇰🇷", "a🙂b", "\u00a0x\u2003y\u3000z", "\u200bzero\u200dwidth", "\ufeffbom", "line\u2028sep\u0085nel",
    "<|end|>", "a<|end|>b", " <|end|> ", "<|end|><|end|>", "hello<|user|>world", "<|user|> hello", "<unk>", "<s>hello", "▁under▁score", "_ __ ___", "a\x0bb\x0cc", "\x00\x01\x1f\x7f",
    "mixed 123abc 你好 🙂 don't\n\n  end.", "ﬁ ligature Ⅷ ①", "ǅ ǈ", "İstanbul ı", "aaaaaaaaaaaaaaaaaaaaaaaa", "the the the  the",
)  # fmt: skip
"""Spaces, lines, digits, contractions, punctuation, code, accents, many scripts, emoji, special tokens, control characters."""

_SPECIAL = ("<|end|>", "<|user|>", "<unk>")
_TRAINED_ON = tuple(text for text in TEXTS if not any(special in text for special in _SPECIAL))


def byte_pairs(merges: int = 400) -> tuple[list[str], list[str]]:
    """Tokens and merges of a byte-level vocabulary that was trained on whole texts: its merges cross every kind of cut."""
    import tokenizers

    coder = tokenizers.Tokenizer(tokenizers.models.BPE())
    coder.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=256 + merges,
        initial_alphabet=sorted(byte_letters()),
        show_progress=False,
        max_token_length=8,
    )
    coder.train_from_iterator([" ".join(_TRAINED_ON) * 2, *_TRAINED_ON], trainer)
    content = json.loads(coder.to_str())["model"]
    pairs = [" ".join(merge) if isinstance(merge, list) else merge for merge in content["merges"]]
    return [*sorted(content["vocab"], key=content["vocab"].get)], pairs


def merged(pre: str | None, **keys: Any) -> dict[str, Any]:
    """The keys of a byte-pair vocabulary, three special tokens at its end."""
    tokens, merges = byte_pairs()
    types = [1] * len(tokens) + [3, 4, 2]
    found = {
        "model": "gpt2",
        "pre": pre,
        "tokens": [*tokens, *_SPECIAL],
        "token_type": types,
        "merges": merges,
    }
    found |= {"bos_token_id": len(tokens), "eos_token_id": len(tokens)}
    return {key: value for key, value in (found | keys).items() if value is not None}


def scored(further: Sequence[str] = (), **keys: Any) -> dict[str, Any]:
    """The keys of a SentencePiece vocabulary: control tokens, bytes, characters, and pieces with scores."""
    words = [
        "hello",
        "world",
        "the",
        "trailing",
        "space",
        "text",
        "def",
        "return",
        "123",
        "12",
        "ab",
        "bc",
        "abc",
        "ell",
        "llo",
        "wor",
        "ld",
        "аб",
        "你好",
        "世界",
        "end",
        "He",
        "Wo",
    ]
    pieces = {
        piece
        for word in words
        for size in range(2, len(word) + 1)
        for piece in (word[:size], word[-size:], "▁" + word[: size - 1])
    }
    letters = sorted({letter for text in TEXTS[:60] for letter in text if letter not in " \n🙂é"} | {"▁"})
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    types = [2, 3, 3] + [6] * 256
    longer = [*(f"{'▁' * n}" for n in (2, 3, 4)), *sorted(pieces - set(letters)), "xé", "🙂🙂"]
    added = ["<|end|>", *further, "<|user|>", "\n\n", "  ", "▁<mid>"]
    tokens += [*letters, *longer, *added]
    types += [1] * (len(letters) + len(longer)) + [3] * (1 + len(further)) + [4, 4, 4, 4]
    scores = (
        [0.0] * 259
        + [-1000.0 - i for i in range(len(letters))]
        + [-float(i * 37 % 101) for i in range(len(longer))]
    )
    scores += [-1000.0] * len(added)
    found = {"model": "llama", "pre": "default", "tokens": tokens, "token_type": types, "scores": scores}
    found |= {"bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0}
    return {key: value for key, value in (found | keys).items() if value is not None}


def word_pieces(**keys: Any) -> dict[str, Any]:
    """The keys of a WordPiece vocabulary."""
    starts = [
        "h",
        "hello",
        "he",
        "w",
        "world",
        "wo",
        "1",
        "12",
        "123",
        "a",
        "ab",
        "the",
        "tra",
        "t",
        "e",
        "é",
        "ü",
        "你",
        "好",
        "世",
        "界",
        "!",
        "?",
        ".",
        ",",
        "'",
        "don",
        "it",
        "in",
        "na",
        "cafe",
        "caf",
        "naive",
        "s",
        "(",
        ")",
        "<",
        ">",
        "|",
        "end",
        "привет",
        "п",
        "🙂",
        "def",
        "_",
        "=",
        "+",
        "*",
        "#",
        "&",
        "/",
        ":",
        ";",
        "-",
        '"',
        "$",
        "%",
        "@",
        "^",
        "`",
        "~",
        "[",
        "]",
        "{",
        "}",
    ]
    middles = [
        "llo",
        "ell",
        "l",
        "o",
        "d",
        "ld",
        "r",
        "rld",
        "2",
        "3",
        "23",
        "b",
        "c",
        "he",
        "iling",
        "ing",
        "t",
        "e",
        "n",
        "u",
        "a",
        "й",
        "т",
        "s",
        "end",
        "🙂",
        "i",
        "v",
        "f",
    ]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *("▁" + piece for piece in starts), *middles]
    types = [3] * 5 + [1] * (len(tokens) - 5)
    found = {
        "model": "bert",
        "pre": "default",
        "tokens": tokens,
        "token_type": types,
        "unknown_token_id": 1,
        "bos_token_id": 2,
    }
    found |= {"seperator_token_id": 3, "padding_token_id": 0, "mask_token_id": 4, "cls_token_id": 2}
    return {key: value for key, value in (found | keys).items() if value is not None}


def written(path: Path, tokens: Mapping[str, Any], name: str | None = None, size: int | None = None) -> Path:
    """A model of the smallest sizes with these tokens; ``size``: how many ids it has, if not as many as tokens."""
    case = CASES["llama"]
    config = {**case.config, "vocab_size": size or len(tokens["tokens"])}
    fields = {**case.fields, "vocab_size": config["vocab_size"], "general.name": name}
    return writing.write(path, "llama", fields, writing.tensors_of(case, writing.arrays_of(config)), tokens)
