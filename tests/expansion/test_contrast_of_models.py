"""Two models on one prompt, or on two: every weight that differs is a source, and all paths add up."""

from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.expansion.symbolic import start_array
from pathexp.graph.contrast.runs import Runs
from pathexp.model import Model
from tests.expansion.test_contrast import EVERY, assert_adds_up_everywhere
from tests.expansion.test_every_architecture import random_switches
from tests.zoo import FAMILIES


def disturbed(model: px.Model, seed: int, amount: float = 0.3) -> px.Model:
    """The model with noise on every array, its tables no longer tied."""
    rng = np.random.default_rng(seed)
    noisy = {}
    for name, array in model.weights.arrays().items():
        size = amount * float(np.sqrt(np.mean(array**2))) if array.size else 0.0
        noisy[name] = array + (size * rng.standard_normal(array.shape) + 0.01) * used(model, array)
    return replace(model, config=replace(model.config, tied=False), weights=replace(model.weights, **noisy))


def used(model: px.Model, array: np.ndarray) -> np.ndarray | float:
    """Where an array says something: where some layers alone have experts, those of the others are zero."""
    if model.config.experts is None:
        return 1.0
    return array.any(axis=tuple(range(1, array.ndim)), keepdims=True)


def texts(model: px.Model, seed: int, length: int = 6, changed: int = 1) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    n, size = min(length, model.config.n_ctx), model.config.d_vocab
    text = rng.integers(0, size, n)
    other = text.copy()
    other[:changed] = (other[:changed] + 1) % size
    return [text, other]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("changed", [0, 1])
@pytest.mark.parametrize("name", EVERY)
def test_two_models_of_every_architecture(name, changed):
    model = EVERY[name]()
    other = disturbed(model, 1)
    text, twin = texts(model, 2, changed=changed)
    here, there = model.run(text), other.run(twin)
    graph = px.contrast(here, there, mlp_ports=bool(changed))
    verdict = px.expand(graph, "S U").verify()
    assert verdict.ok, f"{verdict}"
    assert verdict.max_error < 1e-12
    back = px.expand(px.contrast(there, here, mlp_ports=bool(changed)))
    target = here.logit(1)
    assert px.expand(graph).value(target) == -back.value(target)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(40))
def test_two_models_with_every_switch(seed):
    model = random_switches(seed)
    other = disturbed(model, seed)
    text, twin = texts(model, seed, length=(1, 2, 7)[seed % 3], changed=seed % 2)
    verdict = px.expand(px.contrast(model.run(text), other.run(twin)), "S U").verify()
    assert verdict.ok, f"{model.config}\n{verdict}"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["olmo2", "gemma3", "qwen3", "qwen-moe", "bert-masked-token-head"])
def test_symbols_equal_numbers(name):
    """No two arrays of a formula have one name, however layers turn, norm and route."""
    model = EVERY[name]()
    here, there = model.run([1, 2]), disturbed(model, 1, 0.05).run([3, 2])
    terms = px.expand(px.contrast(here, there)).where("S .? U")
    arrays = terms.arrays()
    for term in list(terms)[::7]:
        (start,) = start_array(term.source.start).values()
        found = (px.evaluate(term.expr, arrays) @ start).reshape(here.logits.shape)
        np.testing.assert_allclose(found, term.logits(), atol=1e-12)


def test_the_streams_add_up_behind_every_block():
    for name in ("2L-plain", "3L-layernorm"):  # where no source enters past the stream at a block's input
        model = EVERY[name]()
        weights = replace(model.weights, W_E=model.weights.W_E * 1.1)
        text = texts(model, 3)[0]
        here, there = model.run(text), replace(model, weights=weights).run(text)
        assert_adds_up_everywhere(here, there, px.contrast(here, there))


def test_one_weight_that_differs_is_the_only_source():
    model = px.load("attn-2l")
    silenced = np.array(model.weights.W_O)
    silenced[0, 2] = 0
    other = replace(model, weights=replace(model.weights, W_O=silenced))
    text = "To be, or not to be"
    here, there = model.run(text), other.run(text)
    graph = px.contrast(here, there)
    assert [source.label for source in graph.sources] == ["dW_O_L0H2"]
    terms = px.expand(graph)
    assert terms.verify().ok and all(str(term.path).startswith("dW_O_L0H2 ") for term in terms)
    target = here.logit(here.top_token())
    assert abs(terms.value(target) - (target.value - there.logits[-1] @ target.direction)) < 1e-12


def test_a_change_enters_where_it_acts():
    model = FAMILIES["llama"]()
    text = texts(model, 1)[0]
    for array, index, reader in (
        ("W_Q", (1, 2), {"L1H2.Q"}), ("W_K", (0, 1), {"L0H2.K", "L0H3.K"}), ("W_V", (1, 0), {"L1H0.V", "L1H1.V"}),
        ("W_in", (1,), {"L1M"}), ("W_gate", (0,), {"L0M"}), ("g_mlp", (1,), {"L1M"}), ("W_U", (), {"U"}),
        ("g_final", (), {"U"}),
    ):  # fmt: skip
        changed = np.array(getattr(model.weights, array))
        changed[index] = changed[index] * 1.2 + 0.01
        other = replace(model, weights=replace(model.weights, **{array: changed}))
        graph = px.contrast(model.run(text), other.run(text))
        assert len(graph.sources) == 1 and set(graph.sources[0].into) == reader, array
        assert px.expand(graph).verify().ok


def test_a_bias_that_only_one_model_has():
    model = px.random_model(layers=1, heads=2, norm="rmsnorm", d_mlp=5, seed=1)
    added = {"b_Q": np.ones((1, 2, model.config.d_head)), "b_out": np.ones((1, model.config.d_model))}
    other = replace(model, weights=replace(model.weights, **added))
    graph = px.contrast(other.run([1, 2, 3]), model.run([1, 2, 3]))
    assert [source.label for source in graph.sources] == ["db_Q_L0H0", "db_Q_L0H1", "db_out_L0"]
    assert px.expand(graph).verify().ok


def test_models_that_share_their_arrays_are_one():
    model = px.random_model(layers=1, heads=2, seed=3)
    same = Model(model.config, replace(model.weights))
    other = Model(model.config, replace(model.weights, W_U=model.weights.W_U.copy()))
    assert same.weights is not model.weights
    one = [Runs(model.run([1, 2]), each.run([2, 1])).one_model for each in (model, same, other)]
    assert one == [True, True, False]
