"""Texts of GGUF files: how each kind of vocabulary cuts them, what is put around them, and what is refused.

The expected cuts were compared with llama.cpp itself, as tests/interop/test_gguf_texts_llama_cpp.py does.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

import pathexp as px
from pathexp.cli import main
from pathexp.errors import LoadError, LoadWarning, TokenError
from pathexp.model.load.gguf_cuts import CUTS
from pathexp.model.load.tokenizer_json import byte_letters
from tests.model.load import gguf_texts as texts

pytest.importorskip("gguf")
pytest.importorskip("tokenizers")

TEXT = "I'm HelloWORLD don'T 12345 x+=1;\n\n  naïve_é~|你好 ９ tail "
EXPECTED = {
    "default": "I¦'¦m¦ HelloWORLD¦ don¦'¦T¦ ¦123¦45¦ x¦+=¦1¦;¦\n\n ¦ naïve¦_¦é¦~|¦你好¦ ¦９¦ tail¦ ",
    "gpt-2": "I¦'m¦ HelloWORLD¦ don¦'¦T¦ 12345¦ x¦+=¦1¦;¦\n\n ¦ naïve¦_¦é¦~|¦你好¦ ９¦ tail¦ ",
    "smollm": "I¦'m¦ HelloWORLD¦ don¦'¦T¦ ¦1¦2¦3¦4¦5¦ x¦+=¦1¦;¦\n\n ¦ naïve¦_¦é¦~|¦你好¦ ¦９¦ tail¦ ",
    "llama-bpe": "I¦'m¦ HelloWORLD¦ don¦'T¦ ¦123¦45¦ x¦+=¦1¦;\n\n¦ ¦ naïve¦_é¦~|¦你好¦ ¦９¦ tail¦ ",
    "dbrx": "I¦'m¦ HelloWORLD¦ don¦'T¦ ¦123¦45¦ x¦+=¦1¦;\n\n¦ ¦ naïve¦_é¦~|¦你好¦ ¦９¦ tail¦ ",
    "qwen2": "I¦'m¦ HelloWORLD¦ don¦'T¦ ¦1¦2¦3¦4¦5¦ x¦+=¦1¦;\n\n¦ ¦ naïve¦_é¦~|¦你好¦ ¦９¦ tail¦ ",
    "qwen35": "I¦'m¦ HelloWORLD¦ don¦'T¦ ¦1¦2¦3¦4¦5¦ x¦+=¦1¦;\n\n¦ ¦ naïve¦_é¦~|¦你好¦ ¦９¦ tail¦ ",
    "tekken": "I¦'m¦ Hello¦WORLD¦ don¦'T¦ ¦1¦2¦3¦4¦5¦ x¦+=¦1¦;\n\n¦ ¦ naïve¦_é¦~|¦你好¦ ¦９¦ tail¦ ",
    "gpt-4o": "I'm¦ Hello¦WORLD¦ don'T¦ ¦123¦45¦ x¦+=¦1¦;\n\n¦ ¦ naïve¦_é¦~|¦你好¦ ¦９¦ tail¦ ",
    "deepseek-v3": "I¦'m¦ HelloWORLD¦ don¦'T¦ ¦123¦45¦ x¦+=¦1¦;\n\n¦ ¦ naïve¦_¦é¦~¦|¦你好¦ ¦９¦ tail¦ ",
    "deepseek-coder": "I¦'¦m¦ HelloWORLD¦ don¦'¦T¦ ¦1¦2¦3¦4¦5¦ x¦+=¦1¦;¦\n¦\n¦ ¦ naïve¦_¦é¦~|¦你好¦ ¦９¦ tail¦ ",
    "falcon": "I¦'¦m¦ HelloWORLD¦ don¦'¦T¦ ¦123¦45¦ x¦+=¦1¦;¦\n\n ¦ naïve¦_¦é¦~|¦你好¦ ９¦ tail¦ ",
    "bloom": "I'm¦ HelloWORLD¦ don'T¦ 12345¦ x+=1;¦\n\n ¦ naïve_é~¦|¦你好¦ ９¦ tail¦ ",
    "viking": "I'm¦ HelloWORLD¦ don'T¦ ¦1¦2¦3¦4¦5¦ x+=¦1¦;¦\n\n ¦ naïve_é~¦|¦你好¦ ¦９¦ tail¦ ",
    "seed-coder": "I¦'m¦ HelloWORLD¦ don¦'T¦ ¦1¦2¦3¦4¦5¦ x¦+=¦1¦;¦\n\n¦ ¦ naïve¦_é¦~|¦你好¦ ¦９¦ tail¦ ",
    "bailingmoe": "I¦'m¦ HelloWORLD¦ don¦'T¦ ¦1¦2¦3¦4¦5¦ x¦+=¦1¦;\n\n¦ ¦ naïve¦_é¦~|¦你好¦ ¦９¦ tail¦ ",
    "superbpe": "I'm HelloWORLD don'T ¦12¦345¦ x+=¦1¦;\n\n  naïve_é~|你好 ¦９¦ tail ",
}
"""The words of TEXT, by the first name of each group of pre-tokenizers."""


def loaded(path: Path, tokens: dict[str, Any], **how: Any) -> px.Model:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return px.load(texts.written(path / "x.gguf", tokens, **how))


@pytest.mark.parametrize("pre", EXPECTED)
def test_words_are_cut_as_by_llama_cpp(tmp_path: Path, pre: str) -> None:
    coder = loaded(tmp_path, texts.merged(pre)).tokenizer
    letters = byte_letters()
    words = coder._coder.pre_tokenizer.pre_tokenize_str(TEXT)
    assert [bytes(letters[each] for each in word).decode() for word, _ in words] == EXPECTED[pre].split("¦")


def test_every_group_of_cuts_is_tested() -> None:
    assert {CUTS[pre] for pre in EXPECTED} == set(CUTS.values())


@pytest.mark.parametrize("pre", ["gpt-2", "llama-bpe", "qwen2", "tekken", "deepseek-v3", "smollm"])
def test_texts_of_byte_pairs_come_back(tmp_path: Path, pre: str) -> None:
    model = loaded(tmp_path, texts.merged(pre))
    for text in texts.TEXTS:
        assert model.decode(model.encode(text)) == text


@pytest.mark.parametrize("space", [True, False])
def test_texts_of_scored_pieces_come_back(tmp_path: Path, space: bool) -> None:
    """A ▁ in a text is a space, there as everywhere with such vocabularies."""
    model = loaded(tmp_path, texts.scored(add_space_prefix=space, add_eos_token=True))
    for text in texts.TEXTS:
        if "▁" not in text and not text.startswith("<s>"):
            assert model.decode(model.encode(text)) == text


def test_user_defined_tokens_are_cut_out_before_merging(tmp_path: Path) -> None:
    """T-01: one id, not the letters of it; after it a text begins anew, with its space."""
    model = loaded(tmp_path, texts.scored())
    assert model.run("<|user|>hello").token_strings == ("<s>", "<|user|>", " hel", "lo")
    assert model.run("hello<|user|>").token_strings == ("<s>", " hel", "lo", "<|user|>")
    assert model.run("a\n\nb").token_strings == ("<s>", " a", "\n\n", " b")


@pytest.mark.parametrize(
    ("pre", "keys", "begins", "ends"),
    [
        ("llama-bpe", {}, True, False),
        ("tekken", {}, True, False),
        ("llama-bpe", {"add_bos_token": False}, False, False),
        ("gpt-2", {}, False, False),
        ("gpt-2", {"add_bos_token": True, "add_eos_token": True}, True, True),
        ("qwen2", {"add_eos_token": True}, False, True),
    ],
)
def test_begin_and_end_tokens_are_those_of_the_kind_or_the_key(
    tmp_path: Path, pre: str, keys: dict[str, Any], begins: bool, ends: bool
) -> None:
    """T-02: llama-bpe puts its begin token in front though no key asks for it."""
    model = loaded(tmp_path, texts.merged(pre, **keys))
    end = model.token_id("<|end|>")
    plain = [*byte_ids(model, "hi")]
    assert model.encode("hi") == [end] * begins + plain + [end] * ends
    assert model.decode(model.encode("hi")) == "hi"


def byte_ids(model: px.Model, text: str) -> list[int]:
    return [model.token_id(letter) for letter in text]


def test_tokens_around_scored_pieces(tmp_path: Path) -> None:
    """Begin unless told not to, no end unless told to; ids that no key tells are Llama's own."""
    tokens = texts.scored(bos_token_id=None, eos_token_id=None, add_eos_token=True)
    model = loaded(tmp_path, tokens)
    assert model.run("hello").token_strings == ("<s>", " hel", "lo", "</s>")
    assert model.decode(model.encode("hello")) == "hello"


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (texts.merged(None), r"tokenizer\.ggml\.pre is not told, .*llama\.cpp takes 'default', and warns"),
        (texts.merged("mine"), r"tokenizer\.ggml\.pre 'mine' is not known; known: default, gpt-2"),
        (
            texts.merged("llama-bpe", bos_token_id=None),
            r"texts need tokenizer\.ggml\.bos_token_id, which is not told",
        ),
        (texts.merged("gpt-2", model="t5"), "tokenizer model 't5' is not known; known: llama, gpt2, bert"),
        (texts.word_pieces(seperator_token_id=None), r"texts need tokenizer\.ggml\.seperator_token_id"),
    ],
    ids=["no pre", "unknown pre", "no begin", "unknown model", "no separator"],
)
def test_texts_are_refused_by_name_and_ids_work(tmp_path: Path, tokens: dict[str, Any], message: str) -> None:
    """T-03: nothing is taken for gpt-2 in silence."""
    file = texts.written(tmp_path / "x.gguf", tokens)
    with pytest.warns(LoadWarning, match=f"{message}.*Text does not work; token ids do"):
        model = px.load(file)
    assert model.tokenizer is None and len(model.run([1, 2])) == 2
    with pytest.raises(TokenError, match="has no tokenizer"):
        model.run("hello")


