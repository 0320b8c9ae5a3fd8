"""One head on one text: the row of its pattern, what it brings, and heads as a sum."""

import json

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.heads.attention import attention
from tests.commands import json_of
from tests.zoo import ZOO


def test_what_it_brings_is_its_part_of_the_logits():
    """Over all keys and all tokens, what a head brings is its own term of the logits, but for a constant a position."""
    trace = px.load("attn-2l").run("To be, or not to be")
    found = attention(trace, trace.logit(" the"), head="L1H3", k=1024)
    np.testing.assert_array_equal(found.attention, trace.patterns[1, 3, -1])
    raised = np.zeros(1024)
    for tokens, values in zip(found.outputs, found.raised, strict=True):
        raised[tokens] += values
    head = trace.head_results[1, 3, -1] @ trace.model.weights.W_U.T
    np.testing.assert_allclose(raised, head - head.mean(), atol=1e-12)
    straight = dict(zip(*[(a := px.attribution(trace, trace.logit(" the"))).names, a.values], strict=True))[
        "L1H3"
    ]
    assert found.values.sum() == pytest.approx(straight)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ZOO)
def test_every_architecture(name):
    """Heads as a sum are the concatenated form, to rounding; names of outputs where there are token tables."""
    model = ZOO[name]()
    tokens = [token % model.config.d_vocab for token in (3, 1, 2, 3)]
    trace = model.run(tokens)
    if not model.config.n_layers:
        with pytest.raises(px.PathexpError, match="no head"):
            attention(trace, trace.logit(0))
        return
    found = attention(trace, trace.logit(0), head="L0H0")
    assert found.ok and found.difference <= found.tolerance < 1e-9
    assert json.loads(found.to_json())["head"] == "L0H0"


@pytest.mark.parametrize("placement", ["pre", "sandwich"])
def test_scales_and_gains_of_norms_are_in_it(placement):
    """Added up over the keys it is the sum of all paths that end in the head."""
    model = px.random_model(layers=2, heads=2, norm="rmsnorm", norm_placement=placement, d_mlp=7, seed=5)
    trace = model.run([3, 1, 2, 5])
    found = attention(trace, trace.logit(4), head="L1H1", k=model.config.d_vocab)
    raised = np.zeros(model.config.d_vocab)
    for tokens, values in zip(found.outputs, found.raised, strict=True):
        raised[tokens] += values
    whole = px.expand(trace).where("S .* L1H1 U").logits()[-1]
    np.testing.assert_allclose(raised, whole - whole.mean(), atol=1e-12)


def test_from_another_position_nothing_reaches_the_target_straight():
    trace = px.induction_model().run([5, 2, 7, 3, 5, 2])
    found = attention(trace, trace.logit(7), head="L1H0", query=4)
    assert int(found.attention.argmax()) == 1 and not found.values.any()
    for bad in ({"head": "L7H0"}, {"query": 9}, {"k": -1}):
        with pytest.raises(px.PathexpError):
            attention(trace, trace.logit(7), **{"head": "L1H0"} | bad)


def test_the_command_is_the_question(capsys):
    data = json_of(
        capsys, "attention", "attn-2l", "To be, or not to be", "--head", "L1H3", "--target", " the"
    )
    trace = px.load("attn-2l").run("To be, or not to be")
    assert data == json.loads(attention(trace, trace.logit(" the"), head="L1H3").to_json())
