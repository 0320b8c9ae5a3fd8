"""Searches that once claimed a proof with the largest paths missing: each against brute force over all paths."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.errors import PathexpError
from pathexp.expansion.ranking import searched
from pathexp.expansion.search import Budget, Valued
from pathexp.expansion.search import certified as certified_module
from pathexp.expansion.values import path_values
from pathexp.model import Model


def changed(model, **arrays):
    return Model(model.config, replace(model.weights, **arrays))


def proven(trace, target, k):
    """A search that must be proven, with the values of all paths from the largest down."""
    terms = px.expand(trace)
    found = searched(terms.walk, k, target, terms.value(target), Budget())
    every = dict(zip(map(str, terms.paths()), path_values(terms.walk, target).tolist(), strict=True))
    assert found.exact
    assert len(found.terms) == k
    listed = {str(term.path) for term in found.terms}
    left = max(abs(value) for path, value in every.items() if path not in listed)
    assert left <= found.bound
    assert found.bound <= min(map(abs, found.values)) + found.margin
    largest = np.sort(np.abs([*every.values()]))[::-1][:k]
    np.testing.assert_allclose(np.abs(found.values), largest, rtol=1e-6, atol=0)
    return found


def test_sharp_attention():
    """Attention of 1e-154 and less makes covectors whose squares underflow."""
    model = px.random_model(
        layers=6, heads=3, d_model=16, d_head=4, d_mlp=12, d_vocab=11, positions="none", seed=1
    )
    trace = changed(model, W_Q=model.weights.W_Q * 60).run([1, 2, 3, 4, 5, 6])
    found = proven(trace, trace.logit(3), 300)
    assert "E L3H1 L3M L4H1 U" in {str(term.path) for term in found.terms}
    assert found.margin < 1e-9


@pytest.mark.parametrize(("large", "read"), [(2.0**30, 0.5), (1.0, 1.0)])
def test_a_writer_and_a_reader_that_nearly_cancel(large, read):
    """The link between the two is zero in single precision, and the largest of 531,441 paths goes over it."""
    layers, heads = 6, 8
    model = px.random_model(
        layers=layers, heads=heads, d_model=4, d_head=1, d_vocab=4, norm=None, positions="none", seed=0
    )
    rng = np.random.default_rng(0)
    W_O, W_V = (0.01 * rng.standard_normal(np.shape(w)) for w in (model.weights.W_O, model.weights.W_V))
    W_O[..., 0, 0] = W_O[..., 1, 0] = 0.0
    W_V[..., 0, 0] = W_V[..., 0, 1] = 0.0
    W_O[0, 0, :, 0] = large * np.array([1, -(1 - 2.0**-28), 0, 0])
    W_V[0, 0, 0] = [0, 0, 0, 1]
    W_O[1, 0, :, 0] = [0, 0, 1, 0]
    W_V[1, 0, 0] = [read, read, 0, 0]
    W_E, W_U = np.zeros((4, 4)), np.zeros((4, 4))
    W_E[3], W_U[0, 2] = 1.0, 1.0
    trace = changed(model, W_O=W_O, W_V=W_V, W_E=W_E, W_U=W_U).run([1, 2, 3])
    target = trace.logit(0)
    found = proven(trace, target, 3)
    through = {str(term.path): value for term, value in zip(found.terms, found.values, strict=True)}
    if large > 1:
        assert str(found.terms[0].path) == "E L0H0 L1H0 U"
        assert abs(through["E L0H0 L1H0 U"] - 2.0) < 1e-6


@pytest.mark.parametrize(("size", "k"), [(1e10, 10), (1e-11, 60)])
def test_a_list_scales_with_the_weights(size, k):
    model = px.random_model(
        layers=6, heads=8, d_model=8, d_head=2, d_vocab=6, norm=None, positions="none", seed=0
    )
    weights = model.weights
    trace = changed(model, W_O=weights.W_O * size, W_V=weights.W_V * size).run([1, 2, 3])
    proven(trace, trace.logit(3), k)


def test_fewer_terms_than_asked_for_are_no_proof(monkeypatch):
    """Whatever a search says of itself: `exact` with fewer than min(k, count) terms is impossible."""
    trace = px.random_model(layers=3, heads=2, seed=1).run([1, 2, 3])
    terms, target = px.expand(trace), trace.logit(1)

    def short(walk, k, target, budget, known):
        found = certified_module.search(walk, k, target, budget, known)
        return replace(found, paths=found.paths[:2])

    monkeypatch.setattr("pathexp.expansion.ranking.search", short)
    assert not searched(terms.walk, 5, target, terms.value(target), Budget()).exact


def test_a_path_that_one_sweep_finds_and_the_next_one_loses_is_an_error(monkeypatch):
    trace = px.random_model(layers=3, heads=2, seed=1).run([1, 2, 3])
    whole = certified_module._sweep

    def forgetful(known, bounds, k, goal, budget, floor, width):
        sweep = whole(known, bounds, k, goal, budget, floor, width)
        if width is None:
            listed = sweep.best.words()[1:]
            monkeypatch.setattr(type(sweep.best), "words", lambda self: listed)
        return sweep

    monkeypatch.setattr(certified_module, "_sweep", forgetful)
    with pytest.raises(PathexpError, match="contradicts itself"):
        certified_module.search(px.expand(trace).walk, 4, trace.logit(1), Budget())


def test_the_better_of_two_bounds_holds_for_what_neither_found():
    one = certified_module.Found([Valued(3.0, ("a",), 0.1), Valued(2.0, ("b",), 0.0)], 5, False, 1.5)
    two = certified_module.Found([Valued(3.0, ("a",), 0.1), Valued(-2.5, ("c",), 0.2)], 7, True, 2.2)
    both = certified_module._joined(2, two, one)
    assert [path.word for path in both.paths] == [("a",), ("c",)]
    assert (both.bound, both.examined, both.exact) == (2.0, 12, True)
