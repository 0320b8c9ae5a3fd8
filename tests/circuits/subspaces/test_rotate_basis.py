"""Rotating the stream: coordinates change, virtual weights and outputs do not; the command."""

import json
from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp import rotate_basis
from pathexp.cli import main
from tests.shared_models import shared_file


@pytest.mark.parametrize("model", ["attn-1l", "attn-2l"])
def test_rotating_kills_coordinates_and_keeps_outputs_and_virtual_weights(model):
    found = rotate_basis(px.load(model))
    assert found.logits < 1e-12 and found.weights < 1e-12 and found.ok
    assert found.kept < 2 * found.baseline, "no more of the largest coordinates stay than by chance"


def test_rotating_the_trained_model_with_norms_and_mlps():
    found = rotate_basis(px.load(shared_file("stories260K.bin")))
    assert found.logits < 1e-12 and found.weights < 1e-12 and found.pairs == 1836
    assert found.kept < 1.5 * found.baseline


def test_rotating_takes_the_basis_of_norms_away_first():
    model = px.random_model(
        layers=1, heads=2, d_model=40, d_head=3, positions="none", norm="layernorm", biases=True
    )
    found = rotate_basis(model, k=3)
    assert found.ok and [one.writer for one in found.coordinates] == ["E", "L0H0.O", "L0H1.O"]
    same = rotate_basis(model, k=40)
    assert same.kept == same.baseline == 1, "all coordinates are listed"


def test_rotating_one_hot_writers_on_paper():
    """Token t writes coordinate t alone, as loud as it is; rotated, every coordinate is written, and nothing else changes."""
    model = px.random_model(layers=1, heads=1, d_model=64, d_head=3, d_vocab=9, positions="none")
    W_E = np.eye(64)[:, :9] * np.arange(9, 0, -1)
    found = rotate_basis(replace(model, weights=replace(model.weights, W_E=W_E)), k=9)
    assert found.coordinates[0].before == tuple(range(9)), "its own coordinates, the loudest first"
    assert found.coordinates[0].kept < 5 and found.ok and found.weights < 1e-12 and found.logits < 1e-12


def test_the_command_prints_the_same_answer(capsys):
    assert main(["rotate-basis", "attn-1l", "--top", "4", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    found = rotate_basis(px.load("attn-1l"), k=4)
    assert data == json.loads(found.to_json())
    assert all(check["ok"] for check in data["checks"]) and len(data["tables"]["writers"]["rows"]) == 9
    assert main(["rotate-basis", "attn-0l"]) == 0
    assert "1 virtual weight stayed: error" in capsys.readouterr().out
    assert found.figures()["coordinates"].data["values"][0][0] == 4


def test_a_rotation_that_changes_something_has_its_exit_code(capsys, monkeypatch):
    monkeypatch.setattr("pathexp.circuits.subspaces.rotate_basis._change", lambda *_: 0.5)
    assert main(["rotate-basis", "attn-1l"]) == 1
    assert "does not hold" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [{"k": 0}, {"k": 129}, {"k": None}, {"seed": -1}, {"seed": "x"}])
def test_what_cannot_be_asked_is_refused_by_name(wrong):
    with pytest.raises(px.PathexpError):
        rotate_basis(px.load("attn-2l"), **wrong)
    with pytest.raises(px.PathexpError, match="expected a model"):
        rotate_basis(None)
