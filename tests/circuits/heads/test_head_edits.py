"""Heads as two circuits, exchanged and re-based."""

from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.heads.head_edits import rebase_ov, rebase_qk, swap_ov, swap_qk, ungrouped
from pathexp.errors import FreezeError, GraphError, SpaceError
from pathexp.model import Rotary
from tests.shared_models import induction_2l_1h, shared_file
from tests.zoo import FAMILIES, ZOO


def tokens(model, length=7, seed=0):
    return np.random.default_rng(seed).integers(0, model.config.d_vocab, min(length, model.config.n_ctx))


def test_circuits_are_the_products_of_weights():
    model = ZOO["2L-gqa"]()
    w, head = model.weights, px.head(model, "L1H3")
    np.testing.assert_allclose(head.OV.dense(), w.W_O[1, 3] @ w.W_V[1, 1], atol=1e-14)
    np.testing.assert_allclose(head.QK.dense(), w.W_Q[1, 3].T @ w.W_K[1, 1], atol=1e-14)
    assert head.OV.rank_bound == head.QK.rank_bound == head.ov_table.rank_bound == model.config.d_head
    assert head.label == "L1H3" and head.ov_table.shape == head.qk_table.shape == (11, 11)


def test_token_tables_hold_gains_and_centering():
    model = ZOO["2L-layernorm-no-gain"]()
    model = replace(
        model, weights=replace(model.weights, g_attn=np.full((2, 14), 2.0), g_final=np.full(14, 3.0))
    )
    w, center = model.weights, np.eye(14) - 1 / 14
    head = px.head(model, "L1H0")
    ov = w.W_U @ (3 * center) @ w.W_O[1, 0] @ w.W_V[1, 0] @ (2 * center) @ w.W_E
    qk = (2 * center @ w.W_E).T @ w.W_Q[1, 0].T @ w.W_K[1, 0] @ (2 * center @ w.W_E)
    np.testing.assert_allclose(head.ov_table.dense(), ov, atol=1e-13)
    np.testing.assert_allclose(head.qk_table.dense(), qk, atol=1e-13)


@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma2", "granite", "olmo2", "microgpt", "bloom"])
def test_an_ov_table_is_the_weight_of_the_path_without_its_scales(name):
    model = FAMILIES[name]()
    trace = model.run(tokens(model))
    table = px.head(model, "L1H1").ov_table.dense()
    term = px.expand(trace)["E L1H1 U"]
    np.testing.assert_allclose(term.weight.dense() if len(term.operator) == 1 else table, table, atol=1e-10)


def test_a_post_norm_model_has_no_token_tables():
    with pytest.raises(px.PathexpError, match="post-norm"):
        _ = px.head(FAMILIES["original"](), "L1H0").ov_table


def test_an_unknown_head_is_refused():
    with pytest.raises(GraphError, match=r"no head 'L2H0': the model's heads are L0H0 … L1H3"):
        px.head(ZOO["2L-gqa"](), "L2H0")


def test_qk_under_rotary_needs_a_distance():
    """Case: one QK matrix per head does not exist under rotary; scores depend on the distance alone."""
    model = px.random_model(
        layers=1, heads=2, d_model=14, d_head=4, positions="rotary", rotary=Rotary(base=100.0), n_ctx=20
    )
    head = px.head(model, "L0H1")
    for name in ("QK", "qk_table"):
        with pytest.raises(FreezeError, match=f"{name} of L0H1: under rotary .* use {name}_at"):
            getattr(head, name)
    run = np.zeros(13, dtype=int)
    run[[3, 10, 4]], run[[5, 12]] = 1, 2  # the same contents at (5, 3) and (12, 10), and at (5, 4)
    scores = model.run(run).scores[0, 1]
    np.testing.assert_allclose(scores[5, 3], scores[12, 10], atol=1e-13)
    assert abs(scores[5, 4] - scores[5, 3]) > 1e-3
    scale = model.config.attention_scale
    for distance, there in ((2, scores[5, 3]), (2, scores[12, 10]), (1, scores[5, 4])):
        np.testing.assert_allclose(scale * head.qk_table_at(distance).dense()[2, 1], there, atol=1e-13)


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


@pytest.mark.parametrize("distance", [-1, 1.5, True, "1", None])
def test_a_key_stands_a_whole_number_of_positions_before_its_query(distance):
    head = px.head(px.random_model(positions="rotary", d_head=4), "L0H0")
    with pytest.raises(px.PathexpError, match="QK_at"):
        head.QK_at(distance)


def test_without_a_causal_mask_keys_stand_after_queries_too():
    head = px.head(px.random_model(positions="rotary", d_head=4, causal=False), "L0H0")
    assert not np.allclose(head.QK_at(-1).dense(), head.QK_at(1).dense())


def test_the_circuits_of_a_hand_made_head_are_its_tables():
    """One head of one dimension: token i is looked at with i, by token j with 2 j, and brings 3 i to the logit of 0."""
    numbers = np.arange(4.0)
    Q, K, V, O = 2 * numbers[None], numbers[None], 3 * numbers[None], np.eye(4)[:, :1]
    config = px.Config(n_layers=1, n_heads=1, d_model=4, d_head=1, d_vocab=4, n_ctx=6, attention_scale=1.0)
    maps = {"W_Q": Q, "W_K": K, "W_V": V, "W_O": O}
    weights = px.Weights(W_E=np.eye(4), W_U=np.eye(4), **{name: W[None, None] for name, W in maps.items()})
    head = px.head(px.Model(config, weights), "L0H0")
    assert np.array_equal(head.qk_table.dense(), np.outer(2 * numbers, numbers))
    assert np.array_equal(head.ov_table.dense(), np.outer([1, 0, 0, 0], 3 * numbers))
    assert head.model.run([3, 1]).scores[0, 0, 1, 0] == 6


@pytest.mark.parametrize("name", ["attn-2l", "stories260K.bin"])
def test_a_trained_head_in_another_basis_changes_nothing(name):
    model = px.load(shared_file(name) if name.endswith(".bin") else name)
    basis = np.random.default_rng(0).standard_normal((model.config.d_head,) * 2)
    tokens = [1, 5, 9, 5, 1]
    other = rebase_ov(model, "L1H2", basis)
    assert not np.allclose(px.head(other, "L1H2").W_V.dense(), px.head(model, "L1H2").W_V.dense())
    np.testing.assert_allclose(other.run(tokens).logits, model.run(tokens).logits, atol=1e-9)
