"""Rotating the stream: coordinates change, virtual weights and outputs do not; the command."""

import json
from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp import rotate_basis
from pathexp.circuits.subspaces import rotate_basis as module
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
    monkeypatch.setattr("pathexp.circuits.subspaces.rotate_basis._change", lambda *_: (0.5, 7))
    assert main(["rotate-basis", "attn-1l"]) == 1
    assert "does not hold" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [{"k": 0}, {"k": 129}, {"k": None}, {"seed": -1}, {"seed": "x"}])
def test_what_cannot_be_asked_is_refused_by_name(wrong):
    with pytest.raises(px.PathexpError):
        rotate_basis(px.load("attn-2l"), **wrong)
    with pytest.raises(px.PathexpError, match="expected a model"):
        rotate_basis(None)


@pytest.mark.parametrize("zero", [False, True])
def test_virtual_weights_meet_in_blocks_as_pair_by_pair(zero, monkeypatch):
    model = px.random_model(
        layers=3, heads=4, kv_heads=2, d_head=5, d_mlp=11, d_vocab=300, norm="rmsnorm", biases=True, seed=4
    )
    W_out = np.array(model.weights.W_out)
    W_out[1, 2, 3] *= 1 + 1e-3
    W_in = np.array(model.weights.W_in)
    W_in[2, 4] = 0.0 if zero else W_in[2, 4]
    model = replace(model, weights=replace(model.weights, W_in=W_in))
    other = replace(model, weights=replace(model.weights, W_out=W_out))
    first, second = module.Ports(model), module.Ports(other)
    writers = tuple(f"{label}.O" if "H" in label else label for label in module.writers_of(model))
    monkeypatch.setattr(module, "BLOCK", 7)
    found, pairs = module._change(first, second, writers, 0)
    each = []
    for reader in module.readers_of(model):
        for writer in writers:
            if first.place(writer).writes <= first.place(reader).reads:
                sides = [
                    (module._sampled(p.reader(reader), 0, 0), module._sampled(p.writer(writer), 1, 0))
                    for p in (first, second)
                ]
                change = np.abs(sides[0][0] @ sides[0][1] - sides[1][0] @ sides[1][1])
                sizes = np.linalg.norm(sides[0][0], axis=1)[:, None] * np.linalg.norm(sides[0][1], axis=0)
                each.append(np.divide(change, sizes, out=np.zeros_like(change), where=sizes > 0).max())
    assert pairs == len(each) and found == pytest.approx(max(each), rel=1e-9) and found > 1e-5


def test_what_meets_nothing_and_changes_is_infinite():
    rows, columns = np.array([[0.0, 0.0], [1.0, 2.0]]), np.array([[1.0, 0.0], [3.0, 0.0]])
    assert max(module._met([rows, rows], [columns, columns])) == 0
    assert max(module._met([rows, rows + np.array([[1e-9], [0]])], [columns, columns])) == np.inf
