"""What was added to a base's weights as components of its own: exact sums, paths that pass it, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.errors import FreezeError, QueryError
from tests.expansion.test_every_architecture import random_switches
from tests.zoo import FAMILIES, MORE_EXPERTS, ZOO

EVERY = {**ZOO, **FAMILIES, **MORE_EXPERTS}
MOVES = ("W_V", "W_UV", "W_DKV", "W_O", "W_in", "W_out")


def adapted(
    model: px.Model,
    seed: int = 0,
    names: tuple[str, ...] = (*MOVES, "W_Q", "W_UQ", "W_UK", "W_KR", "W_gate", "W_router"),
) -> px.Model:
    """The model with a change of rank one in the maps of every layer, head and expert."""
    rng, changed = np.random.default_rng(seed), {}
    for name, array in model.weights.arrays().items():
        if name in names or name.rpartition("_")[0] in names:
            left, right = rng.standard_normal((2, *array.shape))
            step = 0.3 * left[..., :1] @ right[..., :1, :]
            changed[name] = array + step * array.any(axis=tuple(range(1, array.ndim)), keepdims=True)
    return replace(model, weights=replace(model.weights, **changed))


def run(model: px.Model, seed: int = 0, length: int = 9) -> px.Trace:
    n = min(length, model.config.n_ctx)
    return model.run(np.random.default_rng(seed).integers(0, model.config.d_vocab, n))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", sorted(name for name, make in EVERY.items() if make().config.n_layers))
def test_paths_add_up_with_what_was_added_apart(name):
    base = EVERY[name]()
    trace = run(adapted(base))
    for options in ({}, {"mlp": "source"}, {"cap": "before"}):
        verdict = px.expand(px.freeze(trace, base=base, **options)).verify()
        assert verdict.ok, f"{options} {verdict}"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(12))
def test_paths_add_up_with_every_switch(seed):
    base = random_switches(seed)
    trace = run(adapted(base, seed), seed, (1, 2, 9, 33)[seed % 4])
    assert px.expand(px.freeze(trace, base=base)).verify().ok


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["gpt2", "llama", "olmo2", "mixtral", "qwen-moe", "2L-qk-rmsnorm-biases"])
def test_each_component_is_its_base_and_what_was_added(name):
    base = EVERY[name]()
    trace = run(adapted(base))
    graph, whole = px.freeze(trace, base=base), px.expand(trace)
    apart = px.expand(graph)
    for component in px.freeze(trace).components():
        label = component.label
        both = [apart[f"E {label}.{port} U"].logits() for port in ("base", "added")]
        known = whole[f"E {label} U"].logits()
        np.testing.assert_allclose(sum(both), known, atol=1e-13 * np.abs(whole.logits()).max())
        np.testing.assert_allclose(
            apart.where(f"S {label} U").logits(), whole.where(f"S {label} U").logits(), atol=1e-12
        )
        assert known.any() == both[1].any()


def test_the_base_is_the_base_at_the_runs_patterns():
    base = px.random_model(layers=2, heads=2, positions="none", seed=3)
    trace = run(adapted(base, names=("W_V", "W_O")))
    apart, w = px.expand(px.freeze(trace, base=base)), base.weights
    seen = trace.patterns[1, 1] @ trace.residuals["embed"] @ (w.W_O[1, 1] @ w.W_V[1, 1]).T @ w.W_U.T
    np.testing.assert_allclose(apart["E L1H1.base U"].logits(), seen, atol=1e-13)
    change = trace.model.weights.W_O[1, 1] @ trace.model.weights.W_V[1, 1] - w.W_O[1, 1] @ w.W_V[1, 1]
    moved = trace.patterns[1, 1] @ trace.residuals["embed"] @ change.T @ w.W_U.T
    np.testing.assert_allclose(apart["E L1H1.added U"].logits(), moved, atol=1e-13)


def test_paths_pass_through_what_was_added():
    base = px.random_model(layers=2, heads=2, d_mlp=5, norm="rmsnorm", biases=True, seed=1)
    changed = np.array(base.weights.W_V)
    changed[0, 1] *= 1.5
    out = np.array(base.weights.W_out)
    out[1] += 0.1
    model = replace(base, weights=replace(base.weights, W_V=changed, W_out=out))
    trace = model.run([1, 2, 3])
    graph = px.freeze(trace, base=base)
    assert [c.label for c in graph.components()] == [
        "L0H0", "L0H1.base", "L0H1.added", "L0M", "L1H0", "L1H1", "L1M.base", "L1M.added"
    ]  # fmt: skip
    assert "2 components in two" in graph.frozen[-1]
    terms, target = px.expand(graph).where("E .* U"), trace.logit(5)
    assert px.expand(graph).verify().ok
    counts = {
        "E L0H1 U": 2,
        "E L0H1.added L1M.added U": 1,
        "E L1.added U": 1,
        "E added U": 2,
        "E .* added .* U": 36,
    }
    assert {text: terms.where(text).count() for text in counts} == counts
    through, without = terms.where("E .* added .* U"), terms.where("E .* U & ~(E .* added .* U)")
    assert abs(through.value(target) + without.value(target) - terms.value(target)) < 1e-12
    assert through.count() + without.count() == terms.count() and through.value(target) != 0.0
    assert px.flow(graph, target).value == pytest.approx(target.value, abs=1e-12)
    assert px.expand(graph).top(3, target).exact
    assert "W_OV_L0H1_added" in terms["E L0H1.added U"].formula
    found = px.evaluate(terms.where("E L0H1.added .? U").expr(), terms.arrays())
    one_hot = np.eye(model.config.d_vocab)[trace.tokens].reshape(-1)
    np.testing.assert_allclose(
        (found @ one_hot).reshape(3, -1), terms.where("E L0H1.added .? U").logits(), atol=1e-12
    )
    with pytest.raises(QueryError):
        terms.where("E L0H0.added U")


def test_nothing_added_leaves_the_graph_whole():
    base = px.random_model(layers=2, heads=2, seed=1)
    same = replace(base, weights=replace(base.weights, W_Q=2 * base.weights.W_Q))
    graph = px.freeze(same.run([1, 2, 3]), base=base)
    assert [c.label for c in graph.components()] == ["L0H0", "L0H1", "L1H0", "L1H1"]
    assert px.expand(graph).verify().ok


def test_what_is_no_base_is_refused():
    base = px.random_model(layers=1, heads=2, d_mlp=4, biases=True, seed=1)
    trace = base.run([1, 2])
    moved = replace(base, weights=replace(base.weights, W_U=2 * base.weights.W_U, b_O=1 + base.weights.b_O))
    with pytest.raises(FreezeError, match="differ in W_U, b_O"):
        px.freeze(trace, base=moved)
    with pytest.raises(FreezeError, match="d_mlp: 5 and 4"):
        px.freeze(trace, base=px.random_model(layers=1, heads=2, d_mlp=5, biases=True, seed=1))
    with pytest.raises(FreezeError, match="neurons or base"):
        px.freeze(trace, base=base, neurons={0: [1]})
    with pytest.raises(px.PathexpError, match="a model"):
        px.freeze(trace, base="gpt2")
