"""Permutation equivariance: positions, masks and windows tell order, nothing else does; the command."""

import json

import pytest

import pathexp as px
from pathexp import equivariance
from pathexp.cli import main
from tests.shared_models import shared_file


@pytest.mark.parametrize("positions", ["none", "learned", "qk", "sinusoidal", "rotary", "alibi"])
@pytest.mark.parametrize("causal", [False, True])
def test_order_is_told_by_positions_or_a_causal_mask(positions, causal):
    model = px.random_model(
        positions=positions, causal=causal, d_head=4, d_mlp=7, norm="layernorm", biases=True, seed=4
    )
    found = equivariance(model)
    assert found.equivariant == (positions == "none" and not causal)
    assert bool(found.gives_order) != found.equivariant
    assert str(found).startswith("equivariant" if found.equivariant else "not equivariant")


def test_a_window_tells_order():
    model = px.random_model(positions="none", causal=False, windows=2)
    assert equivariance(model).gives_order == ("windows=(2, 2)",) and not equivariance(model).equivariant


def test_order_needs_two_tokens():
    for tokens in ([3], [3, 3, 3]):
        with pytest.raises(px.PathexpError, match="give at least two"):
            equivariance(px.random_model().run(tokens))
    with pytest.raises(px.PathexpError, match="give at least two"):
        equivariance(px.random_model(d_vocab=1))
    assert equivariance(px.random_model(positions="none", causal=False).run([1, 1, 2, 1])).equivariant


def test_trained_models_tell_order():
    assert not equivariance(px.load("attn-2l").run("To be, or not to be")).equivariant
    assert not equivariance(px.load(shared_file("stories260K.bin"))).equivariant


def test_order_is_noticed_where_a_token_moved_and_nowhere_else():
    """Every token sees itself alone, and a position: a token that stays in its place keeps its logits."""
    model = px.random_model(layers=1, positions="learned", windows=(1,), n_ctx=8, d_vocab=9)
    found = equivariance(model.run([1, 2, 3, 4]), seed=4)
    assert [change > 0 for change in found.changes] == [k != p for k, p in enumerate(found.permutation)]
    assert found.change == max(found.changes)


def test_the_command_prints_the_same_answer(capsys):
    asked = ["equivariance", "attn-1l", "--tokens", "1,2,3"]
    assert main([*asked, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    found = equivariance(px.load("attn-1l").run([1, 2, 3]))
    assert data == json.loads(found.to_json()) and not data["equivariant"]
    assert main(asked) == 0
    printed = capsys.readouterr().out
    assert "not equivariant: permuting 3 tokens" in printed and "causal=True" in printed
    assert len(found.figures()["changes"].data["rows"]) == 3
    assert main(["equivariance", "attn-1l", "--tokens", "1,1"]) == 2
    for wrong in (None, "attn-1l"):
        with pytest.raises(px.PathexpError, match="a model or a trace"):
            equivariance(wrong)
