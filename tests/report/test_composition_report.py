"""The compose and virtual commands: what they print, draw and write."""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.cli import main


@pytest.fixture
def model():
    return px.random_model(layers=2, heads=2, d_vocab=9, norm="layernorm", biases=True, seed=1)


@pytest.fixture
def model_file(tmp_path, model):
    model.save(tmp_path / "tiny.npz")
    return str(tmp_path / "tiny.npz")


def test_compose_prints_pairs_beside_chance(capsys, model_file):
    assert main(["compose", model_file, "--top", "3", "--path", "L0H1 L1H0 U"]) == 0
    out = capsys.readouterr().out
    for part in ("L0H1 → L1H0 → U: ", "by chance 0.2041", "norms folded", "× chance"):
        assert part in out, part
    assert len(out.strip().split("\n")) == 10


def test_compose_as_json_and_svg(capsys, model_file, model, tmp_path):
    assert main(["compose", model_file, "--json", "--norms", "raw", "--svg", str(tmp_path / "c.svg")]) == 0
    data = json.loads(capsys.readouterr().out)
    table = px.composition_table(model, norms="raw")
    assert tuple(data["readers"]) == table.readers and data["path"] is None
    assert data["score"][-1] == table.score[-1].tolist() and data["score"][0][-1] is None
    assert ET.parse(tmp_path / "c.svg").getroot() is not None


def test_compose_says_what_is_undefined(capsys, model, tmp_path):
    w = model.weights
    px.Model(model.config, replace(w, W_O=w.W_O * np.array([0.0, 1.0])[None, :, None, None])).save(
        tmp_path / "zero.npz"
    )
    assert main(["compose", str(tmp_path / "zero.npz"), "--path", "L0H0 L1H1"]) == 0
    out = capsys.readouterr().out
    assert "L0H0 → L1H1: undefined, because these maps are zero: L0H0" in out
    assert "undefined, because these maps are zero: L0H0.V, L1H0.V, L0H0, L1H0" in out


def test_virtual_prints_the_largest_entries(capsys, model_file, model):
    assert main(["virtual", model_file, "--through", "L0H1", "--top", "4", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    dense = px.virtual_weight(model, "E", "U", "L0H1").dense()
    best = np.sort(np.abs(dense), axis=None)[::-1][:4]
    np.testing.assert_allclose(np.abs([entry["weight"] for entry in data["entries"]]), best)
    entry = data["entries"][0]
    assert dense[entry["to"], entry["from"]] == pytest.approx(entry["weight"])
    assert data["norm"] == pytest.approx(np.linalg.norm(dense))


def test_virtual_writes_the_table(capsys, model_file, model, tmp_path):
    assert (
        main(
            [
                "virtual",
                model_file,
                "--writer",
                "L0H1",
                "--reader",
                "L1H0.Q",
                "--save",
                str(tmp_path / "t.npy"),
            ]
        )
        == 0
    )
    captured = capsys.readouterr()
    assert "from L0H1 to L1H0.Q, direct" in captured.out and "5 of 5 rows written" in captured.err
    found = np.load(tmp_path / "t.npy", allow_pickle=False)
    np.testing.assert_allclose(found, px.virtual_weight(model, "L0H1", "L1H0.Q").dense(), rtol=1e-6)


@pytest.mark.parametrize("asked", [["virtual", "--through", "L9H9"], ["compose", "--path", "L1H0 L0H0"]])
def test_bad_input_is_refused(capsys, model_file, asked):
    assert main([asked[0], model_file, *asked[1:]]) == 2
    assert "Error: " in capsys.readouterr().err
