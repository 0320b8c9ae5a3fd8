"""Text in and out: tokenizer.json, scored pieces, and what works without any package."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pathexp as px
from pathexp.errors import LoadError, LoadWarning, TokenError
from pathexp.model.load.coders import coder_from_dict
from pathexp.model.load.scored_tokenizer import ScoredTokenizer
from pathexp.model.load.tokenizer_json import JsonTokenizer, around_of, byte_letters, open_tokenizer
from tests.model.load.checkpoints import LLAMA, folder, llama_arrays

# Byte-level pairs, as GPT-2 has them ------------------------------------------------------------------------

MERGES = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("Ġ", "c"), ("a", "t"), ("Ġc", "at")]
VOCAB = [*sorted(byte_letters()), *("".join(pair) for pair in MERGES)]
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


def byte_level(**changes: Any) -> str:
    """A tokenizer.json of 256 bytes, six merges, and <|end|> as the last token."""
    end = {"id": len(VOCAB), "content": "<|end|>", "single_word": False, "lstrip": False, "rstrip": False,
           "normalized": False, "special": True}  # fmt: skip
    model = {
        "type": "BPE",
        "vocab": {piece: i for i, piece in enumerate(VOCAB)},
        "merges": [list(m) for m in MERGES],
    }
    content = {
        "version": "1.0",
        "added_tokens": [end],
        "pre_tokenizer": BYTE_LEVEL,
        "decoder": BYTE_LEVEL,
        "model": model,
    }
    return json.dumps(content | changes)


END = len(VOCAB)
SIZE = END + 3  # padded
TEMPLATE = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<|end|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
               {"SpecialToken": {"id": "<|end|>", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
    "special_tokens": {"<|end|>": {"id": "<|end|>", "ids": [END], "tokens": ["<|end|>"]}},
}  # fmt: skip


@pytest.fixture
def pairs() -> JsonTokenizer:
    pytest.importorskip("tokenizers")
    return JsonTokenizer(byte_level(), SIZE)


def test_text_comes_back(pairs: JsonTokenizer) -> None:
    ids = pairs.encode("the cat")
    assert pairs.strings(ids) == ("the", " cat")
    assert pairs.decode(ids) == "the cat"
    assert len(pairs) == SIZE


@given(st.text(max_size=30))
def test_any_text_comes_back(text: str) -> None:
    pytest.importorskip("tokenizers")
    coder = JsonTokenizer(byte_level(post_processor=TEMPLATE), SIZE)
    assert coder.decode(coder.encode(text)) == text


def test_bytes_that_are_no_text_are_shown_as_bytes(pairs: JsonTokenizer) -> None:
    ids = pairs.encode("é")
    assert pairs.strings(ids) == ("\\xc3", "\\xa9")
    assert pairs.decode(ids) == "é"


def test_what_belongs_around_a_text_is_added_and_taken_away() -> None:
    pytest.importorskip("tokenizers")
    coder = JsonTokenizer(byte_level(post_processor=TEMPLATE), SIZE)
    ids = coder.encode("the cat")
    assert ids[0] == ids[-1] == END
    assert coder.decode(ids) == "the cat"
    assert coder.decode([*ids, END]) == "the cat<|end|>"  # one more than was put there is text
    assert coder.token_id("<|end|>") == END


def test_padding_and_truncation_are_never_done() -> None:
    pytest.importorskip("tokenizers")
    truncation = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    padding = {"strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
               "pad_type_id": 0, "pad_token": "!"}  # fmt: skip
    coder = JsonTokenizer(byte_level(truncation=truncation, padding=padding), SIZE)
    assert len(coder.encode("the cat the cat")) == 4


def test_one_token_by_its_look(pairs: JsonTokenizer) -> None:
    assert pairs.strings([pairs.token_id(" cat")]) == (" cat",)
    with pytest.raises(TokenError, match=r"'the cat' is not one token: it is 'the' \+ ' cat'"):
        pairs.token_id("the cat")
    with pytest.raises(TokenError, match="no token at all"):
        pairs.token_id("")


@pytest.mark.parametrize("ids", [[-1], [SIZE], [1.5], ["the"]])
def test_ids_outside_the_vocabulary(pairs: JsonTokenizer, ids: list[Any]) -> None:
    for act in (pairs.strings, pairs.decode):
        with pytest.raises(TokenError, match="at position 0 is not in the vocabulary"):
            act(ids)


def test_padded_ids_have_a_name(pairs: JsonTokenizer) -> None:
    assert pairs.strings([SIZE - 1]) == (f"<unused {SIZE - 1}>",)


def test_only_text_encodes(pairs: JsonTokenizer) -> None:
    with pytest.raises(TokenError, match="takes text"):
        pairs.encode(7)  # type: ignore[arg-type]


# Pieces with ▁ for the space ---------------------------------------------------------------------------------


def metaspace() -> str:
    rule = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True}
    vocab = {"<unk>": 0, "▁": 1, "a": 2, "▁a": 3, "b": 4, "<0x0A>": 5, "<0xE2>": 6, "▁ab": 7}
    model = {"type": "BPE", "vocab": vocab, "merges": [["▁", "a"], ["▁a", "b"]], "unk_token": "<unk>"}
    return json.dumps({"version": "1.0", "pre_tokenizer": rule, "decoder": rule, "model": model})


def test_metaspace_is_shown_as_a_space() -> None:
    coder = JsonTokenizer(metaspace(), 8)
    assert coder.strings([3, 5, 6]) == (" a", "\n", "\\xe2")
    assert coder.token_id("a") == 2
    assert coder.token_id(" a") == 3


def test_a_list_of_pieces_and_scores() -> None:
    """Unigram models keep their vocabulary as a list."""
    coder = JsonTokenizer(json.dumps({"model": {"type": "Unigram", "vocab": [["a", -1.0], ["b", -2.0]]}}), 2)
    assert coder.strings([1, 0]) == ("b", "a")


# In a model ----------------------------------------------------------------------------------------------------


def model_with_text(path: Path, text: str, size: int = SIZE) -> px.Model:
    config = {**LLAMA, "vocab_size": size}
    place = folder(path / "x", config, llama_arrays(config))
    (place / "tokenizer.json").write_text(text, encoding="utf-8")
    return px.load(place)


def test_a_model_reads_and_writes_text(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    with pytest.warns(LoadWarning, match=r"tokenizer\.json' has no token for 2 of the model's 265"):
        model = model_with_text(tmp_path, byte_level())
    trace = model.run("the cat")
    assert trace.token_strings == ("the", " cat")
    assert trace.logit(" cat").label
    model.save(tmp_path / "x.npz")
    assert px.load(tmp_path / "x.npz").encode("the cat") == model.encode("the cat")


def test_ids_work_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    model = model_with_text(tmp_path, byte_level(), END + 1)
    assert model.run([0, END]).token_strings == ("!", "<|end|>")
    with pytest.raises(TokenError, match=r"-m pip install '.*\[hf\]' \(token ids"):
        model.run("the cat")


def test_more_tokens_than_the_model_knows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=f"it has token id {END}, but the model knows 11 tokens only"):
        model_with_text(tmp_path, byte_level(), size=11)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"model": {"vocab": 7}}', '{"model": {"vocab": {"a": "b"}}}',
                                  '{"model": {"vocab": {}}, "added_tokens": [{}]}'])  # fmt: skip
def test_files_that_are_no_tokenizer(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(text)
    with pytest.raises(LoadError, match=r"tokenizer\.json"):
        open_tokenizer(path, 9)


def test_what_the_package_cannot_read_is_an_error_of_ours() -> None:
    pytest.importorskip("tokenizers")
    coder = JsonTokenizer('{"model": {"type": "Mine", "vocab": {"a": 0}}}', 1)
    with pytest.raises(TokenError, match="cannot read"):
        coder.encode("a")


def test_word_level_vocabularies_without_an_unknown_token(tmp_path: Path) -> None:
    """T-05: what is not in them is a TokenError, never a bare Exception of the package."""
    pytest.importorskip("tokenizers")
    split = {"type": "WhitespaceSplit"}
    vocab = {"<s>": 0, "1": 1, "2": 2, "+": 3, "=": 4}
    coder = JsonTokenizer(
        json.dumps(
            {
                "version": "1.0",
                "pre_tokenizer": split,
                "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "<unk>"},
            }
        ),
        5,
    )
    assert coder.encode("1 + 2") == [1, 3, 2]
    assert coder.decode([1, 3, 2]) == "1 + 2"
    with pytest.raises(TokenError, match=r"'1 \+ 7' has characters that are not in this vocabulary of 5"):
        coder.encode("1 + 7")
    with pytest.raises(TokenError, match="'7' has characters that are not in this vocabulary"):
        coder.token_id("7")


def test_digits_between_begin_and_end_tokens_come_back() -> None:
    """T-06: the template is read; no letter is probed with, which such a vocabulary does not have."""
    pytest.importorskip("tokenizers")
    vocab = {"<s>": 0, "</s>": 1, "1": 2, "2": 3, "+": 4, "=": 5}
    around = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                   {"SpecialToken": {"id": "</s>", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {name: {"id": name, "ids": [vocab[name]], "tokens": [name]} for name in ("<s>", "</s>")},
    }  # fmt: skip
    model = {"type": "BPE", "vocab": vocab, "merges": []}
    content = {"version": "1.0", "post_processor": around, "decoder": {"type": "Fuse"}, "model": model}
    coder = JsonTokenizer(json.dumps(content), 6)
    ids = coder.encode("1+2=")
    assert ids == [0, 2, 4, 3, 5, 1]
    assert coder.decode(ids) == "1+2="
    assert coder.encode(coder.decode(ids)) == ids


@pytest.mark.parametrize(
    ("processor", "around"),
    [
        (None, ([], [])),
        ({"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}, ([], [])),
        ({"type": "BertProcessing", "sep": ["[SEP]", 1], "cls": ["[CLS]", 0]}, ([0], [1])),
        ({"type": "RobertaProcessing", "sep": ["[SEP]", 1], "cls": ["[CLS]", 0], "trim_offsets": True, "add_prefix_space": False}, ([0], [1])),
        ({"type": "Sequence", "processors": [{"type": "BertProcessing", "sep": ["[SEP]", 1], "cls": ["[CLS]", 0]}]}, ([0], [1])),
    ],
)  # fmt: skip
def test_what_belongs_around_a_text_is_read_from_every_kind_of_file(processor: Any, around: Any) -> None:
    """Compared with the package, which is asked for the ids of one letter."""
    pytest.importorskip("tokenizers")
    vocab = {"[CLS]": 0, "[SEP]": 1, "a": 2}
    content = {
        "version": "1.0",
        "post_processor": processor,
        "model": {"type": "BPE", "vocab": vocab, "merges": []},
    }
    coder = JsonTokenizer(json.dumps(content), 3)
    assert around_of(processor) == around
    assert coder.encode("a") == [*around[0], 2, *around[1]]
    assert coder.decode(coder.encode("a")) == "a"


# Scored pieces ---------------------------------------------------------------------------------------------------

BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
PIECES = ("<s>", *BYTES, " ", "t", "h", "e", "th", "he", "the", " the")
SCORED = ScoredTokenizer(PIECES, (0.0,) * 261 + (-2.0, -1.0, -3.0, -4.0), begin=0)


def test_the_best_scored_neighbors_merge_first() -> None:
    """'he' scores above 'th', so 'the' is reached by t + he; of equals, the first in the text."""
    without_the = ScoredTokenizer(PIECES[:-2], SCORED.scores[:-2], begin=0)
    assert without_the.strings(without_the.encode("the")) == ("<s>", " ", "t", "he")


def test_pieces_of_several_merges() -> None:
    assert SCORED.encode("the") == [0, SCORED.token_id(" the")]
    assert SCORED.strings(SCORED.encode("thethe")) == ("<s>", " the", "the")


@given(st.text(max_size=20))
def test_scored_text_comes_back(text: str) -> None:
    assert SCORED.decode(SCORED.encode(text)) == text


def test_of_equal_scores_the_first_in_the_text_merges() -> None:
    pairs = ScoredTokenizer(("a", "aa"), (0.0, 1.0), space=False)
    assert pairs.strings(pairs.encode("aaa")) == ("aa", "a")


def test_without_bytes_an_unknown_character_is_an_error() -> None:
    small = ScoredTokenizer((" ", "a"), (0.0, 0.0))
    with pytest.raises(TokenError, match=r"'é' \(U\+00E9\) at position 1 is not in this vocabulary of 2"):
        small.encode("aé")


def test_no_space_where_none_is_asked_for() -> None:
    plain = ScoredTokenizer(PIECES, SCORED.scores, space=False)
    assert plain.strings(plain.encode("the")) == ("the",)
    assert plain.decode(plain.encode(" the")) == " the"


@pytest.mark.parametrize(
    ("pieces", "scores", "begin"),
    [((), (), None), (("a",), (), None), (("a",), (float("nan"),), None), (("a",), (0.0,), 1)],
)
def test_scored_vocabularies_that_are_none(pieces: Any, scores: Any, begin: Any) -> None:
    with pytest.raises(TokenError):
        ScoredTokenizer(pieces, scores, begin)


@pytest.mark.parametrize("coder", [SCORED, JsonTokenizer(byte_level(), SIZE)])
def test_tokenizers_come_back_from_their_values(coder: Any) -> None:
    values: Mapping[str, Any] = json.loads(json.dumps(coder.to_dict()))
    assert coder_from_dict(values) == coder


@pytest.mark.parametrize(
    "values",
    [{}, {"kind": "morse"}, {"kind": "scored-merges"}, {"kind": "tokenizer.json", "json": 7},
     {"kind": "scored-merges", "pieces": ["a"], "scores": [0.0], "begin": "a"}],
)  # fmt: skip
def test_values_that_are_no_tokenizer(values: dict[str, Any]) -> None:
    with pytest.raises(LoadError):
        coder_from_dict(values)


def merged_by_definition(pieces: list[str], scores: list[float], text: str) -> list[str]:
    """Again and again the best of all neighbors, the first of equals."""
    found = list(text)
    while True:
        pairs = [
            (-scores[pieces.index(a + b)], i) for i, (a, b) in enumerate(pairwise(found)) if a + b in pieces
        ]
        if not pairs:
            return found
        place = min(pairs)[1]
        found[place : place + 2] = ["".join(found[place : place + 2])]


@given(
    st.lists(st.text("abc", min_size=2, max_size=4), unique=True, max_size=12),
    st.lists(st.integers(0, 3), min_size=15, max_size=15),
    st.text("abc", max_size=25),
)
def test_scored_merges_are_those_of_the_definition(longer: list[str], scores: list[float], text: str) -> None:
    pieces = ["a", "b", "c", *longer]
    coder = ScoredTokenizer(tuple(pieces), tuple(scores[: len(pieces)]), space=False)
    assert [pieces[token] for token in coder.encode(text)] == merged_by_definition(pieces, scores, text)


def test_scored_merges_of_a_long_text_take_seconds_not_minutes() -> None:
    coder = ScoredTokenizer(("a", "b", "ab", "abab"), (0, 0, 2, 1), space=False)
    assert coder.encode("ab" * 40_000) == [3] * 20_000
