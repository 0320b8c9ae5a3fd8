"""Characters that a bundled tokenizer does not know: refused, left out or replaced, and counted."""

import warnings

import numpy as np
import pytest

import pathexp as px
from pathexp.cli import main
from pathexp.errors import LoadWarning, PathexpError, TokenError

MODEL = px.load("attn-1l")
TEXT = "Macbeth shall # sleep no more. 3 The king shall sleep. " * 9


def windows(**options):
    return [w.tolist() for w in px.Corpus([TEXT, TEXT], length=8, **options).cut(MODEL)]


def test_the_default_names_place_and_character():
    with pytest.raises(TokenError, match=r"'#' \(U\+0023\) at position 14.*unknown='skip'"):
        windows()


def test_what_is_left_out_is_counted():
    with pytest.warns(LoadWarning, match=rf"18 of {2 * len(TEXT):,} characters .* left out"):
        found = windows(unknown="skip")
    clean = TEXT.replace("#", "")
    assert found == [w.tolist() for w in px.Corpus([clean, clean], length=8).cut(MODEL)]
    with pytest.warns(LoadWarning, match="18 of .* replaced by 'x'"):
        assert windows(unknown="x")
    with pytest.raises(TokenError):
        windows(unknown="#")


def test_known_texts_are_told_nothing_and_stay_as_they_are():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = list(px.Corpus(["Macbeth shall sleep no more."], length=4, unknown="skip").cut(MODEL))
    assert np.array_equal(found, list(px.Corpus(["Macbeth shall sleep no more."], length=4).cut(MODEL)))
    text, left = MODEL.tokenizer.known(TEXT)
    assert left == 9 and MODEL.encode(text) and MODEL.tokenizer.known(text) == (text, 0)
    assert MODEL.tokenizer.known("") == ("", 0)


def test_other_tokenizers_and_kinds_are_refused():
    with pytest.raises(PathexpError, match="unknown"):
        px.Corpus([TEXT], unknown=3)


def test_the_command_line_offers_it(tmp_path, capsys):
    file = tmp_path / "corpus.txt"
    file.write_text(TEXT)
    arguments = ["order-importance", "attn-1l", "--corpus", str(file), "--length", "8", "--max-order", "-1"]
    assert main(arguments) == 2 and "U+0023" in capsys.readouterr().err
    with pytest.warns(LoadWarning, match="9 of"):
        assert main([*arguments, "--unknown", "skip", "--windows", "999"]) == 0
