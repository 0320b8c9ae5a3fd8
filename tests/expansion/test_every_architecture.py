"""Every switch of every architecture at once: seeded random configurations, every way to freeze, always exact."""

from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.expansion import compare

LENGTHS = (1, 2, 9, 33)


def random_switches(seed: int) -> px.Model:
    """A model with every switch drawn at random, adversarial in its shapes."""
    rng = np.random.default_rng(seed)

    def pick(*choices):
        return choices[rng.integers(len(choices))]

    norm, d_mlp, kv_heads = pick(None, "layernorm", "rmsnorm"), pick(0, 7, 12), pick(1, 2)
    placement = pick("pre", "post", "sandwich", "branch") if norm else "pre"
    return px.random_model(
        layers=pick(1, 2, 3),
        heads=kv_heads * pick(1, 2),
        kv_heads=kv_heads,
        d_model=int(rng.integers(4, 14)),
        d_head=pick(2, 4, 6),
        d_vocab=9,
        n_ctx=40,
        norm=norm,
        norm_placement=placement,
        final_norm=bool(norm and pick(0, 1)),
        embed_norm=bool(norm and pick(0, 1)),
        qk_norm=pick(None, "head", "projection", "layernorm"),
        positions=pick("none", "learned", "qk", "sinusoidal", "rotary", "alibi"),
        biases=bool(pick(0, 1)),
        causal=bool(pick(0, 1, 1)),
        windows=pick(None, 3),
        d_mlp=d_mlp,
        activation=pick("relu", "relu2", "tanh", "gelu", "gelu_tanh", "silu"),
        gated=bool(d_mlp and pick(0, 1)),
        parallel=pick(None, "shared", "separate") if d_mlp and placement == "pre" and norm else None,
        attention_cap=pick(None, 2.0),
        embedding_multiplier=pick(1.0, 3.0),
        residual_multiplier=pick(1.0, 0.22),
        logit_multiplier=pick(1.0, 0.5),
        logit_cap=pick(None, 1.5),
        seed=seed,
    )


def run(model: px.Model, seed: int) -> px.Trace:
    rng = np.random.default_rng(seed)
    return model.run(rng.integers(0, model.config.d_vocab, LENGTHS[seed % 4]))


def freezings(trace: px.Trace):
    yield px.freeze(trace)
    yield px.freeze(trace, mlp="source")
    yield px.freeze(trace, cap="before")
    if trace.config.d_mlp:
        yield px.freeze(trace, neurons={trace.config.n_layers - 1: [3, 1]})


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(60))
def test_every_switch_every_freezing(seed):
    trace = run(random_switches(seed), seed)
    for graph in freezings(trace):
        verdict = px.expand(graph).verify()
        assert verdict.ok, f"{trace.config}\n{graph.frozen}\n{verdict}"
        assert verdict.tolerance < 1e-9


@pytest.mark.parametrize("seed", range(100, 112))
def test_symbols_equal_numbers(seed):
    trace = run(random_switches(seed), 4 * seed + 1)
    for graph in freezings(trace):
        terms = px.expand(graph)
        if terms.count() > 300:
            continue
        found = px.evaluate(terms.expr(), terms.arrays())
        if found.shape[1] != 1:
            one_hot = np.eye(trace.config.d_vocab)[trace.tokens]
            found = found @ one_hot.reshape(-1, 1)
        reference = trace.logits_before_cap if graph.before_cap else trace.logits
        np.testing.assert_allclose(found.reshape(reference.shape), reference, atol=1e-9)


@pytest.mark.parametrize("seed", range(200, 215))
def test_values_and_queries_with_every_switch(seed):
    trace = run(random_switches(seed), 4 * seed + 2)
    for graph in freezings(trace):
        terms = px.expand(graph)
        target = trace.direction(np.arange(1.0, trace.config.d_model + 1), space="residual")
        np.testing.assert_allclose(terms.values(target).sum(), target.value, atol=1e-9)
        some = terms.where("S .? U")
        np.testing.assert_allclose(some.values(target), [t.value(target) for t in some], atol=1e-10)
        np.testing.assert_allclose(some.logits() + some.rest().logits(), px.expand(graph).logits(), atol=1e-9)


# Answers on paper --------------------------------------------------------------------------------------


def scalar_model(**switches):
    """One dimension, one token: attention gain 2, linear-region ReLU MLP gain 3, x = 1."""
    model = px.random_model(layers=1, heads=1, d_model=1, d_head=1, d_vocab=1, n_ctx=2, positions="none",
                            d_mlp=1, activation="relu", **switches)  # fmt: skip
    one = np.ones((1, 1, 1))
    weights = replace(
        model.weights, W_E=[[1.0]], W_U=[[1.0]], W_V=one[None], W_O=2 * one[None], W_in=one, W_out=3 * one
    )
    return replace(model, weights=weights)


def test_parallel_and_sequential_blocks_on_paper():
    """Case A-09: parallel paths 1, 2, 3 and no edge from head to MLP; sequential 1, 2, 3, 6 and one."""
    sequential = scalar_model().run([0])
    assert sorted(float(t.logits()[0, 0]) for t in px.expand(sequential)) == pytest.approx([1, 2, 3, 6])
    assert px.freeze(sequential).to_networkx().has_edge("L0H0", "L0M")
    parallel = scalar_model(parallel="separate").run([0])
    assert sorted(float(t.logits()[0, 0]) for t in px.expand(parallel)) == pytest.approx([1, 2, 3])
    assert not px.freeze(parallel).to_networkx().has_edge("L0H0", "L0M")


