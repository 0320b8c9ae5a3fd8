"""Heads as two circuits: products of weights, tables between tokens, and what is shown of them."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.errors import FreezeError, GraphError
from pathexp.model import Rotary
from tests.commands import LETTERS, json_of, printed, refusal, saved
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


# What is shown -----------------------------------------------------------------------------------------


def test_the_command_shows_heads_side_by_side(capsys, tmp_path):
    path = saved(tmp_path)
    data = json_of(capsys, "head", path, "--head", "L1H0", "--head", "L0H1", "--top", "3")
    sizes = data["tables"]["circuits"]["rows"]
    assert [(row["head"], row["circuit"]) for row in sizes] == [
        ("L1H0", "QK"), ("L1H0", "OV"), ("L0H1", "QK"), ("L0H1", "OV"),
    ]  # fmt: skip
    head = px.head(px.load(path), "L1H0")
    assert sizes[0]["rank_bound"] == 4 and sizes[1]["norm"] == pytest.approx(np.linalg.norm(head.OV.dense()))
    values = data["matrices"]["singular values"]["values"]
    np.testing.assert_allclose(values[1], np.linalg.svd(head.OV.dense(), compute_uv=False)[:4])
    assert len(data["tables"]["L1H0 OV"]["rows"]) == 3
    out = printed(capsys, "head", path, "--head", "L1H0", "--head", "L0H1", "--top", "3")
    assert "L1H0, L0H1 as two circuits each" in out and "L0H1 OV: what it writes" in out


def test_one_head_is_its_own_answer(capsys, tmp_path):
    path = saved(tmp_path, biases=True)
    head = px.head(px.load(path), "L1H0", k=3)
    assert json_of(capsys, "head", path, "--head", "L1H0", "--top", "3") == json.loads(head.to_json())
    copied = pickle.loads(pickle.dumps(head))
    assert str(copied) == str(head) and repr(copied) == repr(head)
    with pytest.raises(AttributeError, match="ask again"):
        _ = copied.OV


def test_pictures_hold_the_entries_of_the_tables():
    """Every cell is the table's entry, QK as a score, over the tokens of the largest entries."""
    model = px.Model(
        (one := px.random_model(d_vocab=9, biases=True)).config,
        one.weights,
        px.model.Tokenizer(tuple(LETTERS)),
    )
    head = px.head(model, "L1H0", k=3)
    for what, table in (("QK", head.form.scale * head.qk_table.dense()), ("OV", head.ov_table.dense().T)):
        data = head.figures()[f"L1H0 {what}"].data
        rows, columns = ([LETTERS.index(token) for token in data[side]] for side in ("rows", "columns"))
        np.testing.assert_allclose(data["values"], table[np.ix_(rows, columns)])
        listed = head.tables()[f"L1H0 {what}"]
        assert listed.column("adds") == pytest.approx(sorted(table.ravel(), reverse=True)[:3])


def test_a_distance_is_needed_under_rotary_positions_alone(capsys, tmp_path):
    path = saved(tmp_path, positions="rotary")
    assert "give distance (--distance)" in printed(capsys, "head", path, "--head", "L1H0")
    data = json_of(capsys, "head", path, "--head", "L1H0", "--distance", "2")
    assert [row["circuit"] for row in data["tables"]["circuits"]["rows"]] == ["QK", "OV"]
    assert "no head 'L7H0'" in refusal(capsys, "head", path, "--head", "L7H0")


def test_a_post_norm_model_has_heads_without_tables():
    assert "post-norm" in str(px.head(FAMILIES["original"](), "L1H0"))
