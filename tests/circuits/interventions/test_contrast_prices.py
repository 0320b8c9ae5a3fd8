"""Cuts of contrasts: exact shares beside attribution patching and live path patching, each against another way to measure."""

from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.interventions.contrast_cuts import live_cut
from pathexp.errors import PathexpError, QueryError, TargetError
from pathexp.model.parts import head_outputs
from tests.expansion.test_contrast import EVERY, two_runs

MODELS = ("gpt2", "llama", "gemma2", "olmo2", "bloom", "neox", "2L-qk", "bert")


def pair(name: str):
    here, there = two_runs(EVERY[name](), changed=3)
    return px.contrast(here, there), here, there, here.logit_difference(3, 5)


def patched(
    run: px.Trace, other: px.Trace, layer: int, head: int | None, target: px.Target, size: float = 1.0
) -> float:
    """How far a target moves with a head's or an MLP's result moved toward that of another run, by running again."""
    point = f"L{layer}.{'mlp' if head is None else 'attn'}_result"
    change = (
        other.residuals[point] - run.residuals[point]
        if head is None
        else other.head_results[layer, head] - run.head_results[layer, head]
    )
    again = px.rerun(run, {point: lambda stream: stream + size * change})
    return float((again.logits - run.logits)[target.position] @ target.direction)


@pytest.mark.parametrize("name", MODELS)
def test_a_node_is_cut_as_a_run_of_its_own_would(name):
    graph, here, there, target = pair(name)
    nodes = [("L0H1", 0, 1)] + [("L0M", 0, None)] * bool(here.config.d_mlp)
    for label, layer, head in nodes:
        found = px.intervene(graph, target, node=label)[0]
        assert abs(found.into_other - patched(there, here, layer, head, target)) < 1e-11
        assert abs(found.into_this + patched(here, there, layer, head, target)) < 1e-11
        assert (
            found.live == (found.into_other + found.into_this) / 2 and found.price == found.exact - found.live
        )


@pytest.mark.parametrize("name", ["gpt2", "llama", "bloom", "neox", "2L-qk"])  # no norm behind the heads
def test_gradients_are_derivatives_along_the_difference(name):
    graph, here, there, target = pair(name)
    found = px.intervene(graph, target, node="L0H1")[0]
    step, slopes = 1e-5, []
    for run, other, sign in ((here, there, -1), (there, here, 1)):
        ahead, behind = (patched(run, other, 0, 1, target, size) for size in (step, -step))
        slopes.append(sign * (ahead - behind) / (2 * step))
    assert abs(found.gradient - np.mean(slopes)) < 1e-7 * max(1.0, abs(found.gradient))


def test_an_edge_into_keys_is_cut_in_the_keys_alone():
    model = px.load("attn-2l")
    here = model.run("Macbeth shall sleep no more. Macbeth shall")
    there = model.run("Macbeth doth sleep no more. Macbeth shall")
    graph, target = px.contrast(here, there), here.logit(" sleep")
    change = here.head_results[0, 2] - there.head_results[0, 2]

    def by_hand(run, change):
        stream = run.residuals["L0.out"]
        reads = ((stream, stream, stream), (stream, stream + change, stream))
        before, after = (head_outputs(model, 1, read)[:, -1].sum(axis=0) for read in reads)
        return float(target.direction @ (model.weights.W_U @ (after - before)))

    found = px.intervene(graph, target, edge=("L0H2", "L1.K"))[0]
    assert abs(found.into_other - by_hand(there, change)) < 1e-11
    assert abs(found.into_this + by_hand(here, -change)) < 1e-11
    assert abs(found.price) < 0.02 * found.exact  # the induction circuit: the exact share is what a cut does
    same = px.intervene(graph, target, cut="S .* L0H2 L1.K .* U")[0]
    assert (same.exact, same.live) == (found.exact, found.live) and np.isnan(same.gradient)


def test_edges_of_a_node_add_up_by_gradient_and_exactly():
    graph, _, _, target = pair("llama")
    found = px.intervene(graph, target, node="L1H1")[0]
    ports = [px.intervene(graph, target, node=f"L1H1.{port}")[0] for port in "VKQ"]
    assert abs(sum(port.exact for port in ports) - found.exact) < 1e-12
    writers = [*graph.alphabet.sources, *(l for l in graph.alphabet.components if l.startswith("L0"))]
    into = [px.intervene(graph, target, edge=(writer, "L1H1.K"))[0] for writer in writers]
    assert abs(sum(edge.exact for edge in into) - ports[1].exact) < 1e-12
    assert abs(sum(edge.gradient for edge in into) - ports[1].gradient) < 1e-12


def test_without_a_cut_every_node_and_its_forms():
    graph, here, _, target = pair("gpt2")
    found = px.intervene(graph, target)
    assert len(found) == here.config.n_layers * (here.config.n_heads + 1)
    assert found.to_dataframe().shape[0] == len(found) and "into other" in str(found)
    with pytest.raises(PathexpError, match="no cut 99"):
        found[99]


