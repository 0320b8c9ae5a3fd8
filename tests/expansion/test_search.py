"""Certified top-k: equal to brute force, its sets valid, its bounds honest when it is cut short."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pathexp as px
from pathexp import workers as workers_module
from pathexp.algebra import Dense, Diagonal, Identity, Space, Zero, compose
from pathexp.budget import BUDGET
from pathexp.expansion.ranking import enumerated, searched
from pathexp.expansion.search import (
    Budget,
    Goal,
    Layout,
    all_entries,
    interrupts,
    reachable_sets,
    sizes,
    tables,
)
from pathexp.expansion.search import certified as certified_module
from pathexp.expansion.search.ellipsoids import summed, united, with_points
from pathexp.expansion.search.farthest import farthest
from pathexp.expansion.search.layout import _orthonormal, _stretch
from pathexp.expansion.search.norms import _schatten, link_norms
from pathexp.expansion.search.reach import Bounds
from pathexp.expansion.search.rounding import DOUBLE, SINGLE, gamma, largest, sizes_met
from pathexp.expansion.search.sizes import LEAST, size, tight, underflow
from pathexp.expansion.search.sweep import Sweep
from pathexp.expansion.search.tables import Tables
from pathexp.expansion.values import path_values
from pathexp.graph import Factor, Gate, Step, factors, push, start_value, tall
from pathexp.model.stored import StoredRows
from tests.shared_models import shared_file
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
    assert found.exact or wanted[min(k, len(wanted)) - 1] <= found.margin, (
        "nothing but rounding is left to prove"
    )
    assert found.count == known.count == len(values)
    assert abs(found.value + found.remainder - total) < 1e-10
    if len(wanted) > k:
        assert wanted[k] <= found.bound * (1 + 1e-12) + 1e-12
        assert not found.exact or found.bound <= wanted[k - 1] + found.margin + 1e-12
        assert found.margin <= 1e-6 * max(1.0, wanted[0])


@pytest.mark.sampled(4)
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


def starting(layout, at):
    """What sets out at a depth: (state, label, vectors)."""
    for source, state in layout.walk.starts():
        for labels, depth, after, _ in layout.walk.entries(source, state):
            if depth == at and layout.walk.completions.leads(depth, after):
                operator = source.into[labels[0]] if labels else source.write
                yield after, (source.label, *labels), start_value(source.start, operator)


def prefixes(layout, entries):
    """Every prefix that passed a component and is no entry, by brute force: (depth, [(state, vectors)])."""
    graph, here = layout.walk.graph, list(starting(layout, 0))
    for b, block in enumerate(graph.blocks):
        made = [
            (int(layout.steps[b][state, c]), (*word, component.label), push(component.operator, x))
            for state, word, x in here
            for c, component in enumerate(block.components)
            if layout.steps[b][state, c] >= 0
        ]
        here = [(state, word, push(block.skip, x)) for state, word, x in here]
        here += [*made, *starting(layout, b + 1)]
        kept = set(zip(entries[b + 1].words, entries[b + 1].states.tolist(), strict=True))
        yield b + 1, [(state, x) for state, word, x in here if (word, state) not in kept]


def sets_of(layout, room=None):
    entries = tuple(all_entries(layout, room))
    return entries, {reached.b: reached.sets for reached in reachable_sets(layout, entries)}


def outside(shape, vectors):
    """By how much vectors (n, d) exceed ellipsoids (n, d, d): the largest yᵀ P⁻¹ y."""
    return float(np.max(np.sum(vectors * np.linalg.solve(shape, vectors[..., None])[..., 0], axis=-1)))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("room", [0, 3])
@pytest.mark.parametrize("text", ["S .* U", "S L0 .* U"])
@pytest.mark.parametrize("mode", ["gate", "source"])
@pytest.mark.parametrize("name", ["3L-layernorm", "2L-gqa", "gpt2", "original", "llama", "bert", "microgpt"])
def test_every_prefix_is_an_entry_or_lies_in_its_set(name, mode, text, room):
    trace = run(MODELS[name]())
    terms = px.expand(px.freeze(trace, mlp=mode)).where(text)
    layout = Layout(terms.walk)
    entries, sets = sets_of(layout, room)
    seen = 0
    for depth, passed in prefixes(layout, entries):
        for state, vectors in passed:
            assert outside(sets[depth][state], vectors) <= 1 + 1e-6
            seen += 1
    assert seen


def test_a_set_that_is_too_small_would_be_caught():
    """The law above has teeth: at a tenth of the size some prefix is outside."""
    layout = Layout(px.expand(run(ZOO["3L-layernorm"]())).walk)
    entries, sets = sets_of(layout)
    worst = max(outside(sets[b][q] * 0.1, x) for b, passed in prefixes(layout, entries) for q, x in passed)
    assert worst > 1


@pytest.mark.parametrize("room", [1, 7, 96])
@pytest.mark.parametrize("name", ["gpt2", "original", "llama", "gemma2", "microgpt"])
def test_entries_are_prefixes_each_once(name, room):
    """Labels and streams of entries agree, no prefix is there twice, and there are never more than asked for."""
    layout = Layout(px.expand(run(MODELS[name]())).walk)
    last = list(all_entries(layout, room))[-1]
    assert len({*last.words}) == len(last.words)
    graph = layout.walk.graph
    places = {c.label: (b, c) for b, block in enumerate(graph.blocks) for c in block.components}
    started = {labels: x for at in range(len(graph.blocks) + 1) for _, labels, x in starting(layout, at)}
    passed = 0
    for word, stream in zip(last.words, last.readings[-1], strict=True):
        begin = next(labels for labels in started if word[: len(labels)] == labels)
        x, depth = started[begin], _depth_of(layout, begin)
        for label in word[len(begin) :]:
            b, component = places[label]
            for at in range(depth, b):
                x = push(graph.blocks[at].skip, x)
            x, depth = push(component.operator, x), b + 1
            passed += 1
        for at in range(depth, len(graph.blocks)):
            x = push(graph.blocks[at].skip, x)
        np.testing.assert_allclose(stream, x, rtol=1e-9, atol=1e-12)
    assert passed > 0


def _depth_of(layout, begin):
    depths = range(len(layout.skips) + 1)
    return next(at for at in depths for _, labels, _ in starting(layout, at) if labels == begin)


def test_a_bound_that_is_too_small_would_be_caught():
    """With bounds at a hundredth, some search of the zoo misses a path: the comparison would fail."""
    missed = 0
    for name in ("3L-layernorm", "2L-gqa", "gpt2", "llama"):
        trace = run(MODELS[name]())
        terms = px.expand(trace)
        target = trace.logit(1)
        known = tables(terms.walk)
        true = known.set_bounds(lambda b: False)
        shrunk = Bounds(tuple(_shrunk(block) for block in true.blocks), true.longest, most=true.most)
        goal = Goal.of(target, terms.graph)
        found = certified_module._sweep(known, shrunk, 20, goal, Budget(), 0.0, None).best.words()
        best = np.sort(np.abs(path_values(terms.walk, target)))[::-1][:20] / 2.0**goal.exponent
        missed += len(found) < 20 or abs(abs(found[19].value) - best[19]) > 1e-9
    assert missed


def _shrunk(block):
    return {
        component: {state: _smaller(reach) for state, reach in states.items()}
        for component, states in block.items()
    }


def _smaller(reach):
    """A reach of a hundredth."""
    if reach.scales is None:
        return replace(reach, lengths=reach.lengths * 0.01)
    return replace(reach, lengths=reach.lengths * 0.01, scales=reach.scales * 0.01, lost=reach.lost * 0.01)


LIMITS = [
    {"nodes": 0},
    {"nodes": 1},
    {"nodes": 3},
    {"nodes": 10},
    {"nodes": 40},
    {"memory": 0},
    {"memory": 1500},
    {"steps": 2},
    {"steps": 7},
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("limit", LIMITS, ids=str)
@pytest.mark.parametrize(
    "name", ["3L-layernorm", "2L-gqa", "gpt2", "llama", "original", "gemma2", "parallel-no-norm"]
)
def test_an_interrupted_search_bounds_what_it_missed(name, limit):
    """However a search is cut short, no path it did not list is above its bound."""
    trace = run(MODELS[name]())
    terms = px.expand(trace)
    target = trace.logit(1)
    if "steps" in limit:
        left = iter(range(limit["steps"]))
        budget = Budget(interrupted=lambda: next(left, None) is None)
    else:
        budget = Budget(**limit)
    found = searched(terms.walk, 5, target, terms.value(target), budget)
    assert found.terms
    listed = {term.path for term in found.terms}
    values = terms.values(target)
    missed = [abs(v) for v, path in zip(values, terms.paths(), strict=True) if path not in listed]
    assert max(missed) <= found.bound * (1 + 1e-12)
    assert abs(found.value + found.remainder - target.value) < 1e-9


@pytest.mark.parametrize("name", ["3L-layernorm", "gpt2"])
def test_time_that_is_up_leaves_an_honest_answer(name):
    """Lengths bound what is missed from the start, also where sets are not made yet."""
    trace = run(MODELS[name]())
    terms = px.expand(trace)
    found = searched(terms.walk, 5, trace.logit(1), terms.value(trace.logit(1)), Budget(seconds=0.0))
    assert not found.exact
    listed = {term.path for term in found.terms}
    values = zip(terms.values(trace.logit(1)), terms.paths(), strict=True)
    assert max(abs(value) for value, path in values if path not in listed) <= found.bound < np.inf
    assert len(found.terms) == 5
    for term, value in zip(found.terms, found.values, strict=True):
        assert abs(term.value(trace.logit(1)) - value) < 1e-10
    assert abs(found.value + found.remainder - trace.logit(1).value) < 1e-9


def test_an_interrupt_from_the_keyboard_ends_a_search_with_what_it_has(monkeypatch):
    trace = run(px.random_model(layers=8, heads=6, d_model=16, d_head=3, d_vocab=9, n_ctx=8, d_mlp=5, seed=3))
    terms = px.expand(trace)
    before, blocks = signal.getsignal(signal.SIGINT), []
    whole = Sweep._block

    def pressed(sweep, b):
        blocks.append(b)
        if len(blocks) == 9:
            signal.raise_signal(signal.SIGINT)
        return whole(sweep, b)

    monkeypatch.setattr(Sweep, "_block", pressed)
    found = terms.top(50, trace.logit(1))
    assert len(blocks) == 9
    assert not found.exact
    assert found.terms
    assert abs(found.value + found.remainder - trace.logit(1).value) < 1e-9
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_interrupt_is_raised():
    with pytest.raises(KeyboardInterrupt), interrupts() as interrupted:
        assert not interrupted()
        signal.raise_signal(signal.SIGINT)
        assert interrupted()
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_a_program_that_handles_interrupts_otherwise_keeps_its_way(handler):
    before = signal.signal(signal.SIGINT, handler)
    try:
        with interrupts() as interrupted:
            assert signal.getsignal(signal.SIGINT) is handler
            assert not interrupted()
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_no_endings_at_all_leave_nothing_proven():
    trace = run(px.random_model(layers=8, heads=6, d_model=16, d_head=3, d_vocab=9, n_ctx=8, seed=3))
    found = px.expand(trace).top(3, trace.logit(1), nodes=0)
    assert not found.exact
    assert found.examined < 1_000


def test_outside_of_the_main_thread_nothing_is_caught():
    trace = run(px.random_model(layers=8, heads=6, d_model=16, d_head=3, d_vocab=9, n_ctx=8, seed=3))
    found = []
    thread = threading.Thread(target=lambda: found.append(px.expand(trace).top(3, trace.logit(1))))
    thread.start()
    thread.join()
    assert found[0].exact


def test_paths_that_add_nothing_are_listed_when_they_are_asked_for():
    """Asked for more terms than are not zero, a search lists as many as enumeration does."""
    trace = px.induction_model(d_vocab=6, n_ctx=12).run([1, 2, 3, 1])
    terms = px.expand(trace)
    target = trace.logit(2)
    for k in (7, 8, 99):
        found = searched(terms.walk, k, target, terms.value(target), Budget())
        known = enumerated(terms.walk, k, target, terms.value(target))
        assert found.exact
        assert len(found.terms) == len(known.terms)
        assert len({term.path for term in found.terms}) == len(found.terms)
        np.testing.assert_allclose(np.abs(found.values), np.abs(known.values), atol=1e-12)


def test_many_terms_of_many_paths():
    """Thousands are asked for: still what enumeration finds, in its order of size."""
    trace = run(px.random_model(layers=4, heads=5, d_model=12, d_head=3, d_vocab=9, n_ctx=8, seed=1))
    agree(px.expand(trace), trace.logit(1), 1_000)


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


def sampled(layout, entries, count, rng):
    """Random prefixes that are no entries (depth, vectors (S, n, d)), all sources and components alike."""
    graph = layout.walk.graph
    begin = [(word, x) for _, word, x in starting(layout, 0)]
    chosen = rng.integers(0, len(begin), count)
    x = np.stack([begin[at][1] for at in chosen])
    words = [begin[at][0] for at in chosen]
    for b, block in enumerate(graph.blocks):
        takes = rng.integers(-len(block.components), len(block.components), count)
        after = push(block.skip, x)
        for c, component in enumerate(block.components):
            if np.any(takes == c):
                after[takes == c] = push(component.operator, x[takes == c])
                for at in np.flatnonzero(takes == c):
                    words[at] = (*words[at], component.label)
        x, kept = after, set(entries[b + 1].words)
        yield b + 1, x[[word not in kept for word in words]]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["gate", "source"])
def test_100_000_sampled_prefixes_of_a_trained_model_lie_in_their_sets(mode):
    rng, seen = np.random.default_rng(0), 0
    for name in ("attn-2l", "attn-1l"):
        layout = Layout(px.expand(px.freeze(px.load(name).run("To be, or not"), mlp=mode)).walk)
        seen += in_their_sets(layout, 8_000, 8, rng)
    assert seen > 100_000


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["gate", "source"])
def test_100_000_sampled_prefixes_of_a_trained_model_with_mlps_lie_in_their_sets(mode):
    trace = px.load(shared_file("stories260K.bin")).run("Once upon a time, there was a little girl")
    layout = Layout(px.expand(px.freeze(trace, mlp=mode)).walk)
    assert in_their_sets(layout, 5_000, 5, np.random.default_rng(0)) > 100_000


def in_their_sets(layout, count, times, rng):
    """Assert that samples lie in their sets; return how many there were."""
    entries, sets = sets_of(layout)
    seen = 0
    for depth, vectors in (each for _ in range(times) for each in sampled(layout, entries, count, rng)):
        if len(vectors):
            (shape,) = sets[depth].values()
            thin = np.linalg.solve(np.linalg.cholesky(shape), vectors.transpose(1, 2, 0))
            assert np.sum(thin * thin, axis=1).max() <= 1 + 1e-6
            seen += len(vectors)
    return seen


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
    again = px.expand(replace(px.freeze(trace))).top(5, trace.logit(1))
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
    with pytest.raises(px.PathexpError, match="integer"):
        px.expand(trace).top(k, trace.logit(1))


class ThreeThreads:
    """A BLAS of three threads that can be limited."""

    threads = workers = 3

    def enter(self, workers):
        return workers

    def leave(self, allowed):
        assert allowed is None

    def limited(self):
        return nullcontext()


@pytest.mark.parametrize("blas", [None, ThreeThreads()])
def test_every_position_is_worked_on_once_by_one_or_by_many(monkeypatch, blas):
    monkeypatch.setattr(workers_module, "_blas", lambda: blas)
    seen = []
    workers_module.for_each(seen.append, 33)
    assert sorted(seen) == list(range(33))
    with pytest.raises(ZeroDivisionError):
        workers_module.for_each(lambda at: 1 // (at - 20), 33)


def test_many_workers_prove_what_one_proves(monkeypatch):
    trace = run(MODELS["llama"](), length=9)
    answers = []
    for blas in (None, ThreeThreads()):
        monkeypatch.setattr(workers_module, "_blas", lambda blas=blas: blas)
        terms = px.expand(px.freeze(trace))
        found = searched(terms.walk, 5, trace.logit(1), terms.value(trace.logit(1)), Budget())
        answers.append(
            [(str(term.path), round(value, 9)) for term, value in zip(found.terms, found.values, strict=True)]
        )
    assert answers[0] == answers[1]


def test_blas_says_how_many_threads_it_has():
    pytest.importorskip("threadpoolctl")
    blas = workers_module._blas()
    assert blas.threads >= 1
    with blas.limited():
        assert blas.threads == 1


@pytest.mark.parametrize("name", ["3L-layernorm", "gpt2", "original", "llama", "bloom", "olmo2"])
def test_lengths_alone_bound_every_path(name):
    """What stands in for the sets where there is no time for them: finite, and no path exceeds it."""
    trace = run(MODELS[name]())
    terms = px.expand(trace)
    for target in (trace.logit(1), trace.direction(np.arange(trace.config.d_model) - 1.0, at="final")):
        goal = Goal.of(target, terms.graph)
        bound = goal.units(farthest(tables(terms.walk).layout, goal))
        through = [
            value
            for term, value in zip(terms, path_values(terms.walk, target), strict=True)
            if len(tuple(term.path)) > 2 or str(term.path).startswith("E ")
        ]
        assert np.max(np.abs(through)) <= bound < 1e9 * np.max(np.abs(through))


def test_a_search_without_time_for_sets_has_a_finite_bound():
    trace = run(MODELS["llama"]())
    terms, target = px.expand(px.freeze(trace)), trace.logit(1)
    found = searched(terms.walk, 3, target, terms.value(target), Budget(seconds=0.0))
    left = set(map(str, terms.paths())) - {str(term.path) for term in found}
    worst = max(
        abs(value)
        for path, value in zip(terms.paths(), terms.values(target), strict=True)
        if str(path) in left
    )
    assert not found.exact and worst <= found.bound < np.inf


def test_entries_that_are_stopped_leave_a_bound_and_go_on_later():
    """A search whose time ends in front of some block has a finite bound, and the next one starts at that block."""
    trace = run(MODELS["gpt2"]())
    terms = px.expand(trace)
    target = trace.logit(1)
    known = tables(terms.walk)
    blocks = []
    assert not known.entries_made(lambda b: blocks.append(b) or b == 2)
    stopped = Budget(seconds=0.0, started=time.perf_counter() - 1e6)
    found = searched(terms.walk, 5, target, terms.value(target), stopped)
    assert not found.exact and all(term.path[0].startswith("b_") for term in found.terms)
    listed = {term.path for term in found.terms}
    values = zip(terms.values(target), terms.paths(), strict=True)
    assert max(abs(value) for value, path in values if path not in listed) <= found.bound < np.inf
    assert known.entries_made(lambda b: blocks.append(b) or False)
    assert blocks == [1, 2, *range(2, len(terms.walk.graph.blocks) + 1)]
    fresh = px.expand(run(MODELS["gpt2"]()))
    for one, other in zip(known.entries, tables(fresh.walk).entries, strict=True):
        assert one.words == other.words and np.array_equal(one.most, other.most)


def test_entries_that_raised_are_made_anew():
    """What an exception ends halfway is not taken for whole."""
    known = tables(px.expand(run(MODELS["gpt2"]())).walk)

    def stops(b):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        known.entries_made(stops)
    _, others = known._under_way
    others.close()
    with pytest.raises(StopIteration):
        known.entries_made(lambda b: False)
    assert len(known.entries) == len(known.layout.skips) + 1 and known.entries is known.entries


def test_a_quick_bound_is_no_lower():
    for name in ("gpt2", "3L-layernorm"):
        trace = run(MODELS[name]())
        walk, goal = px.expand(trace).walk, Goal.of(trace.logit(1), px.freeze(trace))
        layout = tables(walk).layout
        assert 0 < farthest(layout, goal) <= farthest(layout, goal, quick=True) * (1 + 1e-9) < np.inf


def test_readers_that_are_orthonormal_stretch_nothing():
    """The norm of a reader with orthonormal rows is one; of one that is r times as long, r."""
    rows = np.linalg.qr(np.random.default_rng(0).standard_normal((2, 8, 3)))[0].transpose(0, 2, 1)
    assert 1.0 <= _stretch(rows) < 1 + 1e-9
    assert 1.1 <= _stretch(1.1 * rows) < 1.2


def test_what_underflows_grows_in_large_factors_alone():
    """At least LEAST, whatever the factors; more only by those above one."""

    def word(*sizes):
        factors = tuple(
            Factor(
                f"W{at}", 2, 2, Dense(np.eye(2) * by + np.eye(2)[::-1] * by / 3, Space("a", 2), Space("a", 2))
            )
            for at, by in enumerate(sizes)
        )
        return (Step((), factors),)

    def grown(operator):
        return underflow(operator) / LEAST

    for operator in ((), (Step(),), word(1e-9)):
        assert grown(operator) == pytest.approx(1.0)
    assert 1e6 < grown(word(1e6)) < 2e6
    assert grown(word(1e6, 1e-9)) == pytest.approx(grown(word(1e6))), (
        "what came before a small factor has grown already"
    )
    assert grown((Gate("g", 1, 2, np.array([[0.5, 3.0]])),)) == pytest.approx(3.0)


@pytest.mark.parametrize("scale", [1.0, 1e-6])
def test_sizes_are_no_less_than_spectral_norms_and_no_more_than_frobenius(scale):
    rng, a = np.random.default_rng(0), Space("a", 3)
    array, values = scale * rng.standard_normal((3, 3)), scale * rng.standard_normal(3)
    dense, diagonal = Dense(array, a, a), Diagonal(values, a)
    least, most = np.linalg.norm(np.abs(array), 2), np.linalg.norm(array)
    assert least <= size(dense) <= most * (1 + 1e-9)
    assert size(diagonal) == np.abs(values).max()
    assert size(Zero(a, a)) == 0.0 and size(Identity(a)) == 1.0
    assert size(0.5 * dense) == pytest.approx(size(dense) / 2)
    assert size(compose(dense, diagonal)) == pytest.approx(size(dense) * size(diagonal))
    assert size(dense + diagonal) == pytest.approx(size(dense) + size(diagonal))


@pytest.mark.parametrize(("kind", "unit"), [(np.float32, SINGLE), (np.float64, DOUBLE)])
def test_norms_of_links_are_bounded_from_above_and_nearly(kind, unit):
    """At most r^(1/8) too large: the eighth root of the sum of eighth powers of singular values."""
    links = (np.random.default_rng(0).standard_normal((3, 4, 5, 6)) / 10).astype(kind)
    links[0] *= 1e-3
    found, true = _schatten(links, unit), np.linalg.norm(links.astype(np.float64), 2, axis=(-2, -1))
    eighth = np.sum(np.linalg.svd(links.astype(np.float64), compute_uv=False) ** 8, axis=-1) ** (1 / 8)
    assert (true <= found).all() and (eighth <= found).all()
    assert (found <= eighth * (1.02 if kind is np.float32 else 1 + 1e-6)).all()


GROUPED = px.random_model(
    layers=3,
    heads=8,
    kv_heads=2,
    d_head=4,
    d_model=24,
    d_mlp=30,
    gated=True,
    d_vocab=41,
    norm="rmsnorm",
    seed=1,
)


def test_heads_that_share_values_are_turned_and_linked_once_and_bounded_alike():
    late, early = (
        heads[0] for heads in Layout(px.expand(px.freeze(run(GROUPED), mlp="source")).walk).heads[1:3]
    )
    assert late.reader.tolist() == [0, 0, 0, 0, 1, 1, 1, 1] and len(late.readers) == 2
    assert late.single[0].shape == (2 * late.width, 24)
    apart = replace(late, alike=None)
    assert len(apart.readers) == 8
    links = np.einsum("crd,ids->cirs", late.read, early.write)
    bounds = link_norms(late, early)
    assert (bounds >= np.linalg.norm(links, 2, axis=(-2, -1))).all()
    np.testing.assert_allclose(bounds, link_norms(apart, early), rtol=1e-6)
    np.testing.assert_array_equal(_turned(late.read), _turned(late.read[[0, 4]]).repeat(4, axis=0))


def _turned(read):
    """Readers made orthonormal, each by itself."""
    return np.concatenate([_orthonormal(one[None], np.zeros(1, dtype=np.int64)).read for one in read])


def test_a_search_reads_single_columns_and_rows_of_stored_tables(monkeypatch):
    expected = top_of(GROUPED)
    W_E, W_U = np.ascontiguousarray(GROUPED.weights.W_E.T), GROUPED.weights.W_U
    tables_of = {
        "W_E": StoredRows("W_E", W_E.shape, lambda begin, end: W_E[begin:end].copy()).T,
        "W_U": StoredRows("W_U", W_U.shape, lambda begin, end: W_U[begin:end].copy()),
    }
    stored = replace(GROUPED, weights=replace(GROUPED.weights, **tables_of))
    for module in (tall, factors):
        monkeypatch.setattr(module, "BLOCK", 8)
    monkeypatch.setattr(BUDGET, "limit", 0)
    monkeypatch.setattr(StoredRows, "whole", None)
    found = top_of(stored)
    assert found.exact and found.values == expected.values and found.errors == expected.errors


def test_what_a_search_makes_of_its_heads_is_kept_within_the_budget(monkeypatch):
    terms = px.expand(px.freeze(run(GROUPED), mlp="source"))
    known = Tables(terms.walk)
    late, early = known.layout.heads[2][0], known.layout.heads[1][0]
    made = {
        "single": lambda: late.single,
        "flat": lambda: late.flat,
        "link": lambda: known.link(2, 3, 0, 1, 0),
    }
    for limit in (0, 2**24):
        monkeypatch.setattr(BUDGET, "limit", limit)
        for make in made.values():
            first, second = make(), make()
            assert (first is second) == (limit > 0)
            assert all(np.array_equal(one, other) for one, other in zip(first, second, strict=True))
    links = np.einsum("rd,cds->rcs", late.read[3], early.write)
    np.testing.assert_allclose(made["link"]().reshape(links.shape), links, atol=1e-14)


def top_of(model):
    """The five largest paths toward a logit, searched with MLPs as sources."""
    trace = run(model)
    terms, target = px.expand(px.freeze(trace, mlp="source")), trace.logit(7)
    return searched(terms.walk, 5, target, terms.value(target), Budget())


def test_what_is_lost_of_nothing_asks_for_no_spectral_norm(monkeypatch):
    operator = (Step((), (Factor("W", 3, 4, Dense(np.ones((3, 4)), Space("a", 3), Space("b", 4))),)),)
    monkeypatch.setattr(sizes, "spectral", None)
    assert tight(operator, np.zeros(5)).tolist() == [0.0] * 5


def test_what_covectors_meet_is_no_less_than_exact():
    rng = np.random.default_rng(0)
    fields, sizes = rng.standard_normal((3, 4, 50)), rng.exponential(size=(4, 50))
    found = sizes_met(fields, sizes)
    for field, bound in zip(fields, found, strict=True):
        exact = sum(abs(Fraction(r)) * Fraction(s) for r, s in zip(field.flat, sizes.flat, strict=True))
        assert exact <= Fraction(bound) <= exact * (1 + Fraction(1, 10**12))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e5])
def test_points_are_held_exactly_not_nearly(scale):
    """In one dimension a set is the interval [-√P, √P], and fractions say whether it holds a point."""
    rng = np.random.default_rng(0)
    points = scale * rng.standard_normal((6, 20, 1))
    found = with_points(scale**2 * rng.exponential(size=(20, 1, 1)) / 50, points)
    for shape, here in zip(found[:, 0, 0], points[..., 0].T, strict=True):
        assert all(Fraction(point) ** 2 <= Fraction(shape) for point in here)
        assert shape <= 1.001 * max((here**2).max(), scale**2 / 5)


@pytest.mark.parametrize("power", [-20, 20])
def test_what_is_lost_of_a_heads_output_is_as_large_as_its_writer(power):
    """A power of two on the writers of a head scales what it writes of a set, and how far that may be off."""

    def images(scale):
        model = px.random_model(
            layers=2, heads=2, d_model=6, d_head=2, d_mlp=5, norm=None, positions="none", seed=3
        )
        graph = px.freeze(model.run([1, 2, 3]))
        step = graph.blocks[-2].components[0].operator[0]
        wide = replace(
            step,
            feature=(
                Factor("s", 6, 6, Dense(np.eye(6) * scale, Space("model", 6), Space("model", 6))),
                *step.feature,
            ),
        )
        changed = replace(graph.blocks[-2].components[0], operator=(wide,))
        block = replace(graph.blocks[-2], components=(changed, *graph.blocks[-2].components[1:]))
        graph = replace(graph, blocks=(*graph.blocks[:-2], block, graph.blocks[-1]))
        layout = Layout(px.expand(graph).walk)
        *_, before, _, _ = reachable_sets(layout, list(all_entries(layout, 0)))
        return next(image for _, image in before._outputs(next(iter(before.sets))))

    plain, scaled = images(1.0), images(2.0**power)
    np.testing.assert_allclose(scaled.factors, plain.factors * 2.0**power, rtol=1e-9)
    np.testing.assert_allclose(scaled.off, plain.off * 2.0**power, rtol=1e-6)
    assert (plain.off > 0).all() and (
        plain.off < 1e-9 * np.linalg.norm(plain.factors, axis=(1, 2)).max()
    ).all()


def test_gamma_is_a_little_above_its_definition():
    """γ_n = n u / (1 − n u) (Higham 2002, §3.1), in either precision; infinite where it says nothing."""
    for unit in (2.0**-53, 2.0**-24):
        for n in (10, 100, 10_000):
            exact = n * unit / (1 - n * unit)
            assert exact < gamma(n, unit) <= exact * (1 + 2.5 / n)
    assert gamma(2**23, 2.0**-24) == np.inf and gamma(0) > 0


def test_lengths_grow_by_spectral_norms_and_hardly_more():
    """Through one factor at most d^(1/8) too far, through several by the product of such bounds; never too little."""
    rng, a, b = np.random.default_rng(0), Space("a", 6), Space("b", 4)
    first, second = rng.standard_normal((4, 6)), rng.standard_normal((6, 4))
    steps = tuple(
        Step((), (Factor(name, *array.shape, Dense(array, *spaces)),))
        for name, array, spaces in (("W", second, (a, b)), ("V", first, (b, a)))
    )
    far = np.array([1.0, 2.5])
    norms = [np.linalg.norm(array, 2) for array in (first, second)]
    eighths = [np.sum(np.linalg.svd(array, compute_uv=False) ** 8) ** (1 / 8) for array in (first, second)]
    for operator, least, most in (
        (steps[1:], norms[0], eighths[0]),
        (steps, np.prod(norms), np.prod(eighths)),
    ):
        found = tight(operator, far)
        assert (found >= least * far).all() and (found <= most * far * (1 + 1e-6)).all()
