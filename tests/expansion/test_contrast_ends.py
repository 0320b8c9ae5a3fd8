"""Contrasts whose paths end inside: streams, queries, keys and scores, and what their differences are made of."""

from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.errors import GraphError, PathexpError, TargetError
from pathexp.expansion.ranking import enumerated, searched
from pathexp.expansion.search import Budget
from tests.expansion.test_contrast import EVERY, two_runs
from tests.expansion.test_contrast_sources import few, moved

UNITS = ("port", "head", "layer", "component", "token", "source", "path")


def perturbed(model: px.Model, seed: int = 0) -> px.Model:
    rng = np.random.default_rng(seed)
    arrays = {
        name: np.array(x) * (1 + 0.1 * rng.standard_normal(x.shape))
        for name, x in model.weights.arrays().items()
    }
    return replace(model, weights=replace(model.weights, **arrays), config=replace(model.config, tied=False))


def others(here: px.Trace, there: px.Trace):
    """The other run; the same on a model with other weights, edited at every point."""
    yield there
    apart = perturbed(there.model).run(there.tokens.tolist())
    yield px.rerun(apart, {point: moved(i) for i, point in enumerate(here.residuals)})


def ends(config: px.Config, trace: px.Trace) -> list[str]:
    last, head = config.n_layers - 1, config.n_heads - 1
    points = ["embed", "L0.mid", "L0.out", f"L{last}.out", "final", "final_out"]
    inside = [
        "L0H0.Q",
        "L0H0.K",
        "L0H0.score",
        f"L{last}H{head}.Q",
        f"L{last}H{head}.K",
        f"L{last}H{head}.score",
    ]
    return [point for point in points if point in trace.residuals or point == "final"] + inside * (last >= 0)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", EVERY)
def test_paths_add_up_to_what_stands_at_every_end(name):
    here, there = two_runs(EVERY[name]())
    for other in others(here, there):
        graph = px.contrast(here, other)
        for point in ends(here.config, here):
            terms = px.expand(graph, at=point)
            verdict = few(terms.graph)
            assert verdict.ok, f"{point}: {verdict}"
            assert terms.graph.sink.label == point


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["gpt2", "gemma2", "olmo2", "bert", "qwen3", "2L-qk", "bloom"])
def test_a_score_is_divided_exactly_by_every_unit(name):
    here, there = two_runs(EVERY[name]())
    last = here.config.n_layers - 1
    for other in others(here, there):
        graph, n = px.contrast(here, other), len(here)
        score = graph.score(f"L{last}H0", n - 1, n - 1)
        assert score.value == here.scores[last, 0, -1, -1] - other.scores[last, 0, -1, -1]
        for unit in UNITS:
            found = px.attribution(graph, score, by=unit)
            assert found.ok, f"{unit}: {found.check()}"
        assert px.attribution(graph, score, by="port").names == ("queries", "keys")


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", ["gpt2", "qwen3", "olmo2", "2L-qk-rmsnorm-biases", "bidirectional-window"])
def test_trees_flows_and_searches_end_inside(name):
    here, there = two_runs(EVERY[name]())
    last = here.config.n_layers - 1
    for other in others(here, there):
        for point in (f"L{last}H0.Q", f"L{last}H0.score", f"L{last}.out"):
            terms = px.expand(px.contrast(here, other), at=point)
            read = np.cos(np.arange(terms.graph.d_out))
            target = here.direction(read, at=point)
            change = terms.graph.difference(target).value
            size = abs(here.direction(np.abs(read), at=point).value) + 1
            assert abs(px.flow(terms.graph, target).value - change) < 1e-11 * size, point
            for direction in ("back", "forward"):
                tree = terms.tree(target, nodes=20, direction=direction)
                assert tree.ok and abs(tree.value - change) < 1e-11 * size, point
            known = enumerated(terms.walk, 4, target, change)
            found = searched(terms.walk, 4, target, change, Budget())
            assert found.exact
            np.testing.assert_allclose(np.abs(found.values), np.abs(known.values), rtol=1e-9, atol=1e-13)