def test_near_runs_have_no_price():
    """As the runs come together exact share, gradient and live effect are one number."""
    model = px.random_model(layers=2, heads=2, d_mlp=8, gated=True, activation="silu", norm="rmsnorm", seed=3)
    table = np.array(model.weights.W_E)
    table[:, 1] = table[:, 0] + 1e-5 * np.cos(np.arange(len(table)))
    model = replace(
        model, weights=replace(model.weights, W_E=table), config=replace(model.config, tied=False)
    )
    here, there = model.run([1, 3, 2, 4]), model.run([0, 3, 2, 4])
    target, graph = here.logit(5), px.contrast(here, there)
    for kind in (
        {"node": "L0H0"},
        {"edge": ("L0H0", "L1H1.Q")},
        {"edge": ("L0H1", "L1H0.V")},
        {"edge": ("E", "L0H1.K")},
    ):
        found = px.intervene(graph, target, **kind)[0]
        assert abs(found.gradient - found.exact) < 1e-8 * abs(found.exact) + 1e-16, kind
        assert abs(found.live - found.exact) < 1e-7 * abs(found.exact) + 1e-13, kind


@pytest.mark.parametrize(
    ("words", "live"),
    [
        ("E L0H0.V L1.K U", "E L0H0 (L1H0 | L1H1) U, by v of L0H0, k of L1H0, k of L1H1"),
        ("S .* L1H1 .* U", "S .* L1H1 .* U"),
        ("E L0 U", "E L0 U"),
    ],
)
def test_ports_become_inputs(words, live):
    here, there = two_runs(px.random_model(layers=2, heads=2, d_mlp=4, seed=1))
    assert str(live_cut(px.contrast(here, there), px.query(words))) == live


@pytest.mark.parametrize(
    "words",
    [
        "S .* K .* U",
        "S .* (L0H0.V | L1H1.K) .* U",
        "S .* L1H1.K? .* U",
        "S .* L1H1.K .* U & E .* U",
        "E L1H1.K L1H1.V U",
    ],
)
def test_cuts_that_live_runs_cannot_tell_apart_are_refused(words):
    graph, _, _, target = pair("gpt2")
    with pytest.raises(PathexpError, match="live"):
        px.intervene(graph, target, cut=words)


def test_misuse():
    graph, here, there, target = pair("gpt2")
    for wrong in (
        {"node": "L0H1", "cut": "E U"},
        {"edge": "L0H2"},
        {"cut": 3},
        {"node": "L0H1", "patch_from": there},
    ):
        with pytest.raises(PathexpError, match=r"give|expected|cut of a contrast"):
            px.intervene(graph, target, **wrong)
    with pytest.raises(QueryError, match="no node L9H1"):
        px.intervene(graph, target, node="L9H1.K")
    edited = px.contrast(here, px.rerun(there, {"L0.mid": lambda x: 2 * x}))
    with pytest.raises(PathexpError, match="rerun"):
        px.intervene(edited, here.logit(3), node="L0H1")
    with pytest.raises(PathexpError, match=r"px\.contrast"):
        px.attribution(here, here.logit(3), by="head", beside="gradient")
    foreign = here.model.run([5] * len(here)).logit(3)
    for ask in (px.intervene, px.attribution):
        with pytest.raises(TargetError, match="another run"):
            ask(graph, foreign)
    final = here.direction(np.ones(here.config.d_model), space="residual")
    with pytest.raises(PathexpError, match="at the logits"):
        px.intervene(graph, final, node="L0H1")
    with pytest.raises(PathexpError, match="at the logits"):
        px.intervene(graph, graph.score("L1H0"), node="L0H1")
    with pytest.raises(PathexpError, match="unknown method 'magic'"):
        px.attribution(graph, target, by="head", beside="magic")
    with pytest.raises(PathexpError, match="by='head'"):
        px.attribution(graph, target, by="token", beside="gradient")


def test_methods_beside_shares():
    graph, here, there, target = pair("llama")
    found = px.attribution(graph, target, by="head", beside=("gradient", "path patching", "live"), k=3)
    assert list(found.beside) == ["gradient", "path patching", "all paths", "live"] and found.ok
    measured = {
        name for name, value in zip(found.names, found.beside["live"], strict=True) if not np.isnan(value)
    }
    assert measured == {name for name, _ in found.ranked()[:3]}
    name = next(name for name in measured if "H" in name)
    row, cut = found.names.index(name), px.intervene(graph, target, node=name)[0]
    assert found.beside["live"][row] == cut.live and found.beside["all paths"][row] == cut.exact
    edge = px.intervene(graph, target, edge=(name, "U"))[0]
    assert found.beside["gradient"][row] == edge.gradient and abs(edge.exact - found[name]) < 1e-12
    assert found.beside["path patching"][row] == edge.live
    last = here.residuals["final_in"] - there.residuals["final_in"]
    assert np.abs(last).max() > 0
