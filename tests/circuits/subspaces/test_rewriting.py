"""Rewrites as a command, and the nearest tokens of a token."""

import json

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.subspaces.nearest_tokens import nearest_tokens
from pathexp.circuits.subspaces.rewriting import STEPS, rewriting
from pathexp.cli import main
from tests.commands import json_of, saved


def test_model_in_model_out(capsys, tmp_path):
    path, out = saved(tmp_path, norm="layernorm", biases=True, layers=2), tmp_path / "out.npz"
    steps = ["fold-norms", "center-writing", "layernorm-to-rmsnorm", "rotate"]
    data = json_of(
        capsys, "rewrite", path, *(w for s in steps for w in ("--step", s)), "--out", str(out), "--seed", "3"
    )
    before, after = px.load(path), px.load(out)
    assert after.config.norm == "rmsnorm" and len(after.history) == 4
    np.testing.assert_allclose(after.run([1, 2, 3]).logits, before.run([1, 2, 3]).logits, atol=1e-9)
    assert [row["step"] for row in data["tables"]["steps"]["rows"]] == steps
    assert rewriting(before, step=steps, seed=3).ok


@pytest.mark.parametrize("step", STEPS)
def test_every_step_keeps_what_is_computed_or_is_refused(step):
    for options in (
        {},
        {"norm": "layernorm", "biases": True},
        {"tied": True},
        {"d_mlp": 8, "activation": "gelu"},
    ):
        model = px.random_model(layers=1, **options)
        try:
            found = rewriting(model, step=step)
        except px.PathexpError as error:
            assert str(error)
        else:
            assert found.ok and found.differences[0].by_constants


def test_constants_are_said(capsys):
    found = rewriting(px.load("attn-1l"), step=["center-unembedding"])
    assert (
        "shifted by a constant per position" in str(found) and "log-probabilities" in str(found) and found.ok
    )


def test_what_is_not_valid_writes_nothing(capsys, tmp_path):
    path, out = saved(tmp_path, norm="layernorm", biases=True), tmp_path / "out.npz"
    assert main(["rewrite", path, "--step", "rotate", "--out", str(out)]) != 0 and not out.exists()
    for bad in ({"step": []}, {"step": ["turn"]}, {"out": "model.txt"}, {"seed": -1}):
        with pytest.raises(px.PathexpError):
            rewriting(px.load("attn-1l"), **bad)


# Nearest tokens ------------------------------------------------------------------------------------------


def test_nearest_tokens_by_hand():
    model = px.load("attn-1l")
    found = nearest_tokens(model, token=" king", k=5)
    for side, vectors in zip(found, (model.weights.W_E.T, model.weights.W_U), strict=True):
        centered = vectors - vectors.mean(axis=0)
        unit = centered / np.linalg.norm(centered, axis=1, keepdims=True)
        cosines = unit @ unit[model.token_id(" king")]
        order = [t for t in np.argsort(-cosines) if t != model.token_id(" king")][:5]
        assert list(side.tokens) == order
        np.testing.assert_allclose(side.cosines, cosines[order], atol=1e-12)
        assert side.deviation == pytest.approx(128**-0.5)


def test_twins_are_nearest_and_the_mean_points_nowhere():
    model = px.random_model(d_vocab=11)
    W_E = np.array(model.weights.W_E)
    W_E[:, 4] = 3 * (W_E[:, 7] - W_E.mean(axis=1)) + W_E.mean(axis=1)
    twins = px.Model(model.config, px.Weights(**model.weights.arrays() | {"W_E": W_E}))
    assert nearest_tokens(twins, token=7, k=1).sides[0].tokens == (4,)
    same = px.Model(model.config, px.Weights(**model.weights.arrays() | {"W_E": np.ones_like(W_E)}))
    with pytest.raises(px.PathexpError, match="points nowhere"):
        nearest_tokens(same, token=3)
    for bad in (11, -1, "no such token"):
        with pytest.raises(px.PathexpError):
            nearest_tokens(px.load("attn-1l") if isinstance(bad, str) else model, token=bad)


def test_nearest_tokens_from_the_command_line(capsys):
    data = json_of(capsys, "nearest-tokens", "attn-2l", "--token", " king", "--top", "3")
    assert data == json.loads(nearest_tokens(px.load("attn-2l"), token=" king", k=3).to_json())
