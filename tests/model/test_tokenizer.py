"""Text to ids and back: exact, by one rule, and clear about what it cannot read."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pathexp.errors import LoadError, TokenError
from pathexp.model.tokenizer import Tokenizer

SYMBOLS = ("a", "b", " ", "'", "\n", "ab", " a", "aba", "abba", "bb\n")
TOKENIZER = Tokenizer(SYMBOLS)
TEXTS = st.text(alphabet="ab '\n", max_size=40)


def longest_match(symbols: tuple[str, ...], text: str) -> list[str]:
    """The rule, said as plainly as can be."""
    pieces = []
    while text:
        piece = max((s for s in symbols if text.startswith(s)), key=len)
        pieces.append(piece)
        text = text[len(piece) :]
    return pieces


@given(TEXTS)
def test_text_comes_back_exactly(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


@given(TEXTS)
def test_the_longest_piece_is_taken_at_each_place(text: str) -> None:
    assert list(TOKENIZER.strings(TOKENIZER.encode(text))) == longest_match(SYMBOLS, text)


@given(st.lists(st.text(min_size=1, max_size=4), unique=True, min_size=1, max_size=12), st.data())
def test_any_vocabulary_round_trips_what_it_can_spell(symbols: list[str], data: st.DataObject) -> None:
    tokenizer = Tokenizer(tuple(symbols) + tuple(sorted(set("".join(symbols)) - set(symbols))))
    text = "".join(data.draw(st.lists(st.sampled_from(tokenizer.symbols), max_size=10)))
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_every_symbol_is_its_own_token() -> None:
    assert [TOKENIZER.token_id(symbol) for symbol in SYMBOLS] == list(range(len(SYMBOLS)))


def test_empty_text_has_no_tokens() -> None:
    assert TOKENIZER.encode("") == []
    assert TOKENIZER.decode([]) == ""


def test_ids_may_be_numpy_integers() -> None:
    assert TOKENIZER.decode(np.array([7, 0])) == "abaa"


def test_an_unknown_character_is_named_with_its_place_and_context() -> None:
    with pytest.raises(TokenError) as caught:
        TOKENIZER.encode("abba ba é ab")
    message = str(caught.value)
    assert "'é'" in message and "U+00E9" in message
    assert "position 8" in message
    assert "'abba ba '" in message and "' ab'" in message
    assert "Replace or remove it" in message


def test_a_character_known_only_inside_longer_pieces_is_unknown_alone() -> None:
    with pytest.raises(TokenError, match=r"'x' .* position 2"):
        Tokenizer(("xy", "y")).encode("xyx")


def test_a_text_of_several_tokens_has_no_single_id() -> None:
    with pytest.raises(TokenError, match=r"'abb' is not one token: it is 'ab' \+ 'b'"):
        TOKENIZER.token_id("abb")


def test_the_empty_text_has_no_single_id() -> None:
    with pytest.raises(TokenError, match="no token at all"):
        TOKENIZER.token_id("")


def test_a_word_that_is_one_token_only_with_its_space_is_pointed_out() -> None:
    tokenizer = Tokenizer(("t", "h", "e", " ", " the"))
    with pytest.raises(TokenError, match="' the' is one token"):
        tokenizer.token_id("the")


@pytest.mark.parametrize("token", [-1, len(SYMBOLS), 1.0, "a"])
def test_ids_outside_the_vocabulary_are_refused(token: object) -> None:
    with pytest.raises(TokenError, match=r"position 1 .* from 0 to 9"):
        TOKENIZER.decode([0, token])  # type: ignore[list-item]


@pytest.mark.parametrize("text", [None, b"ab", ["a"], 3])
def test_what_is_no_text_is_refused(text: object) -> None:
    with pytest.raises(TokenError, match="takes text"):
        TOKENIZER.encode(text)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("symbols", "message"),
    [
        ((), "at least one symbol"),
        (("a", ""), "Symbol 1 must be a text"),
        (("a", 3), "Symbol 1 must be a text"),
        (("a", "b", "a"), "'a' occurs twice, as token 0 and 2"),
    ],
)
def test_what_is_no_vocabulary_is_refused(symbols: tuple[str, ...], message: str) -> None:
    with pytest.raises(TokenError, match=message):
        Tokenizer(symbols)


def test_json_and_back() -> None:
    assert Tokenizer.from_dict(json.loads(json.dumps(TOKENIZER.to_dict()))) == TOKENIZER


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "kind None is not known"),
        ({"kind": "bpe", "symbols": ["a"]}, "kind 'bpe' is not known; known: 'longest-match'"),
        ({"kind": "longest-match"}, "must be a list"),
        ({"kind": "longest-match", "symbols": "ab"}, "must be a list"),
    ],
)
def test_what_is_no_tokenizer_is_refused(data: dict[str, object], message: str) -> None:
    with pytest.raises(LoadError, match=message):
        Tokenizer.from_dict(data)


def test_a_tokenizer_is_a_value() -> None:
    assert Tokenizer(SYMBOLS) == TOKENIZER
    assert hash(Tokenizer(SYMBOLS)) == hash(TOKENIZER)
    with pytest.raises(AttributeError):
        TOKENIZER.symbols = ()  # type: ignore[misc]
