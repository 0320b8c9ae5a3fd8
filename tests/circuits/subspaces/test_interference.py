"""Interference: cosines on paper, of components, of trained tokens; the command."""

import json

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.subspaces.interference import directions_of, interference
from pathexp.cli import main


def test_interference_of_directions():
    found = interference(np.vstack([np.eye(3), [[1.0, 1.0, 0.0]]]))
    assert found.worst()[2] == pytest.approx(2**-0.5) and found.least > 0
    assert interference(np.eye(3)).rms == 0
    for wrong in (np.ones(3), np.zeros((2, 3)), np.ones((1, 3))):
        with pytest.raises(px.PathexpError):
            interference(wrong)


def test_directions_of_writers_and_readers():
    model = px.random_model(layers=1, heads=2, d_mlp=5, norm="rmsnorm", biases=True)
    w, c = model.weights, model.config
    np.testing.assert_allclose(directions_of(model, "L0M", "raw"), w.W_out[0].T)
    np.testing.assert_allclose(directions_of(model, "L0M.in", "raw"), w.W_in[0])
    np.testing.assert_allclose(directions_of(model, "U", "raw"), w.W_U)
    np.testing.assert_allclose(directions_of(model, "L0H1.O", "raw"), w.W_O[0, 1].T)
    assert directions_of(model, "P").shape == (c.n_ctx, c.d_model)
    trained = interference(px.load("attn-2l"))
    assert trained.rms > trained.least and trained.pairs(3)[0] == trained.worst()


def test_trained_tokens_interfere_more_than_random_ones_and_by_meaning():
    model = px.load("attn-2l")
    found = interference(model)
    assert found.least < found.baseline < found.rms < 1.3 * found.baseline
    words = {frozenset(model.token_string(i) for i in pair[:2]) for pair in found.pairs(4)}
    assert words == {
        *map(frozenset, ((" our", " your"), (" mine", " thine"), (" his", " thy"), (" my", "My")))
    }


def test_directions_of_a_label_are_those_that_are_given():
    model = px.random_model(layers=1, heads=2, d_mlp=5, biases=True)
    named, given = interference(model, label="L0M", k=2), interference(directions_of(model, "L0M"), k=2)
    np.testing.assert_array_equal(named.gram, given.gram)
    assert [row["cosine"] for row in named.records()] == [row["cosine"] for row in given.records()]


def test_the_command_prints_the_same_answer(capsys):
    assert main(["interference", "attn-1l", "--label", "U", "--top", "3", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    found = interference(px.load("attn-1l"), label="U", k=3)
    assert data == json.loads(found.to_json()) and data["rms_cosine"] == found.rms
    assert len(data["tables"]["pairs"]["rows"]) == 3
    assert main(["interference", "--top", "1"]) == 0
    assert '" your"  " our"  +0.644' in capsys.readouterr().out
    assert main(["interference", "attn-1l", "--label", "L0M"]) == 2


def test_the_picture_holds_every_direction_of_the_pairs():
    data = interference(px.load("attn-2l"), k=2).figures()["cosines"].data
    assert data["rows"] == [" your", " our", " mine", " thine"] == data["columns"]
    assert data["values"][0][1] == pytest.approx(0.644, abs=5e-4)


@pytest.mark.parametrize(
    "ask",
    [
        lambda model: directions_of(model, "L0M"),
        lambda model: directions_of(model, ""),
        lambda model: interference(model, label="L0M"),
        lambda model: interference(model, k=-1),
        lambda model: interference([]),
        lambda model: interference(None),
        lambda model: interference([[np.nan, 1.0], [1.0, 1.0]]),
        lambda model: interference(np.ones((9000, 2))),
        lambda model: interference([["a", "b"], ["c", "d"]]),
    ],
)
def test_what_cannot_be_asked_is_refused_by_name(ask):
    with pytest.raises(px.PathexpError):
        ask(px.load("attn-1l"))
