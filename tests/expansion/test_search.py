"""Certified top-k: equal to brute force, its sets valid, its bounds honest when it is cut short."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pathexp as px
from pathexp.expansion.ranking import enumerated, searched
from pathexp.expansion.search import Budget, Layout, reachable_sets, tables
from pathexp.expansion.search import certified as certified_module
from pathexp.expansion.search.ellipsoids import largest, summed, united, with_points
from pathexp.expansion.search.tables import Bounds, Reach
from pathexp.expansion.values import path_values
from pathexp.graph import push
from tests.zoo import FAMILIES, ZOO

MODELS = {**ZOO, **FAMILIES}
QUERIES = ("E .* U", "S .* U", "S .* L1 U", "S L0 .* U", "S (. .)* U", "S .* U & ~(S .* L0 .* U)")


def run(model, length=5, seed=0):
    length = min(length, model.config.n_ctx)
    return model.run(np.random.default_rng(seed).integers(0, model.config.d_vocab, length))


def agree(terms, target, k, budget=None):
    """A search finds what enumeration finds, and bounds what it leaves out as tightly as it may."""
    total = terms.value(target)
    found = searched(terms.walk, k, target, total, budget or Budget())
    known = enumerated(terms.walk, k, target, total)
    values = np.abs(path_values(terms.walk, target))
    wanted = np.sort(values)[::-1]
    got = np.abs(found.values)
    np.testing.assert_allclose(got, wanted[: len(got)], rtol=1e-9, atol=1e-10)
    assert len(got) == min(k, len(wanted)) or not np.any(wanted[len(got) : k] > 1e-12)
    for term, value in zip(found.terms, found.values, strict=True):
        assert abs(term.value(target) - value) < 1e-10
    assert found.exact
    assert found.count == known.count == len(values)
    assert abs(found.value + found.remainder - total) < 1e-10
    if len(wanted) > k:
        assert wanted[k] <= found.bound * (1 + 1e-12) + 1e-12
        assert found.bound <= wanted[k - 1] + 1e-12


@pytest.mark.parametrize("mode", ["gate", "source"])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_brute_force_agrees(name, mode):
    trace = run(MODELS[name]())
    terms = px.expand(px.freeze(trace, mlp=mode))
    for target in (trace.logit(1), trace.logit_difference(0, 2, position=1)):
        for k in (1, 4, 30):
            agree(terms, target, k)


@pytest.mark.parametrize("text", QUERIES)
@pytest.mark.parametrize("name", ["3L-layernorm", "2L-gqa", "gpt2", "original", "gemma2", "parallel-no-norm"])
def test_brute_force_agrees_inside_queries(name, text):
    trace = run(MODELS[name]())
    terms = px.expand(trace).where(text)
    if terms.count():
        for k in (1, 7):
            agree(terms, trace.logit(3), k)


@settings(max_examples=25, deadline=None)
@given(
    layers=st.integers(1, 3),
    heads=st.integers(1, 3),
    norm=st.sampled_from([None, "rmsnorm", "layernorm"]),
    d_mlp=st.sampled_from([0, 5]),
    seed=st.integers(0, 10**6),
    k=st.integers(1, 12),
    data=st.data(),
)
def test_brute_force_agrees_on_drawn_models(layers, heads, norm, d_mlp, seed, k, data):
    model = px.random_model(
        layers=layers, heads=heads, d_model=7, d_head=3, d_vocab=9, n_ctx=8, norm=norm, d_mlp=d_mlp,
        biases=True, seed=seed,
    )  # fmt: skip
    trace = run(model, length=4, seed=seed)
    terms = px.expand(trace)
    text = data.draw(st.sampled_from((None, *QUERIES[:2], "S L0 .* U")))
    agree(terms if text is None else terms.where(text), trace.logit(seed % 9), k)


def test_sets_are_used_where_norms_give_up(monkeypatch):
    monkeypatch.setattr(certified_module, "NORM_NODES", 1)
    trace = run(ZOO["3L-layernorm"]())
    agree(px.expand(trace), trace.logit(1), 5)


def prefixes(layout):
    """Every prefix that passed at least one component, by brute force: (depth, state, vectors)."""
    graph = layout.walk.graph
    listed, passed = layout.entries, []
    for b, block in enumerate(graph.blocks):
        before = [(int(q), x) for q, x in zip(listed[b].states, listed[b].streams, strict=True)]
        fresh = []
        for state, x in [*before, *passed]:
            for c, component in enumerate(block.components):
                if layout.steps[b][state, c] >= 0:
                    fresh.append((int(layout.steps[b][state, c]), push(component.operator, x)))
        passed = [(state, push(block.skip, x)) for state, x in passed] + fresh
        yield b + 1, passed


def outside(shape, vectors):
    """By how much vectors (n, d) exceed ellipsoids (n, d, d): the largest yᵀ P⁻¹ y."""
    return float(np.max(np.sum(vectors * np.linalg.solve(shape, vectors[..., None])[..., 0], axis=-1)))


@pytest.mark.parametrize("text", ["S .* U", "S L0 .* U"])
@pytest.mark.parametrize("mode", ["gate", "source"])
@pytest.mark.parametrize("name", ["3L-layernorm", "2L-gqa", "gpt2", "original", "llama", "bert", "microgpt"])
def test_every_prefix_lies_in_its_set(name, mode, text):
    trace = run(MODELS[name]())
    terms = px.expand(px.freeze(trace, mlp=mode)).where(text)
    layout = Layout(terms.walk)
    sets = dict(enumerate(reachable_sets(layout)))
    seen = 0
    for depth, passed in prefixes(layout):
        for state, vectors in passed:
            assert outside(sets[depth][state], vectors) <= 1 + 1e-6
            seen += 1
    assert seen


def test_a_set_that_is_too_small_would_be_caught():
    """The law above has teeth: at a tenth of the size some prefix is outside."""
    layout = Layout(px.expand(run(ZOO["3L-layernorm"]())).walk)
    sets = dict(enumerate(reachable_sets(layout)))
    worst = max(outside(sets[b][q] * 0.1, x) for b, passed in prefixes(layout) for q, x in passed)
    assert worst > 1


def test_a_bound_that_is_too_small_would_be_caught():
    """With bounds at a hundredth, some search of the zoo misses a path: the comparison would fail."""
    missed = 0
    for name in ("3L-layernorm", "2L-gqa", "gpt2", "llama"):
        trace = run(MODELS[name]())
        terms = px.expand(trace)
        target = trace.logit(1)
        known = tables(terms.walk)
        true = known.set_bounds(lambda b: False)
        shrunk = Bounds(tuple(_shrunk(block) for block in true.blocks))
        field = px.expansion.targets.on_stream(target, terms.graph)
        found = certified_module._search(known, shrunk, 20, field, Budget())
        best = np.sort(np.abs(path_values(terms.walk, target)))[::-1][:20]
        missed += len(found.paths) < 20 or abs(abs(found.paths[19][0]) - best[19]) > 1e-9
    assert missed


def _shrunk(block):
    return {
        component: {
            state: Reach(reach.lengths * 0.01, None if reach.factors is None else reach.factors * 0.01)
            for state, reach in states.items()
        }
        for component, states in block.items()
    }


@pytest.mark.parametrize("nodes", [1, 3, 10, 40])
@pytest.mark.parametrize("name", ["3L-layernorm", "gpt2", "llama"])
def test_an_interrupted_search_bounds_what_it_missed(name, nodes):
    trace = run(MODELS[name]())
    terms = px.expand(trace)
    target = trace.logit(1)
    found = searched(terms.walk, 5, target, terms.value(target), Budget(nodes=nodes))
    listed = {term.path for term in found.terms}
    values = terms.values(target)
    missed = [abs(v) for v, path in zip(values, terms.paths(), strict=True) if path not in listed]
    assert max(missed) <= found.bound * (1 + 1e-12)
    assert abs(found.value + found.remainder - target.value) < 1e-9


def test_time_that_is_up_leaves_an_honest_answer():
    trace = run(ZOO["3L-layernorm"]())
    terms = px.expand(trace)
    found = searched(terms.walk, 5, trace.logit(1), terms.value(trace.logit(1)), Budget(seconds=0.0))
    assert not found.exact
    assert abs(found.value + found.remainder - trace.logit(1).value) < 1e-9


@pytest.mark.parametrize(
    "limit", [{"seconds": float("nan")}, {"seconds": "1"}, {"nodes": -1}, {"memory": True}]
)
def test_what_is_no_limit_is_refused_by_name(limit):
    trace = run(ZOO["3L-layernorm"]())
    with pytest.raises(px.PathexpError, match=f"{next(iter(limit))}=.* is no limit"):
        px.expand(trace).top(3, trace.logit(1), **limit)


def test_numbers_of_numpy_are_numbers_of_terms():
    trace = run(ZOO["3L-layernorm"]())
    assert len(px.expand(trace).top(np.int64(3), trace.logit(1)).terms) == 3


def sampled(layout, count, rng):
    """Random prefixes (depth, state, vectors (S, n, d)), all sources and components alike."""
    graph, entries = layout.walk.graph, layout.entries[0]
    chosen = rng.integers(0, len(entries.words), count)
    x, passed = entries.streams[chosen], np.zeros(count, dtype=bool)
    for b, block in enumerate(graph.blocks):
        takes = rng.integers(-len(block.components), len(block.components), count)
        after = push(block.skip, x)
        for c, component in enumerate(block.components):
            if np.any(takes == c):
                after[takes == c] = push(component.operator, x[takes == c])
        x, passed = after, passed | (takes >= 0)
        yield b + 1, x[passed]


@pytest.mark.parametrize("mode", ["gate", "source"])
def test_100_000_sampled_prefixes_of_a_trained_model_lie_in_their_sets(mode):
    rng, seen = np.random.default_rng(0), 0
    for name in ("attn-2l", "attn-1l"):
        layout = Layout(px.expand(px.freeze(px.load(name).run("To be, or not"), mlp=mode)).walk)
        sets = dict(enumerate(reachable_sets(layout)))
        for _ in range(8):
            for depth, vectors in sampled(layout, 8_000, rng):
                (shape,) = sets[depth].values()
                thin = np.linalg.solve(np.linalg.cholesky(shape), vectors.transpose(1, 2, 0))
                assert np.sum(thin * thin, axis=1).max() <= 1 + 1e-6
                seen += len(vectors)
    assert seen > 100_000


def test_unions_and_sums_hold_what_they_are_made_of():
    rng = np.random.default_rng(0)
    factors = [rng.standard_normal((3, 6, r)) * size for r, size in ((2, 3.0), (4, 0.2), (1, 9.0))]
    start = np.eye(6) * np.array([0.1, 1.0, 2.0])[:, None, None]
    whole = united(start, factors)
    for part in [*factors, np.linalg.cholesky(start)]:
        gap = np.linalg.eigvalsh(whole - part @ part.transpose(0, 2, 1))
        assert gap.min() > -1e-6
    points = rng.standard_normal((7, 3, 6)) * 5
    grown = with_points(whole, points)
    assert max(outside(grown, point) for point in points) <= 1
    assert np.linalg.eigvalsh(grown - whole).min() > -1e-6
    amounts = rng.standard_normal((3, 3))
    inside = rng.standard_normal((500, 3, 6))
    inside /= np.sqrt(np.einsum("snd,nde,sne->sn", inside, np.linalg.inv(grown), inside))[..., None]
    together = summed(grown, amounts, np.eye(6))
    assert max(outside(together, amounts @ x) for x in inside) <= 1 + 1e-9
    assert np.all(largest(grown) >= np.linalg.eigvalsh(grown)[:, -1])


def test_a_target_is_ranked_the_same_way_every_time():
    trace = run(px.random_model(layers=8, heads=6, d_model=16, d_head=3, d_vocab=9, n_ctx=8, seed=3))
    first = px.expand(trace).top(5, trace.logit(1))
    again = px.expand(replace(trace.graph)).top(5, trace.logit(1))
    assert first.exact
    assert [t.path for t in first.terms] == [t.path for t in again.terms]
    assert first.values == again.values


def test_progress_goes_to_stderr_only_when_asked(capsys):
    trace = run(px.random_model(layers=8, heads=6, d_model=16, d_head=3, d_vocab=9, n_ctx=8, seed=3))
    terms = px.expand(trace)
    terms.top(3, trace.logit(1))
    assert capsys.readouterr() == ("", "")
    terms.top(3, trace.logit(1), progress=True)
    assert "suffixes" in capsys.readouterr().err


@pytest.mark.parametrize("k", [0, -1, 2.5, True])
def test_k_is_a_number_of_terms(k):
    trace = run(ZOO["2L-plain"]())
    with pytest.raises(px.PathexpError, match="whole number"):
        px.expand(trace).top(k, trace.logit(1))
