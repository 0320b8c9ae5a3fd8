"""Characters that a vocabulary of pieces does not have: refused, left out, or replaced, and counted."""

import pickle
import warnings

import pytest

import pathexp as px
from pathexp.cli import main
from pathexp.errors import LoadError, LoadWarning, TokenError
from pathexp.model import Tokenizer

TEXT = "Macbeth #1 shall"


def test_refused_by_default_with_both_ways_on():
    with pytest.raises(
        TokenError, match=r"'#' \(U\+0023\) at position 8.*unknown='skip'\) or --unknown skip"
    ):
        px.load("attn-2l").run(TEXT)
    with pytest.raises(TokenError, match="at position 8"):
        px.load("attn-2l", unknown="refuse").run(TEXT)


@pytest.mark.parametrize("letter", ["#", "7", '"'])
def test_signs_digits_and_quotation_marks_alike(letter):
    """Each is refused with its place, left out, or replaced; and counted."""
    text = f"Macbeth {letter} shall {letter}"
    with pytest.raises(TokenError, match=rf"{letter}.*at position 8"):
        px.load("attn-1l").encode(text)
    for unknown in ("skip", "x"):
        with pytest.warns(LoadWarning, match="2 characters of"):
            found = px.load("attn-1l", unknown=unknown).encode(text)
        put = "" if unknown == "skip" else unknown
        assert found == px.load("attn-1l").encode(text.replace(letter, put))


@pytest.mark.parametrize(("unknown", "same"), [("skip", "Macbeth  shall"), ("X", "Macbeth XX shall")])
def test_left_out_or_replaced_and_counted(unknown, same):
    model = px.load("attn-2l", unknown=unknown)
    done = "left out" if unknown == "skip" else "replaced by 'X'"
    with pytest.warns(LoadWarning, match=f"2 characters of '{TEXT}' {done}: this vocabulary of 1024"):
        trace = model.run(TEXT)
    assert trace.tokens.tolist() == px.load("attn-2l").encode(same)
    with pytest.warns(LoadWarning, match="1 character of '#' "):
        assert [len(ids) for ids in (model.encode("#"),)] == [len(same) - len("Macbeth  shall") and 1]


def test_known_texts_are_not_touched_and_the_bundled_model_stays_as_it_is():
    model = px.load("attn-2l", unknown="skip")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.encode("Macbeth shall") == px.load("attn-2l").encode("Macbeth shall")
    assert px.load("attn-2l").tokenizer.unknown == "refuse"
    assert pickle.loads(pickle.dumps(model.tokenizer)) == model.tokenizer


def test_a_target_is_never_guessed():
    trace = px.load("attn-2l", unknown="skip").run("Macbeth")
    with pytest.raises(TokenError, match="'#'"):
        trace.logit("#")


def test_files_of_ours_offer_it_and_others_refuse(tmp_path):
    letters = Tokenizer(tuple("abcdefghijk"))
    model = px.random_model(d_vocab=11)
    px.Model(model.config, model.weights, letters).save(tmp_path / "m.npz")
    with pytest.warns(LoadWarning, match="1 character of 'a#b' left out"):
        assert px.load(tmp_path / "m.npz", unknown="skip").encode("a#b") == [0, 1]
    model.save(tmp_path / "none.npz")
    with pytest.raises(LoadError, match="has no tokenizer: leave unknown out"):
        px.load(tmp_path / "none.npz", unknown="skip")
    with pytest.raises(TokenError, match="'#'"):
        px.load(tmp_path / "m.npz", unknown="#")
    with pytest.raises(LoadError, match="unknown: expected a string"):
        px.load(tmp_path / "m.npz", unknown=3)


def test_the_command_line_takes_it(capsys):
    assert main(["lens", "attn-2l", TEXT]) == 2
    assert "--unknown skip" in capsys.readouterr().err
    with pytest.warns(LoadWarning, match="left out"):
        assert main(["lens", "attn-2l", TEXT, "--unknown", "skip"]) == 0
    assert '" shall"' in capsys.readouterr().out
