"""Patterns a few rows at a time, and how long what heads write is without writing it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import pathexp as px
from pathexp.budget import BUDGET
from pathexp.graph import lengths, mixing
from pathexp.graph.along_positions import looks_ahead
from pathexp.graph.stack import _side_by_side
from pathexp.model import made_again
from tests.zoo import FAMILIES, ZOO

RNG = np.random.default_rng(0)
SMALL = {"layers": 2, "heads": 4, "kv_heads": 2, "d_head": 6, "d_model": 20, "d_mlp": 12, "gated": True, "norm": "rmsnorm", "biases": True}  # fmt: skip


@pytest.mark.parametrize("n", [1, 2, 9, 33])
@pytest.mark.parametrize("seen", ["all", "earlier", "later"])
def test_rows_at_a_time_are_the_whole_product(n, seen, monkeypatch):
    monkeypatch.setattr(mixing, "ROWS", 4)
    cut = {"all": lambda x: x, "earlier": np.tril, "later": np.triu}[seen]
    patterns, values, noise = cut(RNG.random((3, n, n))), RNG.standard_normal((3, n, 5)), RNG.random(n)
    np.testing.assert_allclose(mixing.mix(patterns, values, seen), patterns @ values, rtol=1e-13, atol=1e-14)
    wanted = np.sqrt(patterns**2 @ noise**2)
    np.testing.assert_allclose(mixing.mix_noise(patterns, noise, seen), wanted, rtol=1e-13)


@pytest.mark.parametrize("n", [9, 33])
@pytest.mark.parametrize("causal", [True, False])
def test_questions_do_not_depend_on_how_many_rows_are_mixed_at_a_time(n, causal, monkeypatch):
    model = px.random_model(**SMALL, positions="rotary", causal=causal, d_vocab=11, seed=3)
    tokens = RNG.integers(0, 11, n)

    def asked():
        trace = model.run(tokens)
        target = trace.logit(5, n - 2)
        terms = px.expand(trace)
        assert terms.verify().ok and px.flow(trace, target).check().ok
        tree = px.tree(trace, target, nodes=20)
        return np.append(terms.by_order().ravel(), [tree.root.value, px.flow(trace, target)["E", "L1M"]])

    whole = asked()
    monkeypatch.setattr(mixing, "ROWS", 4)
    np.testing.assert_allclose(asked(), whole, rtol=0, atol=1e-11)


@pytest.mark.parametrize("causal", [True, False])
def test_a_graph_says_whether_it_looks_ahead_as_its_numbers_do(causal):
    graph = px.freeze(px.random_model(**SMALL, causal=causal, d_vocab=11, seed=3).run([1, 2, 3, 4]))
    patterns = np.stack([stack.patterns for kernel in graph.kernels for stack in kernel.stacks])
    assert graph.looks_ahead == bool(np.triu(patterns, 1).any()) == (not causal)
    known = px.ResidualGraph.by_hand(3, 2, np.eye(2)).with_source("x", np.ones((3, 2)))
    for pattern, ahead in ((np.tri(3), False), (np.tri(3).T, True)):
        by_hand = known.with_component("a", np.eye(2), pattern)
        assert by_hand.looks_ahead == ahead == looks_ahead(by_hand.blocks[0].components[0].operator)


@pytest.mark.parametrize("name", ["2L-gqa", "bloom", "gpt2", "original"])
@pytest.mark.parametrize("scale", [1.0, 1e-120, 0.0])
def test_sizes_are_the_lengths_of_what_is_written(name, scale):
    model = {**ZOO, **FAMILIES}[name]()
    trace = model.run(RNG.integers(0, model.config.d_vocab, 5))
    graph = px.freeze(trace)
    x = scale * RNG.standard_normal((1, *graph.sizes[:2]))
    for block, kernel in zip(graph.blocks, graph.kernels, strict=True):
        wanted = np.arange(len(block.components))
        found = kernel.sizes(x, wanted)
        np.testing.assert_allclose(found, lengths(kernel.each(x, wanted)), rtol=1e-7, atol=1e-300)
        np.testing.assert_allclose(kernel.sizes(x, wanted[1:]), found[1:], rtol=1e-12)


def test_sizes_that_leave_the_range_are_taken_from_what_is_written():
    model = px.random_model(layers=1, heads=2, d_head=3, d_model=6, d_vocab=9, seed=1)
    huge = dataclasses.replace(
        model, weights=dataclasses.replace(model.weights, W_O=1e140 * model.weights.W_O)
    )
    kernel = px.freeze(huge.run([1, 2, 3])).kernels[0]
    x = 1e30 * RNG.standard_normal((1, 3, 6))
    wanted = lengths(kernel.each(x, np.arange(2)))
    assert np.isfinite(wanted).all() and wanted.max() > 1e160
    np.testing.assert_allclose(kernel.sizes(x, np.arange(2)), wanted, rtol=1e-12)


def test_patterns_side_by_side_are_taken_as_they_lie_only_if_they_follow_one_another():
    """Each is where its array says; parts that are turned, exchanged or left out are copied."""
    whole = np.random.default_rng(0).standard_normal((4, 5, 5))
    parts = list(whole)
    for some in (parts, parts[:2], parts[1:3]):
        assert np.shares_memory(_side_by_side(some), whole)
        np.testing.assert_array_equal(_side_by_side(some), np.array(some))
    lent = np.frombuffer(np.random.default_rng(1).standard_normal(75).data).reshape(3, 5, 5)
    assert np.shares_memory(_side_by_side(list(lent)), lent)
    np.testing.assert_array_equal(_side_by_side(list(lent)), lent)
    spread = [np.broadcast_to(np.float64(2.0), (5, 5))]
    for others in (
        spread,
        [part.T for part in parts],
        parts[::-1],
        parts[::2],
        [parts[0], parts[2], parts[1]],
        [parts[0], lent[0]],
        [part.copy() for part in parts],
    ):
        found = _side_by_side(others)
        assert not np.shares_memory(found, whole)
        np.testing.assert_array_equal(found, np.array(others))


def test_what_components_share_in_a_contrast_is_kept_within_the_budget(monkeypatch):
    model = px.random_model(**SMALL, d_vocab=11, seed=3)
    kernel = px.contrast(model.run([1, 2, 3]), model.run([1, 2, 4])).kernels[0]
    x = RNG.standard_normal((2, 3, 20))
    for limit in (0, 2**24):
        monkeypatch.setattr(BUDGET, "limit", limit)
        assert kernel.bundles and (kernel.bundles is kernel.bundles) == (limit > 0)
        members = np.concatenate([bundle.members for bundle in kernel.bundles])
        (found,) = kernel.sums(x, [members])
        np.testing.assert_allclose(found, kernel.each(x, members).sum(axis=0), rtol=0, atol=1e-13)


def test_a_head_of_a_long_text_does_alone_what_it_does_among_others(monkeypatch):
    monkeypatch.setattr(mixing, "ROWS", 4)
    graph = px.freeze(px.random_model(**SMALL, positions="rotary", d_vocab=11, seed=3).run(np.arange(9)))
    x = RNG.standard_normal((2, 9, 20))
    for b, block in enumerate(graph.blocks):
        owns = [graph.kernels.of_head(b, c) for c in range(len(block.components))]
        whole = graph.kernels[b]
        if len(owns) == 1:
            assert owns == [None]
            continue
        for c, (own, number) in enumerate(owns):
            assert (number, [len(stack.members) for stack in own.stacks]) == (0, [1])
            assert graph.kernels.of_head(b, c) == (whole, c)  # what is there is used
            for one, heads in ((own, whole), (own.transposed, whole.transposed)):
                np.testing.assert_array_equal(one.each(x, np.array([0])), heads.each(x, np.array([c])))


def test_heads_that_are_not_seen_alike_are_not_taken_alone(monkeypatch):
    monkeypatch.setattr(mixing, "ROWS", 4)
    model = px.random_model(**SMALL, causal=False, d_vocab=11, seed=3)
    assert px.freeze(model.run(np.arange(9))).kernels.of_head(0, 1) is None
    short = px.freeze(px.random_model(**SMALL, d_vocab=11, seed=3).run(np.arange(4)))
    assert short.kernels.of_head(0, 1) is None


@pytest.mark.parametrize(("question", "times"), [("tree", 1), ("flow", 2), ("verify", 1)])
def test_patterns_of_a_long_text_are_made_once_for_passes_side_by_side(question, times, monkeypatch):
    monkeypatch.setattr(mixing, "ROWS", 4)
    monkeypatch.setattr(made_again, "MOST", -1)
    layers, made = 4, []
    model = px.random_model(
        layers=layers,
        heads=4,
        d_model=64,
        d_head=8,
        d_mlp=12,
        norm="rmsnorm",
        d_vocab=11,
        seed=3,
    )
    trace, raised = model.run(RNG.integers(0, 11, 33)), made_again.StoredPatterns._raised
    monkeypatch.setattr(
        made_again.StoredPatterns, "_raised", lambda self, layer: made.append(layer) or raised(self, layer)
    )
    px.memory_budget(16 * 8 * 4 * 33 * 33 + 2**18)  # the patterns of one layer may stay
    try:
        target = trace.logit(5)
        {
            "tree": lambda: str(px.tree(trace, target, nodes=20)),
            "flow": lambda: str(px.flow(trace, target)),
            "verify": lambda: px.expand(trace).verify(),
        }[question]()
    finally:
        px.memory_budget("2GiB")
    assert len(made) <= times * layers, made
