"""Attribution: for each unit the column is the target, to 1e-10, on every architecture; known parts by hand."""

import json
import sys

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.attribution.attribution import RUN_UNITS, UNITS, attribution, head_tokens, pulled_back
from pathexp.cli import main
from pathexp.errors import PathexpError
from tests.zoo import FAMILIES, ZOO

OF_TWO_RUNS = [unit for unit in UNITS if unit not in RUN_UNITS]
"""Ports and changed weights are units of contrasts."""
EVERY = {**ZOO, **FAMILIES}


def run(model):
    return model.run(np.random.default_rng(1).integers(0, model.config.d_vocab, min(5, model.config.n_ctx)))


def units_of(trace):
    return [unit for unit in RUN_UNITS if unit != "neuron" or trace.config.has_mlps]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", EVERY)
def test_the_column_is_the_target(name):
    trace = run(EVERY[name]())
    targets = trace.logit(2), trace.logit_difference(1, 3, position=len(trace) - 2)
    for target in targets:
        for unit in units_of(trace):
            found = attribution(trace, target, by=unit)
            assert abs(found.values.sum() - target.value) <= 1e-10 * max(1, np.abs(found.values).sum()), unit
            assert found.ok and len(found.names) == len(found.values)
        split, heads = head_tokens(trace, target), attribution(trace, target, by="head")
        whole = [heads[label] for label in split.labels]
        np.testing.assert_allclose(split.values.sum(axis=1) + split.constants, whole, atol=1e-11)


def test_by_hand():
    """One layer, no biases: what head h takes from j is A[i, j] · u W_OV x_j."""
    model = px.random_model(layers=1, heads=3, seed=3)
    trace = run(model)
    w, target = model.weights, trace.logit(4)
    x, i = trace.residuals["embed"], len(trace) - 1
    split = head_tokens(trace, target)
    for h in range(3):
        expected = trace.patterns[0, h, i] * (x @ (w.W_U[4] @ w.W_O[0, h] @ w.W_V[0, h]))
        np.testing.assert_allclose(split.values[h], expected, atol=1e-12)
    assert np.abs(split.constants).max() < 1e-12
    tokens = attribution(trace, target, by="token")
    direct = np.where(np.arange(i + 1) == i, x[i] @ w.W_U[4], 0)
    np.testing.assert_allclose(tokens.values[:-1], split.values.sum(axis=0) + direct, atol=1e-12)
    assert attribution(trace, target, by="component")["E"] == pytest.approx(
        w.W_U[4] @ w.W_E[:, trace.tokens[i]]
    )


def test_pulled_back_is_the_derivative_of_the_frozen_run():
    trace = run(px.random_model(layers=2, heads=2, norm="layernorm", d_mlp=7, seed=2))
    target = trace.logit(3)
    fields = pulled_back(trace, target)
    assert len(fields) == len(px.freeze(trace).blocks) + 1
    steered = px.freeze(trace).with_source("x", np.ones(trace.config.d_model))
    added = px.expand(steered, "x .* U").logits()[-1] @ target.direction
    assert added == pytest.approx(fields[0].sum())


def test_a_trained_model_copies_by_its_induction_heads():
    trace = px.load("attn-2l").run("Macbeth shall sleep no more. Macbeth shall")
    target = trace.logit(" sleep")
    best = [label for label, _ in attribution(trace, target, by="head").ranked()[:3]]
    assert set(best) == {"L1H0", "L1H2", "L1H3"}
    split = head_tokens(trace, target)
    for label in best:
        row = split.values[split.labels.index(label)]
        assert trace.token_strings[row.argmax()] == " sleep" and row.max() > 2.5


def test_other_units_are_refused():
    trace = run(px.random_model())
    with pytest.raises(PathexpError, match="'axon'"):
        attribution(trace, trace.logit(1), by="axon")
    with pytest.raises(PathexpError, match="no"):
        attribution(trace, trace.logit(1), by="neuron")
    with pytest.raises(PathexpError, match="L9H9"):
        attribution(trace, trace.logit(1))["L9H9"]


def test_neurons_by_hand():
    """A neuron adds its activation times its column of W_out, read through the frozen final norm."""
    trace = run(FAMILIES["gpt2"]())
    layers, neurons = range(trace.config.n_layers), range(trace.config.d_mlp)
    w, target, last = trace.model.weights, trace.logit(3), len(trace) - 1
    read = w.W_U[3] * w.g_final * trace.norm_scales["final"][last]
    read = read - read.mean()
    expected = {
        f"L{layer}N{n}": trace.mlp_hidden[layer, last, n] * (read @ w.W_out[layer][:, n])
        for layer in layers
        for n in neurons
    }
    found = attribution(trace, target, by="neuron", k=5)
    ranked = sorted(expected, key=lambda name: -abs(expected[name]))[:5]
    assert list(found.names[:5]) == ranked and found.names[5] == "other neurons"
    np.testing.assert_allclose(found.values[:5], [expected[name] for name in ranked], atol=1e-12)
    assert found["other neurons"] == pytest.approx(sum(expected.values()) - found.values[:5].sum(), abs=1e-12)
    by_head = attribution(trace, target, by="head")
    b_out = sum(
        value for name, value in zip(*all_components(trace, target), strict=True) if name.startswith("b_out")
    )
    assert found["constants"] == pytest.approx(by_head["constants"], abs=1e-12) and b_out
    assert by_head["MLPs"] == pytest.approx(sum(expected.values()), abs=1e-12)


def all_components(trace, target):
    found = attribution(trace, target, by="component")
    return found.names, found.values


@pytest.mark.parametrize("unit", [unit for unit in RUN_UNITS if unit != "neuron"])
def test_the_command_prints_the_same_answer(capsys, unit):
    text = "Macbeth shall sleep no more. Macbeth shall"
    assert main(["attribution", "attn-2l", text, "--by", unit, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    trace = px.load("attn-2l").run(text)
    found = attribution(trace, trace.logit(" sleep"), by=unit)
    assert data == json.loads(found.to_json())
    assert data["checks"][0]["ok"] and data["target_value"] == trace.logit(" sleep").value
    assert main(["attribution", "attn-2l", text, "--by", unit, "--top", "2"]) == 0
    printed = capsys.readouterr().out
    assert "adds up to" in printed and f"… {len(found.names) - 2} more" in printed


def test_a_column_that_does_not_add_up_has_its_exit_code(capsys, monkeypatch):
    monkeypatch.setitem(
        sys.modules["pathexp.circuits.attribution.attribution"]._ROWS,
        "head",
        lambda *_: iter([("L0H0", 1.0)]),
    )
    assert main(["attribution", "attn-1l", "the king"]) == 1
    assert "does not hold" in capsys.readouterr().out


@pytest.mark.parametrize("unit", OF_TWO_RUNS)
def test_units_of_two_runs_are_refused_for_one_and_none_is_forgotten(unit):
    trace = px.load("attn-1l").run("To be")
    with pytest.raises(px.PathexpError, match="difference of two runs"):
        attribution(trace, trace.logit(3), by=unit)
    contrasted = px.contrast(trace, trace.model.run("To do"))
    assert attribution(contrasted, trace.logit(3), by=unit).ok
