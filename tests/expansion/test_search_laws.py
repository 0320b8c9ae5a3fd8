"""Laws of the list of the largest paths: how it answers to scales, orders of heads, what nothing reaches, k and queries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pathexp as px
from pathexp.expansion.ranking import enumerated, searched
from pathexp.expansion.search import Budget
from pathexp.expansion.search.entries import all_entries
from pathexp.expansion.search.layout import Layout
from pathexp.model import Model

FEW = settings(max_examples=12, deadline=None)
seeds = st.integers(0, 10_000)
powers = st.integers(-40, 40)


def model_of(seed, **switches):
    given_switches = {"norm": None, "positions": "none", "d_mlp": (0, 6)[seed % 2], "biases": bool(seed % 3)}
    return px.random_model(
        layers=3, heads=2, d_model=6, d_head=2, d_vocab=5, n_ctx=6, seed=seed, **(given_switches | switches)
    )


def with_weights(model, **arrays):
    return Model(model.config, replace(model.weights, **arrays))


def ranked(model, k=6, token=1, query=None, how=searched):
    trace = model.run([1, 2, 3, 1])
    terms = px.expand(trace) if query is None else px.expand(trace).where(query)
    target = trace.logit(token)
    limits = (Budget(),) if how is searched else ()
    return how(terms.walk, k, target, terms.value(target), *limits)


def listed(ranking):
    return {str(term.path): value for term, value in zip(ranking, ranking.values, strict=True)}


@pytest.mark.parametrize("how", [searched, enumerated])
@FEW
@given(seed=seeds, power=powers)
def test_a_power_of_two_on_the_unembedding_scales_every_number(how, seed, power):
    model, scale = model_of(seed), 2.0**power
    arrays = {name: getattr(model.weights, name) for name in ("W_U", "b_U")}
    scaled = with_weights(model, **{name: a if a is None else a * scale for name, a in arrays.items()})
    before, after = ranked(model, how=how), ranked(scaled, how=how)
    assert [str(term.path) for term in before] == [str(term.path) for term in after]
    assert tuple(scale * value for value in before.values) == after.values
    assert after.exact == before.exact
    np.testing.assert_allclose(after.errors, np.array(before.errors) * scale, rtol=1e-6)
    np.testing.assert_allclose(after.bound, before.bound * scale, rtol=1e-6)


@FEW
@given(seed=seeds, power=powers)
def test_a_power_of_two_on_all_sources_scales_every_value(seed, power):
    model, scale = model_of(seed, biases=False, d_mlp=0), 2.0**power
    trace = model.run([1, 2, 3, 1])
    graph, target = px.freeze(trace), trace.logit(1)
    (source,) = graph.sources
    (step,) = source.write
    table = step.feature[0].numbers()
    grown = type(table)(table.array * scale, table.target, table.source, table.name)
    write = (replace(step, feature=(replace(step.feature[0], map=grown),)),)
    other = replace(graph, sources=(replace(source, write=write),), trace=None)
    before, after = (searched(px.expand(g).walk, 5, target, 0.0, Budget()) for g in (graph, other))
    assert tuple(scale * value for value in before.values) == after.values
    assert [str(term.path) for term in before] == [str(term.path) for term in after]


@pytest.mark.parametrize("how", [searched, enumerated])
@FEW
@given(seed=seeds, power=powers)
def test_a_power_of_two_moved_from_writers_to_readers_changes_no_value(how, seed, power):
    model, scale = model_of(seed, biases=False), 2.0**power
    moved = with_weights(model, W_V=model.weights.W_V * scale, W_O=model.weights.W_O / scale)
    before, after = ranked(model, how=how), ranked(moved, how=how)
    assert listed(before) == listed(after)


@FEW
@given(seed=seeds)
def test_heads_in_another_order_permute_the_list(seed):
    model = model_of(seed, biases=False)
    names = ("W_Q", "W_K", "W_V", "W_O")
    turned = with_weights(model, **{name: getattr(model.weights, name)[:, ::-1] for name in names})
    swapped = {"H0": "H1", "H1": "H0"}
    before, after = listed(ranked(model)), listed(ranked(turned))
    renamed = {
        " ".join(label[:-2] + swapped.get(label[-2:], label[-2:]) for label in path.split()): value
        for path, value in after.items()
    }
    assert set(renamed) == set(before)
    for path, value in before.items():
        assert renamed[path] == pytest.approx(value, rel=1e-10, abs=1e-15)


@FEW
@given(seed=seeds)
def test_a_component_that_nothing_reaches_changes_nothing(seed):
    """A head that writes nothing, in front of all others: the list of paths through the others is what it was."""
    model = model_of(seed, biases=False)
    silent = {
        name: np.concatenate([array := getattr(model.weights, name), 0.0 * array[:, :1]], axis=1)
        for name in ("W_Q", "W_K", "W_V", "W_O")
    }
    config = replace(model.config, n_heads=3, n_kv_heads=3)
    wider = Model(config, replace(model.weights, **silent))
    before, after = ranked(model), ranked(wider)
    assert set(listed(before)) == set(listed(after))
    np.testing.assert_allclose(before.values, after.values, rtol=1e-10, atol=1e-16)


@pytest.mark.parametrize("how", [searched, enumerated])
@FEW
@given(seed=seeds, k=st.integers(1, 12))
def test_a_list_is_the_beginning_of_the_longer_one(how, seed, k):
    model = model_of(seed)
    short, long = ranked(model, k, how=how), ranked(model, k + 1, how=how)
    assert short.exact and long.exact
    sure = k - short.ties
    assert [str(term.path) for term in short[:sure]] == [str(term.path) for term in long[:sure]]
    np.testing.assert_allclose(short.values, long.values[:k], rtol=1e-12)
    if len(long) > k:
        assert abs(long.values[k]) <= short.bound


@FEW
@given(seed=seeds, k=st.integers(1, 8))
def test_a_union_of_queries_has_the_largest_of_both(seed, k):
    model, one, other = model_of(seed), "S .* L1H0 .* U", "S .* L2H1 .* U"
    both = listed(ranked(model, k, query=f"{one} | {other}"))
    apart = listed(ranked(model, k, query=one)) | listed(ranked(model, k, query=other))
    best = sorted(apart.items(), key=lambda pair: -abs(pair[1]))[:k]
    np.testing.assert_allclose(
        sorted(np.abs([*both.values()])), sorted(abs(value) for _, value in best), rtol=1e-10
    )
    assert set(both) == {path for path, _ in best}


@pytest.mark.parametrize("power", [-30, 30])
def test_which_beginnings_are_kept_one_by_one_does_not_depend_on_units(power):
    """A power of two on the embedding scales all beginnings: shares of the largest stay what they are."""
    model = model_of(1, activation="relu")
    scaled = with_weights(model, W_E=model.weights.W_E * 2.0**power, **no_biases(model))
    plain = with_weights(model, **no_biases(model))
    kept = [
        [entries.words for entries in all_entries(Layout(px.expand(px.freeze(each.run([1, 2, 3]))).walk))]
        for each in (plain, scaled)
    ]
    assert kept[0] == kept[1] and any(len(word) > 1 for words in kept[0] for word in words)


def no_biases(model):
    """So that patterns and gates do not depend on the size of what they read."""
    arrays = vars(model.weights)
    silent = (
        name for name, a in arrays.items() if a is not None and (name.startswith("b_") or name == "W_Q")
    )
    return {name: np.zeros_like(arrays[name]) for name in silent}
