"""Latent attention as a graph: exact sums, scores, every point, and questions of the house, answered or refused by name."""

from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.composition.composition_path import path_composition
from pathexp.errors import FreezeError, GraphError, PathexpError
from pathexp.expansion.scores.score import scores
from pathexp.graph.ports import Ports, readers_of
from pathexp.model import Latent, Rotary
from tests.answer.test_questions import MODELS, QUESTIONS, Asked
from tests.model.test_latent import EVERY


def run(name, n=9):
    return EVERY[name]().run(np.random.default_rng(n).integers(0, 11, n))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("mode", ["gate", "source"])
@pytest.mark.parametrize("name", EVERY)
def test_paths_add_up(name, mode):
    for n in (1, 2, 9, 33):
        verdict = px.expand(px.freeze(run(name, n), mlp=mode)).verify()
        assert verdict.ok and verdict.tolerance < 1e-9, str(verdict)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", EVERY)
def test_scores_are_sums_over_pairs_of_paths(name):
    trace = run(name)
    graph = px.freeze(trace, mlp="source")
    for layer in range(trace.config.n_layers):
        for terms in scores(trace, f"L{layer}H1", [(8, None), (0, 0)], graph=graph):
            verdict = terms.verify()
            assert verdict.ok and verdict.tolerance < 1e-9, str(verdict)


@pytest.mark.parametrize("name", [name for name in EVERY if EVERY[name]().config.norm_placement != "post"])
def test_one_path_by_dense_arrays(name):
    """E through one head: pattern, both scales, and the maps through the latent, multiplied out here."""
    trace, head = run(name), 1
    c, w = trace.config, trace.model.weights
    start = px.expand(trace, at="embed")["E embed" if "embed" in trace.residuals else "E"].logits()
    scale = trace.norm_scales["L0.kv_latent"][:, None]
    read = start
    if "attn" in c.norms_of(0):
        centred = read - read.mean(axis=-1, keepdims=True) if c.norm == "layernorm" else read
        read = centred * trace.norm_scales["L0.attn"][:, None]
        read = read if w.g_attn is None else read * w.g_attn[0]
    gain = 1.0 if w.g_kv_latent is None else w.g_kv_latent[0]
    moved = (
        trace.patterns[0, head]
        @ ((read @ w.W_DKV[0].T) * scale * gain)
        @ (w.W_O[0, head] @ w.W_UV[0, head]).T
    )
    found = px.expand(trace, at=f"L0H{head}")
    (path,) = [term.path for term in found if str(term.path).startswith(f"E L0H{head}")]
    if "attn_post" not in c.block_norms:
        np.testing.assert_allclose(found[str(path)].logits(), c.residual_multiplier * moved, atol=1e-12)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("split", ["midpoint", "here", "there"])
@pytest.mark.parametrize("name", EVERY)
def test_contrasts_of_two_texts_add_up(name, split):
    model, rng = EVERY[name](), np.random.default_rng(8)
    here, there = (model.run(rng.integers(0, 11, 9)) for _ in range(2))
    graph = px.contrast(here, there, split=split)
    assert px.expand(graph).verify().ok
    for at in ("L1H1.Q", "L1H1.K", "L1H1.score"):
        assert px.expand(graph, at=at).verify().ok, at


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_every_array_of_attention_that_differs_is_a_source(name):
    base, rng = EVERY[name](), np.random.default_rng(5)
    trace = base.run([3, 1, 4, 1, 5])
    arrays = base.weights.arrays()
    for array in (each for each in arrays if each.partition("_")[2] in OF_LATENTS):
        changed = np.asarray(arrays[array]) + 0.3 * rng.standard_normal(arrays[array].shape)
        other = px.Model(base.config, replace(base.weights, **{array: changed})).run(trace.tokens)
        graph = px.contrast(other, trace)
        assert px.expand(graph).verify().ok, array
        found = {source.label.partition("_L")[0] for source in graph.sources}
        assert found - {"dchoice"} == {f"d{array}"}  # experts may be chosen otherwise


OF_LATENTS = ("DQ", "UQ", "DKV", "KR", "UK", "UV", "q_latent", "kv_latent")


def test_as_runs_meet_a_contrast_is_the_derivative():
    """Of a text's embedding moved a little, both ways: what moves through the latent's norm is in it."""
    model = EVERY["latent-as-wide-as-the-stream"]()
    trace, rng = model.run([3, 1, 4, 1, 5]), np.random.default_rng(3)
    way = rng.standard_normal(trace.residuals["embed"].shape)
    step = 1e-5
    up, down = (px.rerun(trace, {"embed": lambda x, s=s: x + s * way}) for s in (step, -step))
    wide = (up.logits - down.logits) / (2 * step)
    same = px.contrast(up, trace)
    found = px.expand(same).logits() / step
    np.testing.assert_allclose(found, wide, atol=1e-3 * np.abs(wide).max())


REFUSED = {
    "skip-trigrams": "keys of L0H0 are no one map of weights",
    "skip-trigram-effects": "keys of L0H0 are no one map of weights",
    "induction": "keys of L1H0 are no one map of weights",
    "swap": "their layers compress what they read to latents of their own",
    "rebase": "cannot be re-based under rotary positions",
}
"""Questions that latent attention has no answer to, and what they say."""


