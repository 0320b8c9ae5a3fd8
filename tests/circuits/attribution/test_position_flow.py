"""Flow between positions: kept at every depth, by hand for one head, and the same on the command line."""

import json
import pickle

import numpy as np
import pytest

import pathexp as px
from pathexp.cli import main
from tests.zoo import FAMILIES, ZOO

EVERY = {**ZOO, **FAMILIES}


def run(model):
    return model.run(np.random.default_rng(1).integers(0, model.config.d_vocab, min(5, model.config.n_ctx)))


@pytest.mark.parametrize("name", EVERY)
def test_what_flows_is_kept_at_every_depth(name):
    """What flows into a depth from all positions is what flows out of it, constants on the way beside it."""
    trace = run(EVERY[name]())
    found = px.position_flow(trace, trace.logit(2))
    assert found.ok and len(found.blocks) == len(found.edges) == len(set(found.blocks))
    for place in range(len(found.edges)):
        np.testing.assert_allclose(
            found.edges[place].sum(axis=1) + found.constants[place], found.arriving[place + 1], atol=1e-10
        )
        np.testing.assert_allclose(found.edges[place].sum(axis=0), found.arriving[place], atol=1e-10)
    if trace.config.n_layers:
        (figure,) = found.figures().values()
        assert figure.kind == "arcs" and len(figure.data["tokens"]) == len(trace)
        moved = sum(edge["flow"] for edge in figure.data["edges"])
        assert moved == pytest.approx(sum(edges.sum() for edges in found.edges))


def test_one_layer_by_its_formula():
    """From j to i = the target's position: the pattern's weights times u W_OV x_j; nothing else moves."""
    trace = run(px.random_model(layers=1, heads=2, seed=3))
    w, i = trace.model.weights, len(trace) - 1
    x = trace.residuals["embed"]
    found = px.position_flow(trace, trace.logit(4))
    assert found.blocks == ("L0 attention",)
    expected = sum(trace.patterns[0, h, i] * (x @ (w.W_U[4] @ w.W_O[0, h] @ w.W_V[0, h])) for h in range(2))
    expected[i] += x[i] @ w.W_U[4]
    np.testing.assert_allclose(found.edges[0][i], expected, atol=1e-12)
    assert not found.edges[0][:i].any()


@pytest.mark.parametrize(("name", "blocks"), [
    ("gpt2", ("L0 attention", "L0 MLP")), ("gptj", ("L0",)), ("2L-plain", ("L0 attention", "L1 attention")),
])  # fmt: skip
def test_blocks_are_named(name, blocks):
    trace = run(EVERY[name]())
    assert px.position_flow(trace, trace.logit(2)).blocks[: len(blocks)] == blocks


def test_the_command_prints_the_same_answer(capsys):
    assert main(["position-flow", "attn-2l", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    trace = px.load("attn-2l").run("Macbeth shall sleep no more. Macbeth shall")
    found = px.position_flow(trace, trace.logit(" sleep"))
    assert data == json.loads(found.to_json()) and data["checks"][0]["ok"]
    block, source, destination, amount = found.moves()[0]
    assert (block, source, destination) == ("L1 attention", 6, 15) and amount == pytest.approx(
        13.86, abs=0.01
    )
    assert main(["position-flow", "attn-2l", "--top", "2"]) == 0
    printed = capsys.readouterr().out
    assert "L1 attention" in printed and '" sleep"' in printed and "what arrives adds up" in printed
    assert str(pickle.loads(pickle.dumps(found))) == str(found)
