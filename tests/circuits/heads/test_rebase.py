"""Heads in another basis: what changes, what does not, in every architecture, and refused."""

import json

import numpy as np
import pytest

import pathexp as px
from tests.commands import json_of, printed, refusal, saved
from tests.zoo import FAMILIES, ZOO


def test_rebased_trained(capsys):
    command = ["rebase", "attn-2l", "the king", "--head", "L1H3", "--seed", "3"]
    data, trace = json_of(capsys, *command), px.load("attn-2l").run("the king")
    found = px.rebase(trace, "L1H3", seed=3)
    assert data == json.loads(found.to_json()) and found.ok and data["circuits"] == "OV QK"
    (check,) = data["checks"]
    assert check["ok"] and 0 < check["error"] < 1e-11
    np.testing.assert_allclose(found.model.run("the king").logits, trace.logits, atol=check["tolerance"])
    for row in data["tables"]["maps"]["rows"]:
        if row["map"] in ("OV", "QK"):
            assert row["change"] < 1e-11 * row["largest"]
        else:
            assert row["change"] > 0.1 * row["largest"]
    assert "the logits stay" in printed(capsys, *command)


def test_one_circuit_in_a_basis_that_is_given():
    found = px.rebase(px.load("attn-2l").run("the king"), "L1H3", circuit="QK", basis=2 * np.eye(16))
    assert [row["map"] for row in found.records()] == ["W_Q", "W_K", "QK"]
    assert {row["map"]: row["change"] / row["largest"] for row in found.records()} == {
        "W_Q": 0.5,
        "W_K": 1.0,
        "QK": 0.0,
    }


@pytest.mark.parametrize("name", [name for name, make in (ZOO | FAMILIES).items() if make().config.n_layers])
def test_values_are_rebased_in_every_architecture(name):
    found = px.rebase((ZOO | FAMILIES)[name]().run([1, 4, 2, 5]), "L0H0", circuit="OV")
    change = {row["map"]: row["change"] for row in found.records()}
    assert found.ok and change["W_V"] > 1e-3 and change["OV"] < 1e-9


def test_refused(capsys, tmp_path):
    assert "no head 'L7H0'" in refusal(capsys, "rebase", "--head", "L7H0")
    path = saved(tmp_path, positions="rotary")
    err = refusal(capsys, "rebase", path, "--tokens", "1,2", "--head", "L0H1")
    assert "cannot be re-based under rotary positions" in err
