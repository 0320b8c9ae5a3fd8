"""The tolerance from both sides: never below what rounding does, never far above, and wrong rules are caught."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.expansion import noise
from pathexp.expansion import tolerance as rule
from pathexp.expansion.tolerance import rounding_tolerance, stream_noise, target_tolerance
from pathexp.graph import BlockKernel, push, stack, start_value
from pathexp.graph.cache import WeakCache
from pathexp.model import Model
from tests.zoo import FAMILIES, ZOO

EVERY = {**ZOO, **FAMILIES}


def run(model, length=6):
    length = min(length, model.config.n_ctx)
    return model.run(np.random.default_rng(0).integers(0, model.config.d_vocab, length))


def injected(graph, depth):
    """What constants add at the outputs of the components of a block."""
    each = [
        start_value(source.start, operator)
        for source in graph.sources
        for label, operator in source.into.items()
        if graph.places.get(label) == depth
    ]
    return sum(each, np.zeros(graph.sizes[:2]))


def noisy(graph, rng, draws=40):
    """The deviation of the logits if every reading of the stream is disturbed as the rule says, by simulation."""
    clean, found = None, []
    for draw in range(draws + 1):
        x = np.zeros(graph.sizes[:2])
        for depth, block in enumerate((*graph.kernels, None)):
            x = sum((s.value() for s in graph.sources if s.depth == depth), x)
            unit = (
                np.sqrt(sum(graph.sizes[:2])) * 2.0**-53 * 1e6
            )  # a million times rounding: seen above rounding
            here = rng.standard_normal(x.shape) * np.linalg.norm(x, axis=-1, keepdims=True) * unit
            x = x + (here if draw else 0.0)
            if block is None:
                break
            outputs = block.each(x[None], np.arange(len(graph.blocks[depth].components)))[:, 0]
            size = np.linalg.norm(outputs, axis=-1, keepdims=True) * unit
            outputs = outputs + (rng.standard_normal(outputs.shape) * size if draw else 0.0)
            x = block.through_skip(x[None])[0] + outputs.sum(axis=0) + injected(graph, depth)
        logits = px.graph.push(graph.sink.operator, x)
        clean = logits if clean is None else clean
        found.append(logits - clean)
    return float(np.std(found[1:], axis=0).max()) / 1e6


@pytest.mark.parametrize("name", ["3L-layernorm", "2L-gqa", "gpt2", "original", "llama", "bloom", "olmo2"])
def test_the_rule_is_what_simulated_noise_does(name):
    """Ten standard deviations of disturbances drawn as the rule says, within a factor of five on either side."""
    graph = px.freeze(run(EVERY[name]()))
    simulated = 10 * np.sqrt(2) * noisy(graph, np.random.default_rng(1))
    assert simulated / 5 <= rounding_tolerance(graph, 0, 0.0) <= 5 * simulated


def test_ten_times_the_rounding_of_a_wrong_power_is_seen():
    graph = px.freeze(run(EVERY["3L-layernorm"]()))
    before = rounding_tolerance(graph, 0, 0.0)
    assert rounding_tolerance(graph, 100, 1e6) > before
    assert rounding_tolerance(graph, 400, 1e6) == pytest.approx(
        2 * rounding_tolerance(graph, 100, 1e6), rel=1e-2
    )


def even():
    """One head that attends to 64 positions alike, where what it reads cancels: its noise is what is mixed alone."""
    rng = np.random.default_rng(0)
    graph = px.ResidualGraph.by_hand(positions=64, d_model=4, unembedding=rng.standard_normal((5, 4)))
    graph = graph.with_source("x", np.outer((-1.0) ** np.arange(64), rng.standard_normal(4)))
    return graph.with_component("a", 1e3 * rng.standard_normal((4, 4)), np.full((64, 64), 1 / 64))


def rules(monkeypatch, name):
    """The rule with one of its parts wrong, and nothing kept from before."""
    monkeypatch.setattr(rule, "NOISE", WeakCache())
    match name:
        case "sources skipped":
            monkeypatch.setattr(rule, "disturbance", lambda graph, sizes: 0.0 * sizes)
        case "sizes cut":
            monkeypatch.setattr(rule, "lengths", lambda x: np.minimum(np.linalg.norm(x, axis=-1), 1e-3))
        case "power of the pattern":
            monkeypatch.setattr(stack, "mix_noise", lambda patterns, far, seen: patterns**2 @ far)
        case "root turned over":
            wrong = noise.UNIT / 5
            monkeypatch.setattr(
                rule, "disturbance", lambda graph, sizes: wrong * sizes / graph.sizes[1] ** 0.5
            )
        case "shape index":
            spread = rule.spread
            monkeypatch.setattr(rule, "spread", lambda operator, far: 30 * spread(operator, far))


def several_graphs():
    return [px.freeze(run(EVERY[name](), 20)) for name in ("3L-layernorm", "gpt2", "2L-qk")] + [even()]


@pytest.mark.parametrize(
    "wrong", ["sources skipped", "sizes cut", "power of the pattern", "root turned over", "shape index"]
)
def test_a_wrong_rule_is_caught(monkeypatch, wrong):
    """Each mutant leaves the band of simulated noise on some graph."""
    graphs, others = several_graphs(), several_graphs()  # what is known of the first is kept
    rng = np.random.default_rng(1)
    wanted = [10 * np.sqrt(2) * noisy(graph, rng) for graph in graphs]
    right = [rounding_tolerance(graph, 0, 0.0) for graph in graphs]
    rules(monkeypatch, wrong)
    found = [rounding_tolerance(graph, 0, 0.0) for graph in others]
    assert any(not want / 5 <= got <= 5 * want for want, got in zip(wanted, found, strict=True)), (
        wanted, right, found,
    )  # fmt: skip


def test_what_centering_removes_is_no_noise():
    """1,000 added to the mean over features of W_O moves no logit, and hardly the tolerance; faults are still seen."""
    model = EVERY["3L-layernorm"]()
    moved = Model(model.config, replace(model.weights, W_O=model.weights.W_O + 1000.0))
    trace = run(moved)
    verdict = px.expand(trace).verify()
    assert verdict.outcome == "holds"
    assert verdict.tolerance < 1e-8
    np.testing.assert_allclose(trace.logits, run(model).logits, atol=1e-9)
    wrong = np.array(trace.logits)
    wrong[1, 1] += 1e-6
    assert px.expand(trace).verify(wrong).outcome == "fails"


def test_noise_that_nobody_centers_stays(monkeypatch):
    model = EVERY["2L-plain"]()
    moved = Model(model.config, replace(model.weights, W_O=model.weights.W_O + 1000.0))
    assert not noise.everybody_centers(px.freeze(run(moved)))
    assert noise.everybody_centers(px.freeze(run(EVERY["3L-layernorm"]())))


def test_a_verdict_that_cannot_tell_says_so_and_prints_no_inequality():
    expected = np.ones((2, 3))
    blind = px.expansion.compare(expected + 1e-3, expected, 0.5, "by hand")
    assert blind.outcome == "undecided" and not blind.ok
    assert "cannot tell" in str(blind) and "≤" not in str(blind) and ">" not in str(blind).split(";")[0]
    nan = px.expansion.compare(expected * np.nan, expected, 1e-9, "by hand")
    assert nan.outcome != "holds"


@pytest.mark.parametrize("name", ["3L-layernorm", "gpt2", "gemma2"])
def test_a_sum_toward_a_target_stays_within_its_tolerance(name):
    trace = run(EVERY[name]())
    graph, target = px.freeze(trace), trace.logit(2)
    values = px.expand(graph).values(target)
    tolerance = target_tolerance(graph, target, values)
    assert abs(values.sum() - target.value) <= tolerance / 2
    assert tolerance <= 1e-9
    assert len(stream_noise(graph)) == len(graph.blocks) + 1


def test_no_verdict_costs_more_than_one_over_more_paths(monkeypatch):
    """10,000 paths are added up by the recurrence as 20,000 are: no term is listed."""
    trace = px.random_model(layers=4, heads=9, d_model=8, d_head=2, d_vocab=5, positions="none", seed=1).run(
        [1, 2, 3]
    )
    terms = px.expand(trace)
    assert terms.count() == 10_000
    passes = []
    whole = BlockKernel.sums
    monkeypatch.setattr(BlockKernel, "sums", lambda *a: passes.append(1) or whole(*a))
    monkeypatch.setattr("pathexp.expansion.verdict.sum_of_paths", None)
    assert terms.verify().ok
    assert len(passes) <= 2 * len(terms.graph.blocks)


@pytest.mark.parametrize("apart", [1e-2, 1e-3, 1e-6, 1e-9])
def test_rounding_in_front_of_a_norm_is_enlarged_by_it(apart):
    """A norm behind the embedding takes the mean off features that nearly agree, and scales up what is left."""
    model = px.random_model(layers=0, heads=1, d_model=2, d_vocab=200, norm="layernorm", seed=1)
    config = replace(model.config, embed_norm=True, embedding_multiplier=1.7)
    numbers = np.random.default_rng(0)
    w_e = numbers.normal(size=(1, 200)) + apart * numbers.normal(size=(2, 200))
    model = Model(config, replace(model.weights, W_E=w_e))
    for tokens in np.arange(200).reshape(-1, 8):
        trace = model.run(tokens)
        assert px.decompose(trace).ok and px.expand(trace).verify().ok


@pytest.mark.parametrize("name", ["gpt2", "3L-layernorm", "2L-plain", "gemma2"])
def test_the_stream_whose_noise_is_followed_is_the_runs_own(name):
    """Constants inside components included: what is disturbed is as large as it is."""
    trace = run(EVERY[name]())
    streams = [x for x, _ in rule._depths(px.expand(trace).walk)]
    np.testing.assert_allclose(streams[-1], trace.residuals["final_in"], atol=1e-10)


@pytest.mark.parametrize("name", ["2L-plain", "2L-gqa", "3L-layernorm"])
def test_noise_across_a_block_is_that_of_its_components_on_white_noise(name):
    """By the whole matrix of each component: what one number of a position becomes, in every number of every other."""
    graph = px.freeze(run(EVERY[name](), 4))
    (n, d, _), block = graph.sizes, graph.blocks[0]
    deviations = np.linspace(1.0, 2.0, n)
    units = np.eye(n * d).reshape(n, d, n, d)
    parts = [deviations**2]
    for component in block.components:
        moved = push(component.operator, units)  # (from position, from number, to position, to number)
        parts.append(np.einsum("jeif,j->i", moved**2, deviations**2) / d)
    assert not block.skip
    np.testing.assert_allclose(noise.across(graph.kernels[0], deviations), np.sqrt(sum(parts)), rtol=1e-9)