def test_a_residual_multiplier_is_part_of_the_writing_edge():
    """Case A-07: multiplier 0.22, head gain 2, two layers: 1 + .44 + .44 + .1936 = 2.0736."""
    model = px.random_model(layers=2, heads=1, d_model=1, d_head=1, d_vocab=1, n_ctx=2, positions="none",
                            residual_multiplier=0.22)  # fmt: skip
    ones = np.ones((2, 1, 1, 1))
    weights = replace(model.weights, W_E=[[1.0]], W_U=[[1.0]], W_V=ones, W_O=2 * ones)
    trace = replace(model, weights=weights).run([0])
    assert [float(t.logits()[0, 0]) for t in px.expand(trace)] == pytest.approx([1, 0.44, 0.44, 0.1936])
    assert float(trace.logits[0, 0]) == pytest.approx(2.0736)


def test_a_capped_sum_is_the_logits_and_the_sum_before_the_cap_caps_to_them():
    """Case F-17: paths add up to the logits before the cap; capping that sum gives the model's logits."""
    trace = px.random_model(logit_cap=1.5, biases=True, norm="layernorm", seed=3).run([1, 2, 3])
    before = px.expand(px.freeze(trace, cap="before")).logits()
    np.testing.assert_allclose(1.5 * np.tanh(before / 1.5), trace.logits, atol=1e-12)
    assert np.abs(before - trace.logits).max() > 1e-3
    assert not compare(before, trace.logits, 1e-10, "uncapped against capped").ok
    with pytest.raises(px.PathexpError, match="cap='ratio'"):
        px.expand(px.freeze(trace, cap="before")).value(trace.logit(1))


def test_post_norm_stands_on_the_skip_edge():
    trace = px.random_model(
        layers=2, heads=2, norm="layernorm", norm_placement="post", d_mlp=7, biases=True
    ).run([1, 2])
    assert all(block.skip for block in px.freeze(trace).blocks) and len(px.freeze(trace).blocks) == 4
    formula = px.expand(trace)["E L0H1 U"].formula
    assert formula.startswith(
        "S_L1_mlp_post S_L1_attn_post S_L0_mlp_post S_L0_attn_post A_L0H1 ⊗ W_U G_L1_mlp_post C"
    )


def test_a_branch_norm_is_part_of_what_its_components_write():
    """Case A-06: what is added is the norm of the module's output, not the module's output."""
    trace = px.random_model(
        layers=2, heads=2, norm="rmsnorm", norm_placement="sandwich", d_mlp=5, biases=True
    ).run([1, 2])
    formula = px.expand(trace)["E L0H1 U"].formula
    assert "S_L0_attn_post A_L0H1 S_L0_attn ⊗" in formula and "G_L0_attn_post W_OV_L0H1 G_L0_attn" in formula


def test_neurons_are_rank_one_terms_that_sum_to_their_mlp():
    trace = px.random_model(layers=1, heads=2, d_mlp=6, norm="rmsnorm", biases=True, seed=5).run([1, 2, 3])
    every = px.expand(px.freeze(trace, neurons={0: range(6)}))
    whole = px.expand(trace)
    parts = sum(every[f"E L0N{k} U"].logits() for k in range(6))
    np.testing.assert_allclose(parts, whole["E L0M U"].logits(), atol=1e-12)
    assert not every["E L0M U"].logits().any()
    assert every["E L0N2 U"].weight.rank_bound == 1
    with pytest.raises(px.PathexpError, match="no single A ⊗ W"):
        _ = whole["E L0M U"].pattern


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({"mlp": "sources"}, "'gate', 'source'"),
        ({"cap": "after"}, "'ratio', 'before'"),
        ({"neurons": {7: [0]}}, "layers 0 to 1"),
        ({"neurons": {0: [99]}}, "its MLP has 5 neurons"),
        ({"neurons": {0: [1, 1]}}, "more than once"),
        ({"neurons": {0: [1]}, "mlp": "source"}, "only with mlp='gate'"),
    ],
)
def test_freezing_refuses_what_is_not_there(how, text):
    trace = px.random_model(layers=2, heads=1, d_mlp=5).run([1])
    with pytest.raises(px.PathexpError, match=text):
        px.freeze(trace, **how)


def test_the_ledger_says_what_is_held_fixed():
    model = px.random_model(layers=1, heads=2, d_mlp=6, gated=True, norm="rmsnorm", positions="rotary", d_head=4,
                            logit_cap=3.0, attention_cap=2.0)  # fmt: skip
    trace = model.run([1, 2])
    text = "\n".join(px.freeze(trace).frozen)
    for part in (
        "attention patterns (soft-capped, rotary)",
        "L0.attn, L0.mlp, final",
        "gate branch whole",
        "±3",
    ):
        assert part in text
    assert "paths start at them" in "\n".join(px.freeze(trace, mlp="source").frozen)
    assert "left out" in "\n".join(px.freeze(trace, cap="before").frozen)
