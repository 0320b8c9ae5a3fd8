"""Paths that end, or begin, at any point of a run; targets there; targets combined."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import pathexp as px
from pathexp.model.points import values_at
from tests.expansion.test_every_architecture import random_switches, run
from tests.zoo import FAMILIES, ZOO

ALL = ZOO | FAMILIES


def traced(name: str) -> px.Trace:
    model = ALL[name]()
    return model.run(np.random.default_rng(2).integers(0, model.config.d_vocab, 6))


def stream_points(trace: px.Trace) -> list[str]:
    return [
        p for p in trace.residuals if p.endswith((".mid", ".out")) or p in ("embed", "final_in", "final_out")
    ]


def outputs(trace: px.Trace) -> list[str]:
    """What branches and components add: of every layer, where no norm stands on the sum behind it."""
    config = trace.config
    if config.norm_placement == "post" and config.norm:
        return []
    heads = [
        f"L{layer}{name}"
        for layer in range(config.n_layers)
        for name in (".attn_out", "H0", f"H{config.n_heads - 1}")
    ]
    mlps = [f"L{layer}{name}" for layer in range(config.n_layers) for name in (".mlp_out", "M")]
    return heads + (mlps if config.d_mlp else [])


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", ALL)
def test_paths_to_every_point_add_up_to_what_stood_there(name):
    trace = traced(name)
    heads = ["L0H0.Q", "L0H0.K", f"L{trace.config.n_layers - 1}H1.Q"] if trace.config.n_layers else []
    for point in ["final", *stream_points(trace), *heads, *outputs(trace)]:
        if point.endswith("H1.Q") and trace.config.n_heads == 1:
            continue
        terms = px.expand(trace, at=point)
        assert terms.graph.sink.label == point
        assert terms.verify().ok, point
        width = values_at(trace, point).shape[-1]
        target = trace.direction(np.linspace(-1, 2, width), at=point, position=4)
        assert terms.value(target) == pytest.approx(target.value, abs=1e-9 * max(1, abs(target.value)))
        if terms.count() < 400:
            assert terms.values(target).sum() == pytest.approx(
                target.value, abs=1e-9 * max(1, abs(target.value))
            )
            assert sum(term.value(target) for term in terms) == pytest.approx(
                terms.values(target).sum(), abs=1e-10
            )
        for direction in ("back", "forward"):
            tree = terms.tree(target, nodes=15, direction=direction)
            assert tree.ok
            for node in list(tree)[:20]:
                assert terms.where(node.query).count() == node.count
                assert terms.where(node.query).value(target) == pytest.approx(node.value, abs=1e-8)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("mlp", ["gate", "source"])
def test_paths_from_every_point_add_up_to_the_logits(name, mlp):
    trace = traced(name)
    whole = px.expand(px.freeze(trace, mlp=mlp))
    for point in stream_points(trace)[:-1]:
        terms = px.expand(px.freeze(trace, mlp=mlp, start=point))
        assert terms.verify().ok, point
        assert terms.count() <= whole.count() + 1
        assert px.expand(px.freeze(trace, mlp=mlp, at=point)).verify().ok, point


@pytest.mark.parametrize("seed", range(300, 330))
def test_every_switch_between_two_points(seed):
    trace = run(random_switches(seed), seed)
    points = stream_points(trace)[:-1]
    for early, late in pairwise(points):
        terms = px.expand(trace, start=early, at=late)
        assert terms.verify().ok, (early, late)
        assert all(path[-1] == late for path in terms.paths())


def test_what_feeds_a_head():
    trace = px.load("attn-2l").run("To be, or not to be")
    terms = px.expand(trace, at="L1H3.Q", start="L0.out")
    assert [str(path) for path in terms.paths()] == ["L0.out L1H3.Q", "P L1H3.Q"] and terms.verify().ok
    inner = px.expand(trace, at="L1H3.Q")
    assert inner.where("E L0H2 L1H3.Q").count() == 1
    np.testing.assert_allclose(
        inner.logits(), trace.queries[1, 3], atol=1e-9
    )  # positions are added, nothing is turned


def test_queries_are_those_before_they_are_turned():
    model = FAMILIES["qwen3"]()
    trace = model.run([1, 2, 3, 4])
    rotary = trace.config.rotary
    for head in range(trace.config.n_heads):
        found = values_at(trace, f"L1H{head}.Q")
        np.testing.assert_allclose(rotary.turned(found[None])[0], trace.queries[1, head], atol=1e-12)
        key = values_at(trace, f"L1H{head}.K")
        np.testing.assert_allclose(
            rotary.turned(key[None])[0], trace.keys[1, trace.config.kv_head(head)], atol=1e-12
        )


def test_points_are_labels_of_queries():
    trace = px.random_model(layers=3, heads=2, d_mlp=5, seed=1).run([1, 2, 3])
    terms = px.expand(trace, at="L1.out", start="L0.mid")
    assert terms.where("L0.mid .* L1H1 .* L1.out").count() == 4
    assert str(px.query("L0.mid . L1.out")) == "L0.mid . L1.out"
    assert px.query("L0.out") != px.query("L0 . out")
    with pytest.raises(px.PathexpError, match=r"L1\.mid"):
        terms.where("S .* L1.mid")
    found = px.evaluate(terms.expr(), terms.arrays()) @ trace.residuals["L0.mid"].reshape(-1, 1)
    np.testing.assert_allclose(found.reshape(3, 24), trace.residuals["L1.out"], atol=1e-9)
    straight = px.expand(trace, at="L1.out", start="L0.mid").where("L0.mid L1.out")
    (term,) = straight
    assert term.formula == "Id ⊗ Id" and r"\otimes" in term.latex()


def test_what_a_branch_adds_is_what_its_heads_add_and_its_bias():
    trace = px.random_model(layers=3, heads=2, d_mlp=5, biases=True, norm="layernorm", seed=1).run([1, 2, 3])
    target = trace.direction(np.arange(24.0), at="L1.attn_out")
    whole = px.expand(trace, at="L1.attn_out").value(target)
    heads = [
        px.expand(trace, at=f"L1H{h}").value(trace.direction(np.arange(24.0), at=f"L1H{h}")) for h in (0, 1)
    ]
    assert sum(heads) + trace.model.weights.b_O[1] @ np.arange(24.0) == pytest.approx(whole)
    terms = px.expand(trace, at="L1H0")
    assert terms.where("E .* L0M L1H0").count() == 3 and terms.where("b_V_L1H0 L1H0").count() == 1
    with pytest.raises(px.PathexpError, match="L1H1"):
        terms.where("S .* L1H1")


def test_a_norm_on_the_sum_makes_no_end_of_a_branch():
    trace = traced("original")
    with pytest.raises(px.PathexpError, match="norm stands on the sum"):
        px.expand(trace, at="L0.attn_out")
    with pytest.raises(px.PathexpError, match="norm stands on the sum"):
        trace.direction(np.ones(trace.config.d_model), at="L0H0")


def test_an_mlp_that_is_a_source_is_no_end():
    trace = traced("gpt2")
    with pytest.raises(px.PathexpError, match=r"adds \(L0\.attn_out, L0H0\)"):
        px.freeze(trace, mlp="source", at="L0.mlp_out")


def test_a_tree_toward_a_target_inside_ends_there():
    trace = px.random_model(layers=3, heads=2, seed=1).run([1, 2, 3])
    target = trace.direction(np.arange(24.0), at="L1.out")
    tree = px.tree(trace, target, nodes=5)
    assert tree.root.query == "S .* L1.out" and tree.value == pytest.approx(target.value) and tree.ok


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda t: px.expand(t, at="L9.out"), "choose from"),
        (lambda t: px.expand(t, at="L0.mlp_out"), r"choose from.*L0.attn_out, L0H0\)"),
        (lambda t: px.expand(t, at="L0.attn_result"), "choose from"),
        (lambda t: px.expand(t, at="L0H7"), "choose from"),
        (lambda t: px.expand(t, at="L0H1", start="L0.out"), "comes before"),
        (lambda t: px.expand(t, start="L0H1"), "choose from"),
        (lambda t: t.direction(np.ones(24), at="L0M"), "no point"),
        (lambda t: px.expand(t, at="L9H0.Q"), "no head"),
        (lambda t: px.expand(t, at="L0.out", start="L1.out"), "comes before"),
        (lambda t: px.expand(t, at="L0.out", start="L0.out"), "begin and end at L0.out"),
        (lambda t: px.expand(px.freeze(t), at="L0.out"), "where a run is frozen"),
        (lambda t: px.expand(t, at=3), "at"),
        (lambda t: px.expand(t).value(t.direction(np.ones(24), at="L0.out")), "these paths end at logits"),
        (lambda t: px.expand(t, at="L0.out").value(t.logit(1)), "these paths end at L0.out"),
        (lambda t: t.direction(np.ones(24), at="L0.outs"), "Did you mean"),
        (lambda t: t.direction(np.ones(3), at="L0.out"), "24 numbers"),
        (lambda t: t.direction(np.ones(5), at="L0H9.Q"), "no point"),
        (lambda t: t.direction(np.ones(11), at="log_probs"), "contrast of the runs"),
        (lambda t: t.logit(1) - t.logit(1, position=0), "one point and position"),
        (
            lambda t: t.logit(1) + 3,
            "another target",
        ),
        (lambda t: t.logit(1) * "x", "finite number"),
        (lambda t: t.logit(1) / 0, "not zero"),
        (lambda t: px.Target.mean([]), "at least one"),
    ],
)
def test_what_cannot_be_asked_is_refused(ask, text):
    trace = px.random_model(layers=2, heads=2, seed=1).run([1, 2, 3])
    with pytest.raises(px.PathexpError, match=text):
        ask(trace)


def test_targets_are_combined_as_vectors_are():
    trace = px.random_model(layers=2, heads=2, seed=1).run([1, 2, 3])
    a, b, c = (trace.logit(token, position=1) for token in (2, 5, 7))
    assert (a - b).value == pytest.approx(trace.logit_difference(2, 5, position=1).value)
    terms = px.expand(trace)
    both = px.Target.mean([a, b]) - 2 * c / 4 + (-a)
    expected = (a.value + b.value) / 2 - c.value / 2 - a.value
    assert both.value == pytest.approx(expected) and terms.value(both) == pytest.approx(expected)
    assert sum([a, b, c]).value == pytest.approx(a.value + b.value + c.value)
    assert terms.tree(both).ok
    other = px.random_model(layers=2, heads=2, seed=1).run([3, 2, 1]).logit(2, position=1)
    with pytest.raises(px.PathexpError, match="another run"):
        terms.value(a - other)


def test_the_final_stream_has_one_name_and_the_old_one():
    trace = px.random_model(layers=2, heads=2, norm="layernorm", biases=True, seed=1).run([1, 2, 3])
    old = trace.direction(np.arange(24.0), space="residual")
    new = trace.direction(np.arange(24.0), at="final")
    assert old.at == new.at == "final_in" and old.value == new.value
    assert px.expand(trace).value(new) == pytest.approx(px.expand(trace, at="final").value(old))
