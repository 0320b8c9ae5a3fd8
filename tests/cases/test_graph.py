"""Reports from the field on graphs and path enumeration (part E), each as a small test."""

import math

import numpy as np
import pytest

import pathexp as px


def test_g02_counts_without_listing():
    terms = px.expand(px.ResidualGraph.attention_only(layers=50, heads=32))
    assert terms.count() == 33**50 and isinstance(terms.count(), int)
    assert terms.count_by_order()[:4] == tuple(math.comb(50, k) * 32**k for k in range(4))


def scalar(*gains):
    """One number on the stream; components in sequence with given gains."""
    graph = px.ResidualGraph.by_hand(1, 1, [[1.0]]).with_source("a", [[1.0]])
    for index, gain in enumerate(gains):
        graph = graph.with_component(f"c{index}", weight=[[gain]])
    return graph


def test_g05_the_strongest_path_is_a_whole_path_with_its_sign():
    """Signed weights: the largest |value| wins, negative or not, and it is never a bare node."""
    graph = scalar(-40.0, 0.5)
    target = px.Target(0, np.ones(1), "logits", "out", float(px.expand(graph).logits()[0, 0]))
    best = px.expand(graph).top(1, target)
    assert str(best.terms[0].path) == "a c0 U" and best.values == (-40.0,)
    assert best.value + best.remainder == pytest.approx(target.value)
    negative = px.expand(scalar(-3.0, -2.0).without("c1")).where("a c0 U")
    assert [float(t.logits()[0, 0]) for t in negative] == [-3.0]


def test_g11_a_lost_or_doubled_write_is_an_error_with_its_gap():
    trace = px.random_model(layers=2, heads=2, seed=2).run([1, 2, 3])
    terms = list(px.expand(trace))
    for wrong in (terms[1:], [*terms, terms[3]]):
        verdict = px.verify(wrong, px.freeze(trace), trace.logits)
        gap = np.abs(sum(t.logits() for t in wrong) - trace.logits).max()
        assert not verdict.ok and verdict.max_error == pytest.approx(gap)
    edges = px.freeze(trace).to_networkx().edges()
    assert not [e for e in edges if e[0][:2] == e[1][:2] and e[0].startswith("L")], (
        "heads of one layer never compose"
    )


def test_g12_one_edge_split_over_the_heads_of_a_layer_and_its_bypass():
    """The effect of E on the logits, split over the three heads of a layer and the way past them, adds up."""
    trace = px.random_model(layers=2, heads=3, norm="rmsnorm", biases=True, seed=3).run([1, 2, 3])
    terms = px.expand(trace)
    whole = terms.where("E .* U").logits()
    for layer in (0, 1):
        heads = [terms.where(f"E .* L{layer}H{h} .* U").logits() for h in range(3)]
        bypass = terms.where(f"E .* U & ~(E .* L{layer} .* U)").logits()
        np.testing.assert_allclose(sum(heads) + bypass, whole, atol=1e-12)


def test_g15_every_cut_list_says_so(capsys):
    from pathexp.cli import main

    assert main(["derive", "--layers", "2", "--heads", "2", "--max-terms", "5"]) == 3
    assert "4 more of 9" in capsys.readouterr().out
    assert main(["derive", "--layers", "2", "--heads", "2", "--max-terms", "9"]) == 0
    assert "more of" not in capsys.readouterr().out
    ranking = px.expand(trace := px.random_model(seed=1).run([1, 2])).top(5, trace.logit(3))
    assert f"{ranking.count - 5:,} other paths" in str(ranking) and ranking.remainder != 0
