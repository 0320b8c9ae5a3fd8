"""Heads as two circuits, exchanged and re-based."""

from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.heads.head_edits import rebase_ov, rebase_qk, swap_ov, swap_qk, ungrouped
from pathexp.errors import SpaceError
from tests.shared_models import induction_2l_1h, shared_file
from tests.zoo import FAMILIES, ZOO


def tokens(model, length=7, seed=0):
    return np.random.default_rng(seed).integers(0, model.config.d_vocab, min(length, model.config.n_ctx))


@pytest.mark.parametrize("swap", [swap_ov, swap_qk])
def test_swapped_heads_are_each_other(swap):
    model = ZOO["2L-qk-rmsnorm-biases"]()
    other = swap(model, "L0H1", "L1H0")
    moved, kept = ("OV", "QK") if swap is swap_ov else ("QK", "OV")
    for a, b in (("L0H1", "L1H0"), ("L1H0", "L0H1")):
        np.testing.assert_array_equal(
            getattr(px.head(other, a), moved).dense(), getattr(px.head(model, b), moved).dense()
        )
        np.testing.assert_array_equal(
            getattr(px.head(other, a), kept).dense(), getattr(px.head(model, a), kept).dense()
        )
    run = tokens(model)
    assert np.abs(other.run(run).logits - model.run(run).logits).max() > 1e-3
    np.testing.assert_array_equal(swap(other, "L0H1", "L1H0").run(run).logits, model.run(run).logits)


def test_swapped_qk_takes_the_pattern_along():
    """In one layer: the heads' patterns change places, what they bring does not."""
    model = ZOO["1L-qk-biases"]()
    run = tokens(model)
    before, after = model.run(run), swap_qk(model, "L0H0", "L0H2").run(run)
    np.testing.assert_allclose(after.patterns[0, [2, 1, 0]], before.patterns[0], atol=1e-15)
    value = before.head_results[0, 1]
    np.testing.assert_allclose(after.head_results[0, 1], value, atol=1e-15)


def test_swapped_qk_takes_the_layernorms_of_its_heads_along():
    model = FAMILIES["cohere"]()
    run = tokens(model)
    before, after = model.run(run), swap_qk(model, "L0H0", "L0H2").run(run)
    np.testing.assert_allclose(after.patterns[0, [2, 1, 0, 3]], before.patterns[0], atol=1e-14)
    assert np.abs(before.patterns[0, 0] - before.patterns[0, 2]).max() > 0.01


def test_a_shared_value_is_copied_before_it_moves():
    model = ZOO["2L-gqa"]()
    run = tokens(model)
    np.testing.assert_allclose(ungrouped(model).run(run).logits, model.run(run).logits, atol=1e-13)
    other = swap_ov(model, "L0H0", "L0H3")
    for label in ("L0H1", "L0H2", "L1H0"):  # L0H1 shares its values with L0H0
        np.testing.assert_array_equal(px.head(other, label).OV.dense(), px.head(model, label).OV.dense())


@pytest.mark.parametrize("name", ["2L-gqa", "3L-layernorm", "1L-qk-biases", "bloom", "gemma2"])
def test_a_rebased_head_changes_nothing(name):
    """Case: weight and bias are transformed together; nothing moves."""
    model = (ZOO | FAMILIES)[name]()
    basis = np.random.default_rng(3).standard_normal((model.config.d_head,) * 2)
    run = tokens(model)
    before = model.run(run)
    kinds = [rebase_ov] if model.config.rotary else [rebase_ov, rebase_qk]
    for rebase in kinds:
        after = rebase(model, "L0H1", basis).run(run)
        np.testing.assert_allclose(after.logits, before.logits, atol=1e-10)
        np.testing.assert_allclose(after.patterns, before.patterns, atol=1e-10)


def test_rebasing_without_the_bias_would_show():
    model = ZOO["1L-qk-biases"]()
    basis = np.random.default_rng(3).standard_normal((3, 3))
    rebased = rebase_qk(model, "L0H1", basis)
    forgetful = replace(rebased, weights=replace(rebased.weights, b_Q=model.weights.b_Q))
    run = tokens(model)
    assert np.abs(forgetful.run(run).patterns - model.run(run).patterns).max() > 1e-3


def test_rebasing_is_refused_where_it_is_not_valid():
    with pytest.raises(px.PathexpError, match="under rotary positions"):
        rebase_qk(FAMILIES["llama"](), "L0H0", np.eye(4))
    model = ZOO["2L-plain"]()
    with pytest.raises(SpaceError, match=r"has shape \(3, 3\), found \(2, 2\)"):
        rebase_ov(model, "L0H0", np.eye(2))
    with pytest.raises(SpaceError, match="cannot be inverted"):
        rebase_ov(model, "L0H0", np.ones((3, 3)))
    with pytest.raises(px.PathexpError, match="name two heads"):
        swap_ov(model, "L0H0", "L0H0")
    with pytest.raises(px.PathexpError, match="normed over all heads"):
        swap_qk(FAMILIES["olmo2"](), "L0H0", "L0H1")


def test_trained_the_induction_head_needs_both_of_its_circuits():
    """Swapping either circuit of the trained pair destroys what the model does."""
    model = induction_2l_1h()
    rng, hits = np.random.default_rng(0), np.zeros(3)
    variants = [model, swap_qk(model, "L0H0", "L1H0"), swap_ov(model, "L0H0", "L1H0")]
    for _ in range(100):
        run = rng.permutation(26)[:8]
        run[7] = run[place := rng.integers(0, 6)]
        hits += [each.run(run).top_token() == run[place + 1] for each in variants]
    assert hits[0] > 85 and hits[1] < 30 and hits[2] < 30


@pytest.mark.parametrize("name", ["attn-2l", "stories260K.bin"])
def test_a_trained_head_in_another_basis_changes_nothing(name):
    model = px.load(shared_file(name) if name.endswith(".bin") else name)
    basis = np.random.default_rng(0).standard_normal((model.config.d_head,) * 2)
    tokens = [1, 5, 9, 5, 1]
    other = rebase_ov(model, "L1H2", basis)
    assert not np.allclose(px.head(other, "L1H2").W_V.dense(), px.head(model, "L1H2").W_V.dense())
    np.testing.assert_allclose(other.run(tokens).logits, model.run(tokens).logits, atol=1e-9)
