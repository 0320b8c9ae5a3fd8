"""Heads exchanged and re-based on the command line: on paper, trained, in every architecture, and refused."""

import json

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits import swap_ov, swap_qk
from pathexp.cli import main
from tests.zoo import FAMILIES, ZOO

SOURCE, OUTPUT, OTHER = range(3)


def one_looks_and_one_averages():
    """Head 0 looks at the source with score 8 and raises the output by 3; head 1 looks everywhere, brings nothing."""
    Q, K, V, O = np.zeros((2, 1, 3)), np.zeros((2, 1, 3)), np.zeros((2, 1, 3)), np.zeros((2, 3, 1))
    Q[0, 0], K[0, 0, SOURCE], V[0, 0, SOURCE], O[0, OUTPUT] = 8, 1, 1, 3
    config = px.Config(n_layers=1, n_heads=2, d_model=3, d_head=1, d_vocab=3, n_ctx=9, attention_scale=1.0)
    return px.Model(
        config, px.Weights(W_E=np.eye(3), W_U=np.eye(3), W_Q=Q[None], W_K=K[None], W_V=V[None], W_O=O[None])
    )


@pytest.fixture
def saved(tmp_path):
    def save(model):
        path = tmp_path / "model.npz"
        model.save(path)
        return str(path)

    return save


def data_of(capsys, *arguments):
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("circuit", ["OV", "QK"])
def test_swapped_on_paper(capsys, saved, circuit):
    """What was brought from the source alone is brought from all three positions: 3 becomes 3 · ⅓."""
    path = saved(one_looks_and_one_averages())
    data = data_of(capsys, "swap", "L0H0", "L0H1", path, "--tokens", "0,2,2", "--circuit", circuit)
    change = data["largest_change"]
    assert (change["position"], change["token"]) == (2, OUTPUT)
    assert change["change"] == pytest.approx(1 - 3 * np.exp(8) / (np.exp(8) + 2))
    before, after = (data[when] for when in ("before", "after"))
    assert before["next"][0]["token"] == OUTPUT and len(before["next"]) == 3
    total = np.exp([0, 1, 1])  # after: logits 0 for the source, 1 for the output, 1 for the token itself
    assert after["next"][0]["probability"] == pytest.approx(total[1] / total.sum())
    assert after["loss"] > 0 and before["loss"] != after["loss"]


def test_equal_heads_swapped_change_nothing(capsys, saved):
    model = px.random_model(layers=1, heads=2, d_head=3, biases=True, seed=2)
    arrays = {name: np.array(array) for name, array in model.weights.arrays().items()}
    for name in ("W_Q", "W_K", "b_Q", "b_K"):
        arrays[name][0, 1] = arrays[name][0, 0]
    path = saved(px.Model(model.config, px.Weights(**arrays)))
    same = data_of(capsys, "swap", "L0H0", "L0H1", path, "--tokens", "1,2,3,4", "--circuit", "QK")
    other = data_of(capsys, "swap", "L0H0", "L0H1", path, "--tokens", "1,2,3,4")
    for data in (same, other):  # heads that look alike may exchange what they bring as well
        assert abs(data["largest_change"]["change"]) < 1e-14
        assert data["before"]["loss"] == pytest.approx(data["after"]["loss"], abs=1e-14)


@pytest.mark.parametrize(("circuit", "swap"), [("OV", swap_ov), ("QK", swap_qk)])
def test_swapped_trained(capsys, circuit, swap):
    """An induction head that brings what a previous-token head brings, or looks where it looks, copies no more."""
    text = "Macbeth shall sleep no more. Macbeth shall"
    data = data_of(capsys, "swap", "L1H3", "L0H2", "attn-2l", text, "--circuit", circuit, "--top", "2")
    model = px.load("attn-2l")
    before, after = (each.run(text) for each in (model, swap(model, "L1H3", "L0H2")))
    assert data["before"]["loss"] == before.loss() and data["after"]["loss"] == after.loss()
    assert data["after"]["loss"] > data["before"]["loss"] + 1
    assert abs(data["largest_change"]["change"]) == np.abs(after.logits - before.logits).max() > 1
    assert data["before"]["next"][0]["text"] == " sleep" != data["after"]["next"][0]["text"]
    assert [row["token"] for row in data["after"]["next"]] == np.argsort(-after.logits[-1])[:2].tolist()


def test_one_token_has_no_loss(capsys):
    assert data_of(capsys, "swap", "L1H3", "L0H2", "--tokens", "5")["after"]["loss"] is None
    assert main(["swap", "L1H3", "L0H2", "--tokens", "5"]) == 0
    assert "loss undefined before, undefined after" in capsys.readouterr().out


def test_rebased_trained(capsys):
    data = data_of(capsys, "rebase", "L1H3", "attn-2l", "the king", "--seed", "3")
    assert data["ok"] and data["circuits"] == ["OV", "QK"] and data["logits_change"] <= data["tolerance"]
    assert 0 < data["logits_change"] < 1e-11
    for name, found in data["maps"].items():
        if name in ("OV", "QK"):
            assert found["change"] < 1e-11 * found["largest"]
        else:
            assert found["change"] > 0.1 * found["largest"]
    assert list(data_of(capsys, "rebase", "L1H3", "--circuit", "QK")["maps"]) == ["W_Q", "W_K", "QK"]


@pytest.mark.parametrize("name", [name for name, make in (ZOO | FAMILIES).items() if make().config.n_layers])
def test_values_are_rebased_in_every_architecture(capsys, saved, name):
    model = (ZOO | FAMILIES)[name]()
    data = data_of(capsys, "rebase", "L0H0", saved(model), "--tokens", "1,4,2,5", "--circuit", "OV")
    assert data["ok"] and data["maps"]["W_V"]["change"] > 1e-3 and data["maps"]["OV"]["change"] < 1e-9


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["swap", "L1H3", "L1H3"], "name two heads"),
        (["swap", "L1H3", "L7H0"], "no head 'L7H0'"),
        (["rebase", "L7H0"], "no head 'L7H0'"),
    ],
)
def test_refused(capsys, command, says):
    assert main(command) == 2
    out, err = capsys.readouterr()
    assert out == "" and says in err and "Traceback" not in err


def test_queries_under_rotary_are_not_rebased(capsys, saved):
    path = saved(px.random_model(positions="rotary", d_head=4))
    assert main(["rebase", "L0H1", path, "--tokens", "1,2"]) == 2
    assert "cannot be re-based under rotary positions" in capsys.readouterr().err
