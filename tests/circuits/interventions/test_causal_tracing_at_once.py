"""Causal tracing computes only what a state changes: the same as a run of its own for each state, in every architecture."""

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.interventions import causal_tracing as module
from pathexp.circuits.interventions.causal_tracing import SITES, causal_tracing
from tests.zoo import FAMILIES, ZOO

MODELS = {**ZOO, **FAMILIES}
POINTS = {"stream": "L{}.out", "attention": "L{}.attn_out", "mlp": "L{}.mlp_out"}


def by_reruns(trace, target, site, positions, noise, draws, seed):
    """Every state put back in a run of its own, (draws, layers, positions)."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(draws):
        added = np.zeros(trace.residuals["embed"].shape)
        added[positions] = rng.normal(0, noise, added[positions].shape)

        def value(layer, place, added=added):
            def put_back(x):
                x = np.array(x)
                x[place] = trace.residuals[POINTS[site].format(layer)][place]
                return x

            edits = {"embed": lambda x: x + added, POINTS[site].format(layer): put_back}
            return px.rerun(trace, edits).logits[target.position] @ target.direction

        layers, places = range(trace.config.n_layers), range(len(trace))
        found.append([[value(layer, place) for place in places] for layer in layers])
    return np.array(found)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_state_is_as_by_a_run_of_its_own(name):
    model = MODELS[name]()
    if not model.config.n_layers:
        pytest.skip("a model without layers has no states")
    n = min(7, model.config.n_ctx)
    trace = model.run(np.random.default_rng(1).integers(0, model.config.d_vocab, n))
    for place in (-1, n // 2):
        target = trace.logit(min(3, model.config.d_out - 1), position=place)
        for site in SITES if model.config.has_mlps else SITES[:2]:
            found = causal_tracing(trace, target, site=site, positions=[1, 2], noise=0.5, draws=2, seed=5)
            each = by_reruns(trace, target, site, [1, 2], 0.5, 2, 5)
            scale = 1e-11 * (1 + np.abs(trace.logits).max())
            np.testing.assert_allclose(found.restored, each.mean(axis=0), rtol=0, atol=scale)
            spread = each.std(axis=0, ddof=1) / np.sqrt(2)
            np.testing.assert_allclose(found.error, spread, rtol=0, atol=scale)


@pytest.mark.parametrize("length", [1, 2, 9, 33])
def test_lengths_and_pieces(length, monkeypatch):
    model = px.random_model(
        layers=3, heads=4, kv_heads=2, d_head=6, d_mlp=11, gated=True, activation="silu", norm="rmsnorm",
        positions="rotary", d_vocab=40, seed=4,
    )  # fmt: skip
    trace = model.run(np.arange(length) % 40)
    target = trace.logit_difference(3, 9)
    found = causal_tracing(trace, target, positions=[0], noise=0.3, draws=2, seed=2)
    monkeypatch.setattr(module, "ROWS", 1)
    again = causal_tracing(trace, target, positions=[0], noise=0.3, draws=2, seed=2)
    each = by_reruns(trace, target, "stream", [0], 0.3, 2, 2).mean(axis=0)
    np.testing.assert_allclose(found.restored, each, rtol=0, atol=1e-12)
    np.testing.assert_allclose(again.restored, each, rtol=0, atol=1e-12)


def test_a_target_of_very_many_outputs():
    model = px.random_model(layers=2, d_vocab=9000, seed=4)
    trace = model.run([5, 2, 7])
    target = trace.direction(np.random.default_rng(0).normal(size=9000))
    found = causal_tracing(trace, target, positions=[0], noise=0.3, draws=1, seed=2)
    each = by_reruns(trace, target, "stream", [0], 0.3, 1, 2)[0]
    np.testing.assert_allclose(found.restored, each, rtol=0, atol=1e-10)