def attending(layers):
    latent = Latent(rank=6, d_shared=4, d_value=5, query_rank=8)
    return px.random_model(
        layers=layers, heads=2, d_model=14, d_head=7, d_vocab=11, n_ctx=24, positions="rotary",
        rotary=Rotary(pairing="adjacent"), norm="rmsnorm", biases=True, latent=latent, seed=3,
    )  # fmt: skip


@pytest.fixture(scope="module")
def asked():
    MODELS["latent"] = (lambda: attending(2), lambda: attending(1), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    try:
        return Asked("latent")
    finally:
        del MODELS["latent"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", QUESTIONS)
def test_every_question_is_answered_or_refused_by_name(name, asked):
    if name in REFUSED:
        with pytest.raises(PathexpError, match=REFUSED[name]):
            QUESTIONS[name](asked)
        return
    answer = QUESTIONS[name](asked)
    assert str(answer).strip() and "nan" not in str(answer).lower().split()
    assert getattr(answer, "ok", True) is not False


def test_keys_are_no_map_of_weights_and_say_so():
    model = attending(2)
    assert [label for label in readers_of(model) if label.endswith(".K")] == []
    head = px.head(model, "L1H0")
    for ask in (
        lambda: Ports(model).reader("L1H0.K"),
        lambda: Ports(model, "raw").reader("L1H0.K"),
        lambda: head.W_K,
        lambda: head.reads("K"),
        lambda: head.QK,
        lambda: head.QK_at(2),
        lambda: head.qk_table,
        lambda: px.virtual_weight(model, "L0H0", "L1H0.K"),
        lambda: path_composition(model, "L0H0 L1H0.K"),
        lambda: path_composition(model, "L0H0 L1H0.Q"),
    ):
        with pytest.raises(GraphError, match="keys of L1H0 are no one map of weights: in latent attention"):
            ask()
    assert path_composition(model, "L0H0 L1H0").score > 0


@pytest.mark.parametrize(
    "name", ["W_O", "W_UV", "W_DKV", "g_kv_latent", "W_UK", "W_KR", "b_KR", "W_DQ", "g_q_latent"]
)
def test_what_was_added_to_one_array_is_apart(name):
    base = EVERY["deepseek-v2"]()
    weights = replace(base.weights, **{name: 1.5 * np.asarray(getattr(base.weights, name))})
    graph = px.freeze(px.Model(base.config, weights).run([1, 2, 3]), base=base)
    assert px.expand(graph).verify().ok
    split = any(component.port == "added" for component in graph.components())
    assert split == (name in ("W_O", "W_UV", "W_DKV", "g_kv_latent"))


def test_a_bias_of_a_latent_that_differs_is_refused():
    base = EVERY["deepseek-v2"]()
    other = px.Model(base.config, replace(base.weights, b_DKV=1.5 * np.asarray(base.weights.b_DKV)))
    with pytest.raises(FreezeError, match="differ in b_DKV"):
        px.freeze(other.run([1, 2, 3]), base=base)


def test_composition_is_that_of_values():
    """‖W_OV W_OV'‖ / (‖W_OV‖ ‖W_OV'‖) by dense arrays; queries and keys have none."""
    model = EVERY["deepseek-v2"]()
    found = px.composition(model)
    late, early = (Ports(model).through(label).dense() for label in ("L1H2", "L0H1"))
    score = np.linalg.norm(late @ early) / np.linalg.norm(late) / np.linalg.norm(early)
    np.testing.assert_allclose([found["L1H2.V", "L0H1"], found.v[1, 2, 0, 1]], score, rtol=1e-12)
    assert np.isnan(found.q).all() and np.isnan(found.k).all() and "V-composition alone" in str(found)
    with pytest.raises(PathexpError, match=r"no composition of reader 'L1H2\.K'"):
        found["L1H2.K", "L0H1"]


def test_values_and_queries_are_maps_that_stay_factored():
    """No map of the size of the stream squared, nor of heads by the stream, is made."""
    model = px.random_model(
        layers=1, heads=2, d_model=40, d_head=9, norm="rmsnorm", positions="rotary", biases=True,
        latent=Latent(rank=6, d_shared=4, d_value=8, query_rank=7), seed=1,
    )  # fmt: skip
    head, w = px.head(model, "L0H1"), model.weights
    assert head.OV.formula.replace(" ", "").endswith("W_DKV_L0") and head.OV.rank_bound == 6
    assert head.W_Q.rank_bound == 7 and head.W_Q.shape == (9, 40)
    through = w.W_UV[0, 1] * w.g_kv_latent[0] @ w.W_DKV[0]
    np.testing.assert_allclose(head.W_V.dense(), through, atol=1e-14)
    np.testing.assert_allclose(head.OV.dense(), w.W_O[0, 1] @ through, atol=1e-14)
    np.testing.assert_allclose(
        Ports(model).reader("L0H1.Q").dense(),
        (w.W_UQ[0, 1] * w.g_q_latent[0] @ w.W_DQ[0]) * w.g_attn[0],
        atol=1e-14,
    )
