"""Models from a seed and by hand do what their docstrings say."""

from __future__ import annotations

import numpy as np
import pytest

from pathexp.errors import ConfigError, WeightsError
from pathexp.model.handmade import induction_model, random_model, zero_layer_bigram
from tests.zoo import ZOO


def test_a_seed_makes_the_same_numbers() -> None:
    one, same, other = (random_model(seed=seed, biases=True) for seed in (1, 1, 2))
    for name, array in one.weights.arrays().items():
        np.testing.assert_array_equal(array, same.weights.arrays()[name])
        assert not np.array_equal(array, other.weights.arrays()[name])


def test_biases_and_gains_are_not_trivial() -> None:
    plain = random_model(norm="layernorm", biases=False).weights.arrays()
    whole = random_model(norm="layernorm", biases=True).weights.arrays()
    added = whole.keys() - plain.keys()
    assert added == {"b_Q", "b_K", "b_V", "b_O", "b_U", "g_attn", "b_attn", "g_final", "b_final"}
    for name in added:
        assert np.all(whole[name] != 0) and whole[name].std() > 0.1, name
    np.testing.assert_array_equal(plain["W_Q"], whole["W_Q"])


@pytest.mark.parametrize("d_model", [8, 64, 300])
@pytest.mark.parametrize("norm", [None, "rmsnorm"])
def test_activations_stay_of_order_one(d_model: int, norm: str | None) -> None:
    model = random_model(layers=6, heads=4, d_model=d_model, d_head=d_model // 2, d_vocab=50, norm=norm)
    trace = model.run(np.random.default_rng(0).integers(0, 50, 20))
    for size in (trace.residuals["embed"], trace.residuals["final_in"], trace.logits):
        assert 0.3 < size.std() < 3
    assert trace.patterns[-1, :, -1].max() > 0.1  # and attention looks somewhere


def test_a_stack_of_gpt2_small_shape_is_made_with_the_switches_of_config() -> None:
    model = random_model(
        layers=2, heads=12, d_model=768, d_head=64, d_vocab=500, n_ctx=64, norm="layernorm", seed=0
    )
    assert model.run([1, 2, 3]).logits.shape == (3, 500)
    assert random_model(causal=False, norm_eps=0.1).config.norm_eps == 0.1
    with pytest.raises(ConfigError, match=r"norm: expected one of .* got 'batch'"):
        random_model(norm="batch")
    with pytest.raises(ConfigError, match=r"heds.*Did you mean 'heads'"):
        random_model(heds=3)


def test_the_zoo_has_every_switch() -> None:
    configs = [make().config for make in ZOO.values()]
    assert {c.positions for c in configs} == {"none", "learned", "qk"}
    assert {(c.norm, c.final_norm) for c in configs} >= {
        (None, False), ("layernorm", True), ("layernorm", False), ("rmsnorm", True),
    }  # fmt: skip
    assert {c.n_layers for c in configs} == {0, 1, 2, 3}
    assert {c.n_heads for c in configs} >= {1, 2, 3}
    assert any(1 < c.n_kv_heads < c.n_heads for c in configs)
    assert {c.causal for c in configs} == {True, False}
    assert sum(c.d_head * c.n_heads != c.d_model for c in configs) > 12


def test_a_bigram_table_is_its_logits() -> None:
    table = np.random.default_rng(0).standard_normal((5, 5))
    trace = zero_layer_bigram(table).run([3, 0, 4])
    np.testing.assert_array_equal(trace.logits, table[:, [3, 0, 4]].T)
    assert trace.patterns.shape == (0, 1, 3, 3)


@pytest.mark.parametrize("table", [np.ones((2, 3)), np.ones(4), 3.0])
def test_a_table_that_is_not_square_is_refused(table: np.ndarray) -> None:
    with pytest.raises(ConfigError, match="a bigram table is square"):
        zero_layer_bigram(table)


def test_a_table_that_is_not_finite_is_refused() -> None:
    with pytest.raises(WeightsError, match="W_U has 1 numbers that are not finite, the first nan at"):
        zero_layer_bigram([[0.0, 1.0], [float("nan"), 0.0]])


@pytest.mark.parametrize(("d_vocab", "n_ctx"), [(2, 4), (8, 16), (20, 33), (30, 60)])
def test_the_induction_model_finds_and_copies(d_vocab: int, n_ctx: int) -> None:
    model = induction_model(d_vocab=d_vocab, n_ctx=n_ctx)
    period = min(d_vocab, n_ctx // 2)
    tokens = np.tile(np.random.default_rng(n_ctx).permutation(d_vocab)[:period], 2)
    trace = model.run(tokens)
    at = np.arange(1, 2 * period)
    assert (trace.patterns[0, 0, at, at - 1] > 0.99).all()
    assert trace.patterns[0, 0, 0, 0] == 1
    again = np.arange(period, 2 * period)
    assert (trace.patterns[1, 0, again, again - period + 1] > 0.99).all()
    following = np.append(tokens[period + 1 :], tokens[0])
    assert (trace.logits[again].argmax(axis=-1) == following).all()
    assert np.exp(trace.log_probs[again, following]).min() > 0.99


def test_the_induction_model_does_not_take_the_first_token_for_a_follower() -> None:
    trace = induction_model(d_vocab=5, n_ctx=10).run([4, 1, 2, 4])
    assert trace.patterns[1, 0, 3, 1] > 0.99
    assert trace.patterns[1, 0, 3, 0] < 1e-5


def test_the_induction_model_knows_nothing_of_new_tokens() -> None:
    trace = induction_model(d_vocab=6, n_ctx=10).run([0, 1, 2, 3])
    np.testing.assert_allclose(trace.patterns[1, 0, 3], [0, 1 / 3, 1 / 3, 1 / 3], atol=1e-4)
