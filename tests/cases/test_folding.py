"""Reports from the field on folding, norms, biases and centering (part A), each as a small test."""

from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.heads.head_edits import rebase_ov, rebase_qk
from pathexp.model.attention import softmax
from pathexp.model.range import capped
from pathexp.model.rewrite import Step, check_steps, rewritten, unnormalized_rows
from tests.zoo import FAMILIES

rewrite = px.rewrite


def model_of(weights, **sizes):
    """A model from some of its arrays; the rest of what must be there is zero."""
    defaults = {"layers": 1, "heads": 1, "positions": "none", "n_ctx": 8, "norm_eps": 0}
    blank = px.random_model(**defaults | sizes)
    zero = {name: np.zeros_like(array) for name, array in blank.weights.arrays().items()}
    return replace(blank, weights=px.Weights(**zero | weights))


def test_f01_the_lens_at_the_last_layer_is_the_logits_folded_or_not():
    x, gain, bias = [1.0, -1, 2, -2], [2.0, 1, 1, 1], [0.0, 0, 1, 0]
    weights = {"W_E": np.transpose([x]), "W_U": np.eye(4)[:2], "g_final": gain, "b_final": bias}
    weights["W_E"] = np.repeat(weights["W_E"], 2, axis=1)
    raw = model_of(weights, layers=0, d_model=4, d_vocab=2, norm="layernorm")
    for model in (raw, rewrite.fold_norms(raw)):
        trace = model.run([0])
        for found in (
            trace.logits,
            *(getattr(px.lens(trace, trace.logit(0)), mode).logits[-1] for mode in ("own", "frozen")),
        ):
            np.testing.assert_allclose(found, [[1.2649111, -0.6324555]], atol=1e-7)
        np.testing.assert_allclose(sum(px.decompose(trace).logits().values()), trace.logits, atol=1e-12)
    dropped = replace(raw, weights=replace(raw.weights, g_final=None, b_final=None)).run([0]).logits
    np.testing.assert_allclose(dropped, [[0.6324555, -0.6324555]], atol=1e-7)


@pytest.mark.parametrize("norm", ["layernorm", "rmsnorm"])
def test_f02_two_modes_of_the_lens_under_two_names(norm):
    early, final = np.array([3.0, -3, 0, 0]), np.array([30.0, -30, 10, -10])
    weights = {"W_E": np.repeat(early[:, None], 4, axis=1), "b_O": [final - early], "W_U": np.eye(4)}
    trace = model_of(weights, d_model=4, d_vocab=4, norm=norm).run([1])
    lens = px.lens(trace, trace.logit(0))
    own, frozen = lens.own, lens.frozen
    np.testing.assert_allclose(own["embed"], [[1.4142136, -1.4142136, 0, 0]], atol=1e-7)
    np.testing.assert_allclose(frozen["embed"], [[0.1341641, -0.1341641, 0, 0]], atol=1e-7)
    np.testing.assert_allclose(own["L0.out"], frozen["L0.out"], atol=1e-12)


def test_f04_post_norm_blocks_are_not_folded_and_expand_as_they_are():
    model = px.random_model(layers=1, norm="layernorm", norm_placement="post", d_mlp=7, biases=True, seed=1)
    with pytest.raises(px.PathexpError, match=r"norm attn_post stands on the stream itself.*norm mlp_post"):
        rewrite.fold_norms(model)
    assert px.expand(model.run([1, 2, 3])).verify().ok


def test_f05_rms_gains_go_into_every_reader_and_nothing_is_centered():
    gain, identity = np.array([2.0, 3.0]), np.eye(2)
    unembedding = np.arange(1.0, 11.0).reshape(5, 2)
    weights = {
        "W_E": np.random.default_rng(0).standard_normal((2, 5)), "W_in": [identity], "W_gate": [identity],
        "W_out": [identity], "g_mlp": [gain], "g_attn": [gain], "g_final": gain, "W_U": unembedding,
        "W_Q": np.ones((1, 1, 2, 2)),
    }  # fmt: skip
    raw = model_of(
        weights, d_model=2, d_head=2, d_vocab=5, d_mlp=2, gated=True, norm="rmsnorm", activation="silu"
    )
    folded = rewrite.fold_norms(raw)
    for name in ("W_in", "W_gate", "W_Q"):
        expected = getattr(raw.weights, name) * gain
        np.testing.assert_array_equal(getattr(folded.weights, name), expected)
    np.testing.assert_array_equal(folded.weights.W_in[0], np.diag(gain))
    np.testing.assert_array_equal(folded.weights.W_U, unembedding * gain)
    np.testing.assert_array_equal(folded.weights.W_E, raw.weights.W_E)
    before, after = raw.run(range(5)), folded.run(range(5))
    np.testing.assert_allclose(before.residuals["L0.mlp_out"], after.residuals["L0.mlp_out"], atol=1e-12)
    with pytest.raises(px.PathexpError, match="RMSNorm, which does not center"):
        rewrite.center_writing(raw)