def test_keys_of_the_tokenizer_that_are_not_known_are_named(tmp_path: Path) -> None:
    file = texts.written(tmp_path / "x.gguf", texts.merged("gpt-2", secret=4))
    with pytest.warns(LoadWarning, match=r"'tokenizer\.ggml\.secret' are not known here, and not read"):
        px.load(file)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (texts.merged("gpt-2", bos_token_id=10**6), r"bos_token_id must be an id below \d+, found 1000000"),
        (texts.merged("gpt-2", add_bos_token=True, bos_token_id="x"), "bos_token_id must be an id"),
        (texts.merged("gpt-2", add_bos_token=1), "add_bos_token must be true or false, found 1"),
        (texts.merged("gpt-2", merges=["ab"]), "merges has 'ab', which is not two parts"),
        (texts.merged("gpt-2", merges="ab"), "merges must be a list of str, found 'ab'"),
        (texts.merged("gpt-2", token_type=[1]), "token_type must be .* one a token, found 1"),
        (texts.merged(4), "pre must be a text, found 4"),
        (texts.scored(scores=[0.0]), "scores must be .* finite numbers, one a token, found 1"),
        (texts.scored(tokens=["a", "a"]), "token 'a' is there twice, as 0 and 1"),
        (texts.scored(tokens=None), "tokens"),
    ],
)  # fmt: skip
def test_lists_that_do_not_fit_are_refused(tmp_path: Path, tokens: dict[str, Any], message: str) -> None:
    bad = {"add_bos_token": True} | tokens if "bos_token_id" in message else tokens
    vocabulary = tokens.get("tokens") or ["a"] * 5
    file = texts.written(
        tmp_path / "x.gguf", {**bad, "tokens": vocabulary} if tokens.get("tokens") else bad, size=700
    )
    with pytest.raises(LoadError, match=message):
        px.load(file)


