"""Causal tracing: by hand, on the induction model, and what is refused."""

import json

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.interventions.causal_tracing import causal_tracing
from tests.commands import json_of


def induction():
    trace = px.induction_model().run([5, 2, 7, 3, 5])
    return trace, trace.logit(2)


def test_one_state_by_hand():
    """One draw: the same noise, one state put back by rerun."""
    trace, target = induction()
    found = causal_tracing(trace, target, positions=[0, 1], noise=0.7, draws=1, seed=3)
    noise = np.zeros(trace.residuals["embed"].shape)
    noise[[0, 1]] = np.random.default_rng(3).normal(0, 0.7, noise[[0, 1]].shape)

    def put_back(x):
        x = np.array(x)
        x[1] = trace.residuals["L0.out"][1]
        return x

    corrupted = px.rerun(trace, {"embed": lambda x: x + noise})
    restored = px.rerun(trace, {"embed": lambda x: x + noise, "L0.out": put_back})
    assert found.corrupted == pytest.approx(corrupted.logits[-1, 2], abs=1e-12)
    assert found.restored[0, 1] == pytest.approx(restored.logits[-1, 2], abs=1e-12)
    assert (
        np.isnan(found.error).all()
        and json.loads(found.to_json())["tables"]["states"]["rows"][0]["error"] is None
    )


def test_the_circuit_is_where_states_bring_the_answer_back():
    """What the induction head writes at the last position brings all back; the last stream too; nothing before it does."""
    trace, target = induction()
    found = causal_tracing(trace, target, site="attention", draws=3)
    assert found.recovered[1, -1] == pytest.approx(1, abs=1e-6)
    assert np.abs(found.recovered[1, :-1]).max() < 1e-9, "the last layer is read at the last position alone"
    stream = causal_tracing(trace, target, draws=3)
    assert stream.recovered[1, -1] == pytest.approx(1) and stream.clean == target.value


def test_no_noise_worth_speaking_of_takes_nothing():
    trace, target = induction()
    found = causal_tracing(trace, target, noise=1e-300, draws=2)
    assert found.corrupted == found.clean and np.isnan(found.recovered).all()
    assert json.loads(found.to_json())["tables"]["states"]["rows"][0]["recovered"] is None


@pytest.mark.parametrize("noise", [1e-16, 1e-15])
def test_what_noise_takes_within_rounding_is_no_share(noise):
    trace = px.load("attn-2l").run("Macbeth shall sleep no more")
    found = causal_tracing(trace, trace.logit(5), positions=[1], noise=noise, draws=2)
    assert 0 < abs(found.corrupted - found.clean) < 1e-12 and np.isnan(found.recovered).all()
    some = causal_tracing(trace, trace.logit(5), positions=[1], noise=1e-6, draws=2)
    assert some.recovered[-1, -1] == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"site": "mlp"}, "no MLPs"), ({"site": "head"}, "site"), ({"positions": [9]}, "positions"),
        ({"positions": []}, "positions"), ({"noise": 0}, "noise"), ({"noise": float("nan")}, "noise"),
        ({"draws": 0}, "draws"), ({"seed": -1}, "seed"),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused(bad, said):
    with pytest.raises(px.PathexpError, match=said):
        causal_tracing(*induction(), **bad)


def test_mlps_and_the_command(capsys, tmp_path):
    model = px.random_model(layers=2, heads=2, d_mlp=9, norm="layernorm")
    trace = model.run([1, 2, 3])
    found = causal_tracing(trace, trace.logit(4), site="mlp", draws=2)
    assert found.restored.shape == (2, 3) and np.isfinite(found.restored).all()
    model.save(tmp_path / "m.npz")
    given = ["--tokens", "1,2,3", "--target", "#4", "--site", "mlp", "--draws", "2"]
    assert json_of(capsys, "causal-tracing", str(tmp_path / "m.npz"), *given) == json.loads(found.to_json())