def test_f07_a_value_bias_moves_into_the_output_bias():
    weights = {
        "W_O": [[[[1.0], [2.0]]]],
        "b_V": [[[3.0]]],
        "b_O": [[10.0, 0.0]],
        "W_E": np.eye(2),
        "W_U": np.eye(2),
    }
    raw = model_of(weights, d_model=2, d_head=1, d_vocab=2)
    folded = rewrite.fold_value_biases(raw)
    assert folded.weights.b_O.tolist() == [[13.0, 6.0]] and folded.weights.b_V is None
    np.testing.assert_allclose(raw.run([0, 1]).logits, folded.run([0, 1]).logits, atol=1e-12)
    terms = px.expand(folded.run([0, 1]))
    assert [source.label for source in terms.graph.sources] == ["E", "b_O_L0"]


def test_f08_value_biases_are_repeated_by_key_value_head_not_tiled():
    weights = {
        "b_V": [[[1.0], [10.0]]], "W_O": np.array([1.0, 2, 3, 4]).reshape(1, 4, 1, 1),
        "W_E": np.ones((1, 2)), "W_U": [[1.0], [2.0]],
    }  # fmt: skip
    raw = model_of(weights, heads=4, kv_heads=2, d_model=1, d_head=1, d_vocab=2)
    assert rewrite.fold_value_biases(raw).weights.b_O.tolist() == [[73.0]], "64 is what a tiled mapping gives"


def test_f10_a_tied_unembedding_is_untied_before_it_is_folded():
    table = np.random.default_rng(1).standard_normal((6, 9))
    gain = np.linspace(0.5, 2, 6)
    weights = {"W_E": table, "W_U": table.T, "g_final": gain}
    raw = model_of(weights, layers=0, d_model=6, d_vocab=9, norm="rmsnorm", tied=True)
    folded = rewrite.fold_norms(raw)
    assert folded.weights.W_E.tobytes() == np.ascontiguousarray(table).tobytes()
    assert not np.shares_memory(folded.weights.W_E, folded.weights.W_U)
    assert raw.config.tied and not folded.config.tied
    np.testing.assert_allclose(raw.run([1, 2]).logits, folded.run([1, 2]).logits, atol=1e-12)


def test_f11_folding_twice_is_folding_once():
    raw = px.random_model(norm="layernorm", biases=True, logit_multiplier=0.0625, seed=4)

    def fold(model):
        for step in (rewrite.fold_multipliers, rewrite.fold_norms, rewrite.fold_value_biases,
                     rewrite.center_writing, rewrite.center_unembedding):  # fmt: skip
            model = step(model)
        return model

    once, twice = fold(raw), fold(fold(raw))
    assert once.history == twice.history and len(once.history) == 5
    for name, array in once.weights.arrays().items():
        assert array.tobytes() == twice.weights.arrays()[name].tobytes(), name
    np.testing.assert_allclose(raw.run([1, 2]).log_probs, twice.run([1, 2]).log_probs, atol=1e-12)


def test_f13_square_matrices_of_the_wrong_layout_do_not_pass():
    """What is not square is refused by its shape; a fold along the wrong side of what is square, by the check."""
    model = px.random_model(
        layers=1, heads=2, d_model=4, d_head=2, d_mlp=4, norm="rmsnorm", biases=True, seed=5
    )
    with pytest.raises(px.PathexpError, match=r"W_O has shape.*transpose its last two axes"):
        turned = replace(model.weights, W_O=np.swapaxes(model.weights.W_O, -1, -2))
        replace(model, weights=turned)
    gain = model.weights.g_mlp[0]

    def wrong_side(draft):
        draft.edit("W_in")[0] *= gain[:, None]
        draft.drop("g_mlp")

    def right_side(draft):
        draft.edit("W_in")[0] *= gain
        draft.drop("g_mlp")

    assert rewritten(model, "fold", [Step("fold mlp", right_side)]).weights.g_mlp is None
    with pytest.raises(px.PathexpError, match="the first step that does is fold mlp"):
        rewritten(model, "fold", [Step("fold mlp", wrong_side)])


def test_f14_positions_of_queries_and_keys_are_not_on_the_stream():
    model = px.random_model(positions="qk", norm="layernorm", biases=True, seed=6)
    trace = model.run([1, 2, 3, 4])
    terms = px.expand(trace)
    assert terms.verify().ok
    symbols = {str(symbol) for symbol in terms.expr().free_symbols}
    assert "W_pos" not in symbols and "W_E" in symbols
    with pytest.raises(px.PathexpError, match="its gain would scale the positions too"):
        rewrite.fold_norms(model)
    rest = rewrite.fold_norms(model, norms=["final"])
    np.testing.assert_allclose(rest.run([1, 2, 3, 4]).logits, trace.logits, atol=1e-12)