def test_more_tokens_than_the_model_has_are_refused(tmp_path: Path) -> None:
    tokens = texts.scored()
    file = texts.written(tmp_path / "x.gguf", tokens, size=len(tokens["tokens"]) - 1)
    with pytest.raises(LoadError, match=r"it has \d+ tokens, but the model knows \d+ only"):
        px.load(file)


@pytest.mark.parametrize(
    "tokens", [texts.scored(), texts.merged("gpt-2"), texts.word_pieces()], ids=["llama", "gpt2", "bert"]
)
def test_padded_ids_have_a_name_and_tokenizers_are_saved(tmp_path: Path, tokens: dict[str, Any]) -> None:
    model = loaded(tmp_path, tokens, size=len(tokens["tokens"]) + 3)
    last = model.config.d_vocab - 1
    assert model.run([1, last]).token_strings[1] == f"<unused {last}>"
    model.save(tmp_path / "m.npz")
    again = px.load(tmp_path / "m.npz")
    for text in texts.TEXTS:
        assert again.encode(text) == model.encode(text)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, "[CLS] hello naive cafe ! [SEP]"),
        ({"normalizer.lowercase": False}, "[CLS] [UNK] [UNK] cafe ! [SEP]"),
        ({"normalizer.lowercase": False, "normalizer.strip_accents": True}, "[CLS] [UNK] naive cafe ! [SEP]"),
        ({"normalizer.strip_accents": False}, "[CLS] hello [UNK] cafe ! [SEP]"),
    ],
)
def test_word_pieces_are_normalized_as_the_keys_say(
    tmp_path: Path, keys: dict[str, Any], expected: str
) -> None:
    model = loaded(tmp_path, texts.word_pieces(**keys))
    assert " ".join(model.run("Hello naïve cafe!").token_strings) == expected


