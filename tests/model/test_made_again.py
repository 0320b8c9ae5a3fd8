"""Scores, patterns and other large arrays of long runs are made again, to the last bit what shorter runs keep."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest

import pathexp as px
from pathexp.errors import WeightsError
from pathexp.model import made_again, score_rows
from pathexp.model.stored import Stored

MODELS = {
    "rotary": {"heads": 4, "kv_heads": 2, "d_head": 6, "d_mlp": 20, "gated": True, "norm": "rmsnorm", "positions": "rotary", "biases": True},
    "qk norm": {"heads": 4, "kv_heads": 2, "d_head": 6, "d_mlp": 20, "norm": "rmsnorm", "qk_norm": "projection", "positions": "rotary"},
    "alibi": {"heads": 4, "d_head": 5, "norm": "layernorm", "positions": "alibi", "attention_cap": 3.0, "biases": True, "d_mlp": 12},
    "sinks": {"heads": 3, "d_head": 5, "sinks": True, "windows": 4, "norm": "rmsnorm", "biases": True, "d_mlp": 12},
    "windows both ways": {"heads": 3, "d_head": 4, "windows": 6, "norm": "rmsnorm", "positions": "rotary", "causal": False, "biases": True},
    "post": {"heads": 3, "d_head": 5, "norm": "layernorm", "norm_placement": "post", "biases": True, "d_mlp": 12, "causal": False},
}  # fmt: skip
LARGE = ("scores", "patterns", "head_results", "mlp_hidden")


@pytest.fixture
def long(monkeypatch):
    """Every run counts as a long one."""

    def run(model, tokens):
        with monkeypatch.context() as patched:
            patched.setattr(made_again, "MOST", -1)
            trace = model.run(tokens)
            assert all(isinstance(getattr(trace, name), Stored) for name in LARGE)
            return trace

    return run


@pytest.fixture(params=MODELS)
def model(request):
    return px.random_model(layers=3, d_model=21, d_vocab=17, seed=5, **MODELS[request.param])


@pytest.mark.parametrize("n", [1, 2, 9, 33])
def test_what_is_made_again_is_what_the_run_had(model, n, long):
    tokens = np.random.default_rng(n).integers(0, 17, n)
    kept, later = model.run(tokens), long(model, tokens)
    for name in LARGE:
        np.testing.assert_array_equal(np.asarray(getattr(later, name)), getattr(kept, name))
        np.testing.assert_array_equal(getattr(later, name)[1], getattr(kept, name)[1])
    for point, stream in kept.residuals.items():
        np.testing.assert_array_equal(later.residuals[point], stream)
    np.testing.assert_array_equal(later.logits, kept.logits)


@pytest.mark.parametrize("n", [9, 33])
def test_scores_of_a_few_queries_at_a_time_are_those_of_all(model, n, long, monkeypatch):
    tokens = np.random.default_rng(n).integers(0, 17, n)
    whole = model.run(tokens)
    monkeypatch.setattr(score_rows, "ROWS", 4)
    kept, later = model.run(tokens), long(model, tokens)
    np.testing.assert_array_equal(np.isneginf(kept.scores), np.isneginf(whole.scores))
    np.testing.assert_array_equal(kept.patterns == 0, whole.patterns == 0)
    np.testing.assert_allclose(kept.patterns, whole.patterns, rtol=0, atol=1e-13)
    np.testing.assert_allclose(kept.logits, whole.logits, rtol=0, atol=1e-12)
    for name in ("scores", "patterns"):
        np.testing.assert_array_equal(np.asarray(getattr(later, name)), getattr(kept, name))
    np.testing.assert_array_equal(later.logits, kept.logits)


def test_a_score_that_overflows_is_named_by_its_own_place(monkeypatch):
    model = px.random_model(
        layers=1, heads=2, d_head=3, d_model=6, d_vocab=9, positions="none", norm=None, seed=1
    )
    loud = np.zeros((6, 9))
    loud[:, 7] = 1e200
    weights = dataclasses.replace(
        model.weights, W_E=loud, W_Q=np.ones_like(model.weights.W_Q), W_K=np.ones_like(model.weights.W_K)
    )
    monkeypatch.setattr(score_rows, "ROWS", 2)
    with pytest.raises(WeightsError, match=r"at \(head, query, key\) = \([01], 5, 5\)"):
        dataclasses.replace(model, weights=weights).run([1, 2, 3, 4, 5, 7, 6])


def test_questions_of_long_runs_have_the_same_answers(model, long):
    tokens = np.random.default_rng(1).integers(0, 17, 9)
    kept, later = model.run(tokens), long(model, tokens)
    for ask in (
        lambda trace: px.expand(trace).verify(),
        lambda trace: px.entropy(trace).text(),
        lambda trace: px.decompose(trace).text(),
        lambda trace: px.lens(trace, trace.logit(3)).text(),
        lambda trace: px.tree(trace, trace.logit(3), nodes=12).text(),
        lambda trace: px.flow(trace, trace.logit(3)).text(),
        lambda trace: px.expand(px.contrast(trace, model.run(tokens[::-1]))).verify(),
    ):
        assert str(ask(later)) == str(ask(kept))


def test_a_long_run_is_copied_and_pickled_with_its_scores(model, long):
    tokens = [3, 1, 2, 5]
    kept, later = model.run(tokens), long(model, tokens)
    for again in (copy.copy(later), copy.deepcopy(later), pickle.loads(pickle.dumps(later))):
        np.testing.assert_array_equal(np.asarray(again.patterns), kept.patterns)
        np.testing.assert_array_equal(np.asarray(again.scores), kept.scores)


def test_arrays_that_are_made_again_go_with_their_run(model, long):
    px.memory_budget("1MB")
    try:
        later = long(model, [3, 1, 2, 5])
        before = px.memory_budget().kept
        assert later.patterns[1].shape == (model.config.n_heads, 4, 4)
        assert px.memory_budget().kept > before
        del later
        assert px.memory_budget().kept <= before
    finally:
        px.memory_budget("2GiB")


@pytest.mark.parametrize("n", [9, 33])
def test_a_pattern_made_alone_is_that_of_its_layer(model, n, long, monkeypatch):
    monkeypatch.setattr(score_rows, "ROWS", 8)
    tokens = np.random.default_rng(n).integers(0, 17, n)
    kept, later = model.run(tokens), long(model, tokens)
    for layer, head in np.ndindex(3, model.config.n_heads):
        alone = made_again.one_pattern(later.patterns, layer, head)
        np.testing.assert_array_equal(alone, made_again.one_pattern(kept.patterns, layer, head))
        assert not alone.flags.writeable


def test_a_pattern_is_made_alone_unless_its_layer_is_there(long):
    trace = long(px.random_model(layers=2, heads=3, seed=1), np.arange(9))
    alone = made_again.one_pattern(trace.patterns, 1, 2)
    assert alone is made_again.one_pattern(trace.patterns, 1, 2)
    whole = trace.patterns[1]
    assert np.shares_memory(made_again.one_pattern(trace.patterns, 1, 2), whole)
    assert not np.shares_memory(alone, whole)