def test_f16_nothing_is_processed_unless_asked_and_what_was_is_recorded():
    raw = px.random_model(biases=True, seed=7)
    assert raw.history == px.load("attn-1l").history == ()
    centered = rewrite.center_unembedding(raw)
    assert centered.history == ("center_unembedding",)
    a, b = raw.run([1, 2, 3]), centered.run([1, 2, 3])
    assert (a.logits - b.logits).std(axis=-1).max() < 1e-10 and np.abs(a.logits - b.logits).max() > 1e-3
    np.testing.assert_allclose(a.log_probs, b.log_probs, atol=1e-12)
    assert "differ by a per-position constant" in str(rewrite.compare(raw, centered))


def test_f17_a_constant_before_a_cap_is_not_harmless():
    np.testing.assert_allclose(capped(np.array([0.0, 30.0]), 30), [0, 22.8478247], atol=1e-7)
    np.testing.assert_allclose(capped(np.array([10.0, 40.0]), 30), [9.6453821, 26.1018499], atol=1e-7)
    with pytest.raises(px.PathexpError, match="soft-capped at ±30"):
        rewrite.center_unembedding(px.random_model(logit_cap=30.0))


def test_f19_heads_are_rebased_with_their_biases_and_not_under_rotation():
    rng = np.random.default_rng(8)
    model = px.random_model(layers=1, heads=2, d_head=3, biases=True, seed=8)
    basis = rng.standard_normal((3, 3))
    changed = rebase_qk(rebase_ov(model, "L0H1", basis), "L0H1", basis)
    a, b = model.run([1, 2, 3]), changed.run([1, 2, 3])
    np.testing.assert_allclose(a.scores, b.scores, atol=1e-10)
    np.testing.assert_allclose(a.logits, b.logits, atol=1e-10)
    assert changed.history == ("rebase_ov(L0H1)", "rebase_qk(L0H1)")
    for name in ("b_Q", "b_K", "b_V"):
        assert np.abs(getattr(model.weights, name) - getattr(changed.weights, name))[0, 1].max() > 1e-3
    with pytest.raises(px.PathexpError, match="cannot be re-based under rotary"):
        rebase_qk(FAMILIES["llama"](), "L0H0", np.eye(4))
    without_bias = replace(changed, weights=replace(changed.weights, b_V=model.weights.b_V))
    assert not rewrite.compare(model, without_bias).equal


def test_f20_the_check_names_the_first_step_that_fails():
    model = px.random_model(layers=3, norm="layernorm", biases=True, seed=9)

    def fold(layer, forget):
        def edit(draft):
            for weight, bias in (("W_Q", "b_Q"), ("W_K", "b_K"), ("W_V", "b_V")):
                if not forget:
                    draft.bias(bias, weight)[layer] += draft[weight][layer] @ draft["b_attn"][layer]
                draft.edit(weight)[layer] *= draft["g_attn"][layer]
            draft.edit("g_attn")[layer], draft.edit("b_attn")[layer] = 1.0, 0.0

        return Step(f"fold_ln layer {layer}", edit)

    checks = check_steps(model, [fold(layer, forget=layer == 1) for layer in range(3)])
    assert str(checks[0]) == "fold_ln layer 0: PASS" and str(checks[2]) == "fold_ln layer 2: PASS"
    assert str(checks[1]).startswith("fold_ln layer 1: FAIL")


def test_n04_masked_rows_are_zero_and_value_biases_stay_where_they_are():
    pattern = softmax(np.array([[-np.inf, -np.inf], [0.0, -np.inf]]))
    assert pattern.tolist() == [[0.0, 0.0], [1.0, 0.0]]
    assert unnormalized_rows(pattern[None, None]) == [(0, 0, 0)]
    model = px.random_model(layers=1, heads=1, biases=True, seed=10)
    with pytest.raises(px.PathexpError, match=r"1 row\(s\) do not: L0H0 query 0\. Leave"):
        rewrite.fold_value_biases(model, patterns=pattern[None, None])
    w, trace = model.weights, model.run([1, 2])
    x = trace.residuals["embed"]
    stream = x + pattern @ (x @ w.W_V[0, 0].T + w.b_V[0, 0]) @ w.W_O[0, 0].T + w.b_O[0]
    masked = replace(trace, patterns=pattern[None, None], logits=stream @ w.W_U.T + w.b_U)
    assert px.expand(px.freeze(masked)).verify().ok