def test_special_tokens_of_phi_3_take_the_white_space_after_them(tmp_path: Path) -> None:
    model = loaded(tmp_path, texts.scored(), name="Phi-3 mini 4k")
    assert model.run("<|user|>\n  hello").token_strings == ("<s>", "<|user|>", " hel", "lo")


def test_a_byte_that_no_token_spells_is_an_error(tmp_path: Path) -> None:
    """The package `tokenizers` would leave it out in silence."""
    tokens = texts.merged("gpt-2")
    lacking = {
        **tokens,
        "tokens": [piece if piece != "z" else "zz" for piece in tokens["tokens"]],
        "merges": [merge for merge in tokens["merges"] if "z" not in merge],
    }
    model = loaded(tmp_path, lacking)
    assert model.encode("ab")
    with pytest.raises(
        TokenError, match=r"'z' \(U\+007A\) at position 1 has bytes that no token of this vocabulary"
    ):
        model.encode("az")


def test_a_tokenizer_given_beside_takes_the_place_of_one_that_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The way on that the warning names: the tokenizer.json of the model, for a file or for a folder, here and on the command line."""
    known = px.load(texts.written(tmp_path / "known.gguf", texts.merged("gpt-2"))).tokenizer
    assert known is not None
    beside = tmp_path / "tokenizer.json"
    beside.write_text(str(known.to_dict()["json"]))
    file = texts.written(tmp_path / "x.gguf", texts.merged("gpt-2", model="t5"))
    with pytest.warns(LoadWarning, match=r"tokenizer=, or --tokenizer FILE"):
        px.load(file)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = px.load(file, tokenizer=beside)
    assert model.encode("hello world 12") == known.encode("hello world 12")
    assert main(["lens", str(file), "hello world", "--tokenizer", str(beside)]) == 0
    assert 'text     "' in capsys.readouterr().out
    with pytest.raises(LoadError, match="tokenizer"):
        px.load(file, tokenizer=tmp_path / "nowhere.json")
