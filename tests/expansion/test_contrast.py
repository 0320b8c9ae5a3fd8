"""The difference of two runs as a sum over paths: exact for every architecture, and lawful path by path."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pathexp as px
from pathexp.errors import FreezeError, PathError, QueryError, TargetError
from pathexp.expansion.ranking import enumerated, searched
from pathexp.expansion.search import Budget
from pathexp.graph import places
from tests.expansion.test_every_architecture import random_switches
from tests.zoo import FAMILIES, MORE_EXPERTS, ZOO

EVERY = {**ZOO, **FAMILIES, **MORE_EXPERTS}


def two_runs(model: px.Model, seed: int = 0, length: int = 9, changed: int = 2) -> tuple[px.Trace, px.Trace]:
    """Two texts that differ at some tokens."""
    rng = np.random.default_rng(seed)
    n, size = min(length, model.config.n_ctx), model.config.d_vocab
    text = rng.integers(0, size, n)
    other = text.copy()
    at = rng.choice(n, min(changed, n), replace=False)
    other[at] = (other[at] + 1 + rng.integers(0, size - 1, len(at))) % size
    return model.run(text), model.run(other)


def changes(here: px.Trace, there: px.Trace, point: str) -> np.ndarray:
    return here.residuals[point] - there.residuals[point]


def assert_adds_up_everywhere(here: px.Trace, there: px.Trace, graph: px.ResidualGraph) -> None:
    """The sum of all paths so far is the difference of the recorded streams before and behind every block."""
    x = sum((source.value() for source in graph.sources if source.depth == 0), np.zeros(graph.sizes[:2]))
    size = max(np.abs(stream).max() for run in (here, there) for stream in run.residuals.values())
    for block, place in zip(graph.kernels, places(here.config), strict=True):
        np.testing.assert_allclose(x, changes(here, there, place.before), atol=1e-12 * size)
        everyone = np.arange(len(graph.blocks[graph.kernels.index(block)].components))
        x = block.through_skip(x[None])[0] + block.each(x[None], everyone).sum(axis=(0, 1))
        depth = graph.kernels.index(block) + 1
        x = x + sum(source.value() for source in graph.sources if source.depth == depth)
    np.testing.assert_allclose(x, changes(here, there, "final_in"), atol=1e-12 * size)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("ports", [False, True])
@pytest.mark.parametrize("name", EVERY)
def test_paths_add_up_in_every_architecture(name, ports):
    here, there = two_runs(EVERY[name]())
    graph = px.contrast(here, there, mlp_ports=ports)
    verdict = px.expand(graph, "E .? U").verify()
    assert verdict.ok and verdict.tolerance < 1e-11, str(verdict)
    assert_adds_up_everywhere(here, there, graph)
    entered = [source.label for source in graph.sources if source.kind != "choice"]
    assert entered == ["E"]  # constants and positions are in no path


@pytest.mark.parametrize("seed", range(48))
def test_paths_add_up_with_every_switch(seed):
    here, there = two_runs(random_switches(seed), seed, length=(1, 2, 9, 33)[seed % 4], changed=1 + seed % 3)
    graph = px.contrast(here, there, mlp_ports=bool(seed % 2))
    terms = px.expand(graph)
    chosen = terms if terms.count() < 300 else terms.where("E .? U")  # few one by one, the rest at once
    verdict = chosen.verify()
    assert verdict.ok, f"{here.config}\n{verdict}"
    assert_adds_up_everywhere(here, there, graph)


@pytest.mark.parametrize("name", ["gpt2", "bert", "gemma2", "olmo2", "bloom", "2L-qk", "parallel-no-norm"])
def test_exchanged_runs_change_the_sign_of_every_path_and_nothing_else(name):
    here, there = two_runs(EVERY[name]())
    ahead, back = px.expand(px.contrast(here, there)), px.expand(px.contrast(there, here))
    for term, same in zip(ahead, back, strict=True):
        np.testing.assert_array_equal(term.logits(), -same.logits())
    target = here.direction(np.arange(1.0, here.config.d_model + 1), space="residual")
    np.testing.assert_array_equal(ahead.values(target), -back.values(target))


@pytest.mark.parametrize("name", EVERY)
def test_a_run_does_not_differ_from_itself(name):
    here, _ = two_runs(EVERY[name]())
    terms = px.expand(px.contrast(here, here))
    assert not terms.logits().any() and terms.value(here.logit(3)) == 0.0


@settings(deadline=None, max_examples=40, derandomize=True)
@given(st.integers(0, 10**6), st.sampled_from(sorted(EVERY)))
def test_laws(seed, name):
    """Totals are sums of values; a query and the rest make the whole; flows and orders add up; targets are linear."""
    here, there = two_runs(EVERY[name](), seed, changed=1 + seed % 4)
    terms = px.expand(px.contrast(here, there))
    one, two = here.logit(1), there.logit(2)
    size = np.abs(here.logits).max() + np.abs(there.logits).max()
    for target in (one, two):
        change = (here.logits - there.logits)[-1] @ target.direction
        assert abs(terms.value(target) - change) < 1e-12 * size
        assert abs(terms.values(target).sum() - change) < 1e-11 * size
        assert abs(sum(terms.value_by_order(target)) - change) < 1e-11 * size
    if here.config.n_layers:
        some = terms.where("E .* V .* U")
        np.testing.assert_allclose(some.logits() + some.rest().logits(), terms.logits(), atol=1e-11 * size)
        flows = px.flow(terms.graph, one)
        assert abs(flows.value - terms.value(one)) < 1e-11 * size


def near(model: px.Model, gap: float) -> px.Model:
    """The model with an embedding of token 1 that is off that of token 0 by a gap in a fixed direction."""
    table = np.array(model.weights.W_E)
    table[:, 1] = table[:, 0] + gap * np.cos(np.arange(len(table)))
    config = replace(model.config, tied=False)
    return replace(model, config=config, weights=replace(model.weights, W_E=table))


@pytest.mark.parametrize(
    "name", ["gpt2", "llama", "gemma2", "olmo2", "bert", "qwen3", "bert-masked-token-head"]
)
def test_runs_that_nearly_agree_give_the_derivative(name):
    """At a gap of 1e-12 a quotient of differences has lost its digits; the paths have not."""
    text = [0, 3, 4, 2, 5]
    other = [1, *text[1:]]
    gap = 1e-12
    model = near(FAMILIES[name](), gap)
    here, there = model.run(other), model.run(text)
    terms = px.expand(px.contrast(here, there))
    assert terms.verify().ok
    wide = [near(FAMILIES[name](), step).run(other).logits for step in (1e-4, -1e-4)]
    derivative = (wide[0] - wide[1]) / 2e-4
    step = model.weights.W_E[:, 1] - model.weights.W_E[:, 0]
    scale = float(
        np.linalg.norm(step) / np.linalg.norm(np.cos(np.arange(len(step))))
    )  # the gap after rounding
    np.testing.assert_allclose(terms.logits() / scale, derivative, atol=3e-4 * np.abs(derivative).max())


@pytest.mark.parametrize("name", ["gpt2", "llama", "neox", "2L-qk-rmsnorm-biases", "olmo2"])
def test_the_contrast_of_a_run_with_itself_is_its_jacobian(name):
    model = near(EVERY[name](), 0.0)
    base = model.run([0, 3, 4, 2])
    graph = px.contrast(base, base)
    step = np.zeros(graph.sizes[:2])
    step[0] = model.config.embedding_multiplier * np.cos(np.arange(model.config.d_model))
    found = px.expand(graph.without("E").with_source("x", step)).logits()
    ahead, behind = (near(model, gap).run([1, 3, 4, 2]).logits for gap in (1e-5, -1e-5))
    np.testing.assert_allclose(found, (ahead - behind) / 2e-5, atol=1e-8 * np.abs(found).max())


# Attention ---------------------------------------------------------------------------------------------


def one_head(scale: float, **switches) -> px.Model:
    return px.random_model(
        layers=1, heads=1, d_model=6, d_head=3, d_vocab=7, positions="none", attention_scale=scale, **switches
    )


@pytest.mark.parametrize("scale", [1.0, 30.0, 1e3, 1e6])
def test_sharp_patterns_and_weights_that_underflow_in_one_run(scale):
    here, there = two_runs(one_head(scale, seed=3), seed=5, changed=3)
    if scale >= 1e3:
        assert (here.patterns == 0).sum() != (there.patterns == 0).sum() or (here.patterns == 0).any()
    terms = px.expand(px.contrast(here, there))
    verdict = terms.verify()
    assert verdict.ok, str(verdict)


def test_where_patterns_agree_keys_and_queries_cancel():
    """Queries doubled and keys halved: the same scores, by other ways."""
    rng = np.random.default_rng(0)
    table = rng.standard_normal((6, 8))
    table[:3, 4:], table[3:, 4:] = 2 * table[:3, :4], table[3:, :4] / 2
    model = px.random_model(layers=1, heads=1, d_model=6, d_head=3, d_vocab=8, positions="none", seed=1)
    query, key = np.zeros((1, 1, 3, 6)), np.zeros((1, 1, 3, 6))
    query[0, 0, :, :3], key[0, 0, :, 3:] = rng.standard_normal((2, 3, 3))
    model = replace(model, weights=replace(model.weights, W_E=table, W_Q=query, W_K=key))
    here, there = model.run([0, 1, 2, 3]), model.run([4, 5, 6, 7])
    np.testing.assert_allclose(here.patterns, there.patterns, atol=1e-15)
    terms = px.expand(px.contrast(here, there))
    keys, queries = terms["E L0H0.K U"].logits(), terms["E L0H0.Q U"].logits()
    assert np.abs(keys).max() > 0.1
    np.testing.assert_allclose(keys, -queries, atol=1e-13)


def test_where_queries_agree_nothing_runs_through_them():
    here, there = (
        px.random_model(layers=1, heads=2, seed=2).run(text) for text in ([1, 2, 3, 4], [1, 5, 3, 4])
    )
    terms = px.expand(px.contrast(here, there))
    assert terms.where("E Q U").value(here.logit(5)) == 0.0  # at the last position the texts agree
    assert terms.where("E K U").value(here.logit(5)) != 0.0


def test_patterns_that_never_change_leave_the_frozen_expansion_of_the_difference():
    model = px.random_model(layers=2, heads=2, positions="none", seed=3)
    model = replace(model, weights=replace(model.weights, W_Q=0 * model.weights.W_Q))
    here, there = two_runs(model)
    terms = px.expand(px.contrast(here, there))
    for path in ("E U", "E L0H1 U", "E L0H0 L1H1 U"):
        frozen = px.expand(here)[path].logits() - px.expand(there)[path].logits()
        ported = " ".join(f"{label}.V" if "H" in label else label for label in path.split())
        np.testing.assert_allclose(terms[ported].logits(), frozen, atol=1e-14)
    through_scores = terms.where("E .* (K | Q) .* U")
    np.testing.assert_allclose(through_scores.logits(), 0.0, atol=1e-14)


# Labels and queries ------------------------------------------------------------------------------------


def test_ports_are_labels_and_classes():
    here, there = two_runs(px.random_model(layers=2, heads=2, d_mlp=5, seed=1))
    terms = px.expand(px.contrast(here, there))
    counts = {
        "E L0H1.V U": 1, "E L0H1 U": 3, "E L0 U": 7, "E L0.K U": 2, "E K U": 4, "E V U": 4, "E Q U": 4,
        "E H U": 12, "E M U": 2, "E L0H1.V L1.K U": 2, "E H.Q U": 4,
    }  # fmt: skip
    assert {text: terms.where(text).count() for text in counts} == counts
    assert str(px.query("E L0H1.V L1.K* U")) == "E L0H1.V L1.K* U"
    assert px.query("E . L1H1 U") == px.query("E.L1H1 U")
    parts = px.expand(px.contrast(here, there, mlp_ports=True))
    assert parts.where("E gate U").count() == 2 and parts.where("E L1M U").count() == 2
    assert parts["E L1M.value U"].order == 1


@pytest.mark.parametrize("text", ["E L0H1.V U", "E L1.K U", "E K U", "E .* V U"])
def test_on_a_frozen_graph_ports_are_errors_that_say_where_they_are(text):
    trace = px.random_model(layers=2, heads=2, seed=1).run([1, 2, 3])
    with pytest.raises(QueryError, match=r"px\.contrast"):
        px.expand(trace).where(text)
    with pytest.raises(PathError, match=r"px\.contrast"):
        px.expand(trace)["E L0H1.V U"]


# Targets -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gpt2", "gemma2", "2L-plain"])
def test_probabilities_are_directions(name):
    here, there = two_runs(EVERY[name]())
    graph = px.contrast(here, there)
    terms = px.expand(graph)
    for token, place in ((1, -1), (4, 2)):
        change = here.log_probs[place, token] - there.log_probs[place, token]
        assert abs(terms.value(graph.log_prob(token, place)) - change) < 1e-13
        assert graph.log_prob(token, place).value == change
        change = np.exp(here.log_probs[place, token]) - np.exp(there.log_probs[place, token])
        assert abs(terms.value(graph.probability(token, place)) - change) < 1e-14


def test_targets_of_either_run_and_of_no_other():
    here, there = two_runs(px.random_model(layers=2, heads=2, seed=1))
    terms = px.expand(px.contrast(here, there))
    assert terms.value(here.logit(3)) == terms.value(there.logit(3))
    assert (
        abs(
            terms.top(3, here.logit(3)).value
            + terms.top(3, here.logit(3)).remainder
            - terms.value(here.logit(3))
        )
        < 1e-12
    )
    with pytest.raises(TargetError, match="two runs"):
        terms.value(here.model.run([1, 1, 1, 1, 1, 1, 1, 1, 2]).logit(3))


def test_runs_of_unequal_length_or_shape_are_refused():
    model = px.random_model(layers=1, heads=2, seed=1)
    with pytest.raises(FreezeError, match="3 and 4 tokens"):
        px.contrast(model.run([1, 2, 3]), model.run([1, 2, 3, 4]))
    with pytest.raises(FreezeError, match="n_layers"):
        px.contrast(model.run([1, 2]), px.random_model(layers=2, heads=2, seed=1).run([1, 2]))
    with pytest.raises(px.PathexpError, match="trace"):
        px.contrast(model.run([1, 2]), "text")


# Search, formulas --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["gpt2", "llama", "bert", "olmo2", "2L-plain", "bidirectional-window", "mixtral"]
)
def test_the_search_with_bounds_finds_what_enumeration_finds(name):
    here, there = two_runs(EVERY[name]())
    terms = px.expand(px.contrast(here, there))
    target = here.logit(2)
    total = terms.value(target)
    known, found = enumerated(terms.walk, 7, target, total), searched(terms.walk, 7, target, total, Budget())
    assert found.exact
    np.testing.assert_allclose(found.values, known.values, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize(
    "name", ["gpt2", "gemma2", "2L-qk", "olmo2", "bert-masked-token-head", "qwen-moe", "qwen3", "gemma3"]
)
def test_symbols_equal_numbers(name):
    model = EVERY[name]()
    here, there = (model.run(text) for text in ([1, 2], [3, 2]))
    terms = px.expand(px.contrast(here, there)).where("E .? U")
    found = px.evaluate(terms.expr(), terms.arrays())
    start = np.eye(model.config.d_vocab)[here.tokens] - np.eye(model.config.d_vocab)[there.tokens]
    logits = (found @ start.reshape(-1)).reshape(here.logits.shape)
    np.testing.assert_allclose(logits, terms.logits(), atol=1e-12)


def test_formulas():
    here, there = two_runs(px.random_model(layers=1, heads=1, norm="rmsnorm", seed=1))
    terms = px.expand(px.contrast(here, there))
    assert terms["E L0H0.K U"].formula.endswith(
        "[Id ⊗ W_O_L0H0] · Λ_L0H0_K · [Id ⊗ W_K_L0H0] · (S̄_attn_L0 ⊗ Id + σ_attn_L0) · [Id ⊗ W_E]"
    )
    assert r"\Lambda_{K}^{0.0}" in terms["E L0H0.K U"].latex()
    assert r"\bar{A}^{0.0}" in terms["E L0H0.V U"].latex()


def test_a_fault_is_seen():
    here, there = two_runs(FAMILIES["gpt2"](), length=4)
    graph = px.contrast(here, there)
    lost = replace(
        graph, blocks=(replace(graph.blocks[0], components=graph.blocks[0].components[1:]), *graph.blocks[1:])
    )
    assert not px.expand(lost).verify().ok
    for component in graph.blocks[0].components:
        left = graph.without(component.label)
        assert not px.expand(left).verify(graph.expected).ok, component.label


@pytest.mark.parametrize("size", [1e50, 1e100, 1e140])
@pytest.mark.parametrize("name", ["3L-layernorm", "2L-qk-rmsnorm-biases", "neox", "qwen3"])
def test_streams_of_any_size_are_divided_by_norms(name, size):
    """The slope of a norm's scale is the fourth power of that scale: it leaves the range long before the stream does."""
    model = {**ZOO, **FAMILIES}[name]()
    large = {
        array: getattr(model.weights, array) * size
        for array in ("W_E", "W_pos", "W_O", "W_out", "b_O", "b_out")
        if getattr(model.weights, array) is not None
    }
    model = px.Model(model.config, replace(model.weights, **large))
    graph = px.contrast(model.run([1, 2, 3, 4]), model.run([1, 5, 3, 4]))
    verdict = px.expand(graph).verify()
    assert verdict.ok, str(verdict)