def test_why_a_head_attends_elsewhere():
    """The induction heads of attn-2l: the score of the token behind the earlier copy changes through their keys."""
    model = px.load("attn-2l")
    here = model.run("Macbeth shall sleep no more. Macbeth shall")
    there = model.run("Macbeth doth sleep no more. Macbeth shall")
    graph = px.contrast(here, there)
    score = graph.score("L1H3", query=15, key=6)
    sides = px.attribution(graph, score, by="port")
    assert score.value > 2 and sides["keys"] > 0.99 * score.value
    writers = px.attribution(graph, score, by="component")
    assert writers.ranked()[0][0] == "L0H2.V" and writers["L0H2.V"] > 0.5 * score.value
    tree = px.tree(graph, score, nodes=20)
    assert abs(tree.value - score.value) < 1e-12
    best = px.expand(graph, at="L1H3.score").top(1, score)
    assert str(best.terms[0].path) == "E L0H2.V L1H3.score"
    assert "s_L1H3_K" in best.terms[0].formula


def test_the_scores_of_one_head_are_twice_its_mean_products():
    """Without rotary positions and norms: Δs = c (q̄·Δk + Δq·k̄), by hand."""
    here, there = two_runs(px.random_model(layers=1, heads=1, d_model=6, d_head=3, positions="none", seed=3))
    graph = px.contrast(here, there)
    target = graph.score("L0H0", 5, 2)
    q, k = ((here.queries[0, 0, 5], there.queries[0, 0, 5]), (here.keys[0, 0, 2], there.keys[0, 0, 2]))
    scale = here.config.attention_scale
    sides = px.attribution(graph, target, by="port")
    assert abs(sides["keys"] - scale * (q[0] + q[1]) @ (k[0] - k[1]) / 2) < 1e-14
    assert abs(sides["queries"] - scale * (q[0] - q[1]) @ (k[0] + k[1]) / 2) < 1e-14


def test_a_fault_inside_is_seen():
    here, there = two_runs(EVERY["llama"]())
    graph = px.expand(px.contrast(here, there), at="L1H0.score").graph
    for component in graph.blocks[0].components:
        left = graph.without(component.label)
        silent = (
            component.label.startswith("L0H")
            and not px.expand(graph).where(f"S .* {component.label} .* {graph.sink.label}").logits().any()
        )
        assert silent or not px.expand(left).verify(graph.expected).ok, component.label


def test_ends_and_scores_that_are_not_there():
    model = px.random_model(layers=2, heads=2, seed=1)
    here, there = model.run([1, 2, 3]), model.run([4, 2, 3])
    graph = px.contrast(here, there)
    with pytest.raises(GraphError, match=r"no point .L9\.out"):
        px.expand(graph, at="L9.out")
    with pytest.raises(GraphError, match="no head L1H7"):
        px.expand(graph, at="L1H7.score")
    with pytest.raises(PathexpError, match="start at what the runs differ by"):
        px.expand(graph, start="L0.out")
    with pytest.raises(GraphError, match=r"L0H1\.V was removed"):
        px.expand(graph.without("L0H1.V"), at="L0.out")
    with pytest.raises(GraphError, match=r"paths end at L0\.out"):
        px.expand(px.expand(graph, at="L0.out").graph, at="L1.out")
    with pytest.raises(TargetError, match="does not see key 2"):
        here.score("L1H0", 1, 2)
    with pytest.raises(TargetError, match="position 5"):
        here.score("L1H0", 5, 2)
    for wrong in ("L1", "L1H9", "L1M", "L1H0.Q", 3):
        with pytest.raises(TargetError):
            here.score(wrong, 2, 1)
    windowed = replace(model, config=replace(model.config, windows=(1, 1))).run([4, 2, 3])
    with pytest.raises(GraphError, match="3 keys in one run only"):
        px.expand(px.contrast(here, windowed), at="L1H0.score")
    for pair in ((here, windowed), (windowed, here)):
        assert px.contrast(*pair).score("L1H0", 2, 2).value != 0
        with pytest.raises(TargetError, match="L1H0 at position 2 does not see key 1"):
            px.contrast(*pair).score("L1H0", 2, 1)
        with pytest.raises(TargetError, match="L1H0 at position 2 does not see key 1"):
            px.contrast(*pair).difference(here.score("L1H0", 2, 1))
    with pytest.raises(TargetError, match="L1H0 at position 1 does not see key 2"):
        here.direction([0.0, 1.0, 1.0], 1, at="L1H0.score")
    with pytest.raises(TargetError, match="these paths end at logits"):
        px.expand(graph).value(graph.score("L1H0", 2, 1))
