"""Reports from the field on architectures (part B) and on use (U), each as a small test."""

import dataclasses
import json
from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.model.load.families.llama import embedding_scale
from pathexp.model.range import capped
from tests.model.load.checkpoints import folder
from tests.model.load.test_huggingface import GEMMA2, gemma2_arrays
from tests.zoo import FAMILIES

TOKENS = [3, 1, 4, 1, 5]


def grouped(**switches):
    return px.random_model(**{"layers": 2, "heads": 4, "kv_heads": 2, "biases": True, "seed": 1} | switches)


def test_a01_query_heads_share_key_value_heads_in_order():
    model = grouped()
    assert [model.config.kv_head(head) for head in range(4)] == [0, 0, 1, 1]
    with pytest.raises(px.PathexpError, match="n_heads=6, n_kv_heads=4"):
        px.random_model(heads=6, kv_heads=4)
    scores = px.composition(model)
    assert scores.q.shape == scores.k.shape == scores.v.shape == (2, 4, 2, 4)
    assert px.virtual_weight(model, "L0H3", "L1H0").shape == (24, 24)


def test_a03_grouped_queries_by_value_and_not_by_shape_alone():
    """Head by head, in plain numpy, with queries that differ: the path sum is that, and a swap of queries is seen."""
    model = grouped()
    c, w, trace = model.config, model.weights, model.run(TOKENS)
    x = trace.residuals["embed"]
    for layer in range(c.n_layers):
        added = np.zeros_like(x)
        for head in range(c.n_heads):
            q = x @ w.W_Q[layer, head].T + w.b_Q[layer, head]
            k = x @ w.W_K[layer, head // 2].T + w.b_K[layer, head // 2]
            v = x @ w.W_V[layer, head // 2].T + w.b_V[layer, head // 2]
            weighed = np.exp(q @ k.T / np.sqrt(c.d_head)) * np.tri(len(TOKENS))
            added += (weighed / weighed.sum(-1, keepdims=True)) @ v @ w.W_O[layer, head].T
        x = x + added + w.b_O[layer]
    expected = x @ w.W_U.T + w.b_U
    np.testing.assert_allclose(px.expand(trace).logits(), expected, atol=1e-10)
    swapped = replace(model, weights=replace(w, W_Q=w.W_Q[:, [1, 0, 2, 3]]))
    assert np.abs(swapped.run(TOKENS).logits - expected).max() > 1e-3


def test_a04_queries_are_one_a_head_and_keys_and_values_one_a_group():
    """4 queries, 2 keys, 2 values a layer; each key or value is used by exactly two heads."""
    model = grouped()
    w, before = model.weights, model.run(TOKENS)
    assert w.W_Q.shape[1] == 4 and w.W_K.shape[1] == w.W_V.shape[1] == 2

    def heads_moved_by(name, index):
        array = np.array(getattr(w, name))
        array[0, index] += 0.1
        after = replace(model, weights=replace(w, **{name: array})).run(TOKENS)
        return [h for h in range(4) if np.abs(after.z[0, h] - before.z[0, h]).max() > 1e-9]

    for name in ("W_K", "W_V"):
        assert [heads_moved_by(name, group) for group in range(2)] == [[0, 1], [2, 3]]
    assert [heads_moved_by("W_Q", head) for head in range(4)] == [[0], [1], [2], [3]]
    labels = px.expand(before).graph.by_label
    assert sum(label.startswith("L0H") for label in labels) == 4
    assert [label for label in labels if label.startswith("b_V_L0")] == [f"b_V_L0H{h}" for h in range(4)]


def test_a06_what_a_branch_adds_is_behind_its_norm():
    """Two layers, norms behind branches: normed outputs add up to the stream, raw outputs do not."""
    trace = FAMILIES["gemma2"]().run(TOKENS)
    stream, layers = trace.residuals, range(trace.config.n_layers)

    def total(suffix):
        branches = (stream[f"L{layer}.{kind}_{suffix}"] for layer in layers for kind in ("attn", "mlp"))
        return stream["embed"] + sum(branches)

    np.testing.assert_allclose(total("out"), stream["final_in"], atol=1e-12)
    assert np.abs(total("result") - stream["final_in"]).max() > 0.1
    parts = px.decompose(trace)
    np.testing.assert_allclose(sum(parts.at("L1.out").values()), stream["final_in"], atol=1e-11)
    assert px.expand(trace).verify().ok


def test_a13_under_rotary_positions_there_is_one_form_per_distance():
    model = px.random_model(layers=1, heads=1, d_head=4, positions="rotary", seed=2)
    scores = model.run([7] * 13).scores[0, 0]
    assert scores[5, 3] == pytest.approx(scores[12, 10], abs=1e-12)
    assert abs(scores[5, 4] - scores[5, 3]) > 1e-3
    head = px.head(model, "L0H0")
    with pytest.raises(px.PathexpError, match=r"QK_at\(distance\)"):
        _ = head.QK
    x = model.weights.W_E[:, 7]
    form = head.QK_at(2).dense()
    assert x @ form @ x * model.config.attention_scale == pytest.approx(scores[5, 3], abs=1e-12)


def test_a15_windows_are_a_list_by_layer():
    for windows in ((2, None), (None, 2)):
        model = px.random_model(layers=2, heads=2, windows=windows, seed=3)
        patterns = model.run([1, 2, 3, 4]).patterns
        for layer, width in enumerate(windows):
            if width is None:
                assert (patterns[layer, :, 3, 0] > 0).all()
            else:
                assert (patterns[layer, :, 3, :2] == 0).all()


def test_a16_gains_stored_less_one_and_the_embedding_scaled_once(tmp_path):
    model = px.load(folder(tmp_path / "gemma", GEMMA2, gemma2_arrays()))
    assert model.weights.g_attn[0, :2].tolist() == [1.5, 0.5]
    assert embedding_scale(3072) == pytest.approx(55.42562584) and embedding_scale(3072, "bfloat16") == 55.5
    assert model.config.tied and np.array_equal(model.weights.W_U, model.weights.W_E.T)
    assert model.config.embedding_multiplier == pytest.approx(np.sqrt(8))
    loose = px.rewrite.fold_multipliers(model)
    assert np.array_equal(loose.weights.W_U, model.weights.W_U) and not loose.config.tied
    np.testing.assert_allclose(loose.weights.W_E, np.sqrt(8) * model.weights.W_E)


def test_a18_a_soft_cap_caps():
    assert float(capped(np.array(124.0), 30.0)) == pytest.approx(29.985, abs=5e-4)
    assert (np.abs(capped(np.linspace(-500, 500, 99), 30.0)) <= 30).all()
    trace = px.random_model(logit_cap=2.0, attention_cap=1.0, seed=4).run(TOKENS)
    np.testing.assert_allclose(trace.logits, 2 * np.tanh(trace.logits_before_cap / 2), atol=1e-15)
    seen = np.isfinite(trace.scores)
    np.testing.assert_allclose(trace.scores[seen], np.tanh(trace.scores_before_cap[seen]), atol=1e-12)


def test_a21_there_is_no_padding_to_get_wrong():
    """One text at a time: every token is real, positions count from 0, and a batch or a mask is refused."""
    model = px.random_model(seed=5)
    with pytest.raises(px.PathexpError, match="run one text at a time"):
        model.run([[0, 0, 1, 2], [1, 2, 3, 4]])
    with pytest.raises(TypeError):
        model.run([0, 0, 1, 2], mask=[0, 0, 1, 1])
    embed = model.run([1, 2]).residuals["embed"]
    np.testing.assert_allclose(embed, (model.weights.W_E[:, [1, 2]] + model.weights.W_pos[:, :2]).T, atol=0)


def test_u01_entries_are_keyed_by_label_in_a_fixed_order():
    trace = px.random_model(layers=2, heads=2, norm="layernorm", d_mlp=5, biases=True, seed=6).run(TOKENS)
    parts = px.decompose(trace)
    assert parts.labels == (
        "E", "P", "L0H0", "L0H1", "b_O_L0", "L0M", "b_out_L0", "L1H0", "L1H1", "b_O_L1", "L1M", "b_out_L1",
    )  # fmt: skip
    stack = parts.stack("L1.out")
    for row, label in enumerate(parts.labels):
        np.testing.assert_array_equal(stack[row], parts[label])
        np.testing.assert_array_equal(stack[row], parts.at("L1.out")[label])
    assert tuple(parts.at("L0.mid")) == parts.labels[: len(parts.stack("L0.mid"))]
    heads = trace.head_results + np.zeros_like(trace.head_results)
    for layer in range(2):
        for head in range(2):
            np.testing.assert_allclose(parts[f"L{layer}H{head}"], heads[layer, head], atol=1e-12)


def test_u04_a_freeze_that_fails_is_seen():
    """Patterns of one text with the activations of another; and the frozen graph is linear in its input."""
    model = px.random_model(layers=2, heads=2, norm="layernorm", d_mlp=7, biases=True, seed=7)
    a, b = model.run([1, 2, 3, 4]), model.run([5, 6, 7, 8])
    for wrong in (replace(b, patterns=a.patterns), replace(b, norm_scales=a.norm_scales),
                  replace(b, mlp_gates=a.mlp_gates)):  # fmt: skip
        verdict = px.expand(px.freeze(wrong)).verify()
        assert not verdict.ok and "add up" in str(verdict) and "≤" not in str(verdict)
        assert not px.decompose(wrong).ok
    doubled = replace(b, model=replace(model, weights=replace(model.weights, W_E=2 * model.weights.W_E)))
    once, twice = (px.expand(px.freeze(trace)).where("E .* U").logits() for trace in (b, doubled))
    np.testing.assert_array_equal(twice, 2 * once)


def test_u07_a_rewritten_copy_leaves_the_model_alone():
    model = px.random_model(norm="layernorm", biases=True, tied=True, seed=8)
    arrays = {name: array.tobytes() for name, array in model.weights.arrays().items()}
    config = json.dumps(model.config.to_dict())
    folded = px.rewrite.fold_norms(model)
    px.rewrite.center_unembedding(px.rewrite.fold_value_biases(folded))
    assert {name: array.tobytes() for name, array in model.weights.arrays().items()} == arrays
    assert json.dumps(model.config.to_dict()) == config and hash(model.config) != hash(folded.config)
    for each in (model, folded):
        for array in each.weights.arrays().values():
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.config = folded.config
