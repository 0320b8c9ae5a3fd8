"""A low-rank adapter that a script of the project trains, contrasted with its base: by weight, layer, head and module."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pathexp as px
from tests.shared_models import shared_file

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "adapter_contrast.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("adapter_contrast", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def small() -> px.Model:
    return px.random_model(
        layers=3, heads=4, kv_heads=2, d_model=16, d_head=4, d_mlp=12, gated=True, activation="silu", norm="rmsnorm",
        positions="rotary", d_vocab=20, seed=4,
    )  # fmt: skip


def test_gradients_are_differences_of_losses(example):
    model, tokens = small(), [3, 7, 1, 12, 7]
    _, found = example.gradients(model, tokens)
    rng, step = np.random.default_rng(0), 1e-5
    for kind in example.KINDS:
        way = rng.standard_normal(found[kind].shape)
        losses = []
        for sign in (1, -1):
            moved = getattr(model.weights, kind) + sign * step * way
            losses.append(
                example.gradients(replace(model, weights=replace(model.weights, **{kind: moved})), tokens)[0]
            )
        assert abs((losses[0] - losses[1]) / (2 * step) - np.sum(found[kind] * way)) < 1e-8, kind


def test_an_adapter_has_the_rank_that_it_is_given(example):
    model = small()
    adapter = example.Adapter(model, 2)
    np.testing.assert_array_equal(adapter.model().weights.W_O, model.weights.W_O)
    adapter.step(example.gradients(model, [3, 7, 1, 12, 7])[1], 0.01)
    for kind in example.KINDS:
        change = getattr(adapter.model().weights, kind) - getattr(model.weights, kind)
        ranks = [np.linalg.matrix_rank(example.joined(kind, maps), tol=1e-12) for maps in change]
        assert max(ranks) == 2, kind


def test_what_an_adapter_changed_is_divided_exactly(example):
    model, tokens = small(), [3, 7, 1, 12, 7]
    adapter = example.Adapter(model, 1)
    for _ in range(5):
        adapter.step(example.gradients(adapter.model(), tokens)[1], 0.02)
    here, there = adapter.model().run(tokens), model.run(tokens)
    graph, target = px.contrast(here, there), here.logit(12)
    assert px.expand(graph).verify().ok
    by = {
        unit: px.attribution(graph, target, by=unit)
        for unit in ("source", "weight", "weight_layer", "weight_head", "module")
    }
    assert all(found.ok for found in by.values())
    assert by["weight"].names == ("W_Q", "W_V", "W_O", "W_out") and by["weight_layer"].names == (
        "L0",
        "L1",
        "L2",
    )
    assert set(by["module"].names) == {f"L{layer}.{kind}" for layer in range(3) for kind in example.KINDS}
    own = sum(by["source"][f"dW_Q_L1H{head}"] for head in range(4))
    assert abs(by["module"]["L1.W_Q"] - own) < 1e-14
    assert abs(by["weight_head"]["L1G0"] - by["source"]["dW_V_L1G0"]) < 1e-14
    assert abs(by["weight_head"]["L1H2"] - by["source"]["dW_Q_L1H2"] - by["source"]["dW_O_L1H2"]) < 1e-14
    changed = graph.without("dW_out_L0")
    assert not px.expand(changed).verify(graph.expected).ok


def test_the_name_of_a_girl(example):
    """stories260K learns that girls are named Tim; what changed in a prompt it never saw is the adapter's, exactly."""
    base = px.load(shared_file("stories260K.bin"))
    adapter, losses = example.train(base, 24, 2)
    assert np.mean(losses[-4:]) < 0.6 * np.mean(losses[:4])
    adapted = adapter.model()
    here, there = adapted.run(example.PROMPT), base.run(example.PROMPT)
    target = here.logit_difference(example.NEW, example.OLD)
    change = target.value - there.logit_difference(example.NEW, example.OLD).value
    assert change > 5
    found = px.attribution(px.contrast(here, there), target, by="module")
    assert found.ok and abs(found.values.sum() - change) < 1e-10
