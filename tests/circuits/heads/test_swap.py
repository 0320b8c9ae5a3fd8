"""Heads with circuits exchanged: on paper, trained, and refused."""

import json

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.heads.head_edits import swap_ov, swap_qk
from tests.commands import json_of, printed, refusal, saved

SOURCE, OUTPUT, OTHER = range(3)


def one_attends_and_one_averages():
    """Head 0 attends to the source with score 8 and raises the output by 3; head 1 attends evenly, writes nothing."""
    Q, K, V, O = np.zeros((2, 1, 3)), np.zeros((2, 1, 3)), np.zeros((2, 1, 3)), np.zeros((2, 3, 1))
    Q[0, 0], K[0, 0, SOURCE], V[0, 0, SOURCE], O[0, OUTPUT] = 8, 1, 1, 3
    config = px.Config(n_layers=1, n_heads=2, d_model=3, d_head=1, d_vocab=3, n_ctx=9, attention_scale=1.0)
    return px.Model(
        config, px.Weights(W_E=np.eye(3), W_U=np.eye(3), W_Q=Q[None], W_K=K[None], W_V=V[None], W_O=O[None])
    )


@pytest.mark.parametrize("circuit", ["OV", "QK"])
def test_swapped_on_paper(circuit):
    """What was written from the source alone is written from all three positions: 3 becomes 3 · ⅓."""
    found = px.swap(one_attends_and_one_averages().run([0, 2, 2]), "L0H0", "L0H1", circuit=circuit)
    assert (found.change.position, found.change.token) == (2, OUTPUT)
    assert found.change.value == pytest.approx(1 - 3 * np.exp(8) / (np.exp(8) + 2))
    rows = found.records()
    assert rows[0]["before_id"] == rows[0]["after_id"] == OUTPUT and len(rows) == 3
    total = np.exp([0, 1, 1])  # after: logits 0 for the source, 1 for the output, 1 for the token itself
    assert rows[0]["after_probability"] == pytest.approx(total[1] / total.sum())
    data = found.to_dict()
    assert data["loss_after"] > 0 and data["loss_before"] != data["loss_after"]


def test_equal_heads_swapped_change_nothing():
    model = px.random_model(layers=1, heads=2, d_head=3, biases=True, seed=2)
    arrays = {name: np.array(array) for name, array in model.weights.arrays().items()}
    for name in ("W_Q", "W_K", "b_Q", "b_K"):
        arrays[name][0, 1] = arrays[name][0, 0]
    trace = px.Model(model.config, px.Weights(**arrays)).run([1, 2, 3, 4])
    for circuit in ("QK", "OV"):  # heads that attend alike may exchange what they write as well
        found = px.swap(trace, "L0H0", "L0H1", circuit=circuit)
        assert abs(found.change.value) < 1e-14
        assert found.before.loss() == pytest.approx(found.after.loss(), abs=1e-14)


@pytest.mark.parametrize(("circuit", "edit"), [("OV", swap_ov), ("QK", swap_qk)])
def test_swapped_trained(capsys, circuit, edit):
    """An induction head that writes what a previous-token head writes, or attends where it attends, copies no more."""
    text = "Macbeth shall sleep no more. Macbeth shall"
    command = [
        "swap",
        "attn-2l",
        text,
        "--head",
        "L1H3",
        "--other",
        "L0H2",
        "--circuit",
        circuit,
        "--top",
        "2",
    ]
    data, model = json_of(capsys, *command), px.load("attn-2l")
    found = px.swap(model.run(text), "L1H3", "L0H2", circuit=circuit, k=2)
    assert data == json.loads(found.to_json())
    before, after = (each.run(text) for each in (model, edit(model, "L1H3", "L0H2")))
    np.testing.assert_array_equal(found.model.run(text).logits, after.logits)
    assert data["loss_before"] == before.loss() and data["loss_after"] == after.loss() > before.loss() + 1
    assert abs(data["largest_change"]) == np.abs(after.logits - before.logits).max() > 1
    rows = data["tables"]["next"]["rows"]
    assert rows[0]["before"] == " sleep" != rows[0]["after"]
    assert [row["after_id"] for row in rows] == np.argsort(-after.logits[-1])[:2].tolist()


def test_one_token_has_no_loss(capsys):
    command = ["swap", "--head", "L1H3", "--other", "L0H2", "--tokens", "5"]
    assert json_of(capsys, *command)["loss_after"] is None
    assert "loss undefined nats per token before, undefined after" in printed(capsys, *command)


def test_refused(capsys, tmp_path):
    assert "name two heads" in refusal(capsys, "swap", "--head", "L1H3", "--other", "L1H3")
    assert "no head 'L7H0'" in refusal(
        capsys, "swap", saved(tmp_path), "abc", "--head", "L1H1", "--other", "L7H0"
    )
