"""Symbols that are taken, repeated eigenvalues, norms without variance, queries without end."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.algebra import Dense, Space, eigenvectors
from pathexp.errors import GraphError, QueryError, WeightsError
from pathexp.graph import machine
from pathexp.model import Model


@pytest.mark.parametrize("label", ["OV_L0H0", "pos", "U", "E"])
def test_a_label_whose_symbol_is_taken_is_refused(label):
    graph = px.freeze(px.random_model(layers=1, heads=2, seed=0).run([1, 2, 3]))
    with pytest.raises(GraphError, match="label"):
        graph.with_component(label, np.eye(graph.sizes[1]))


def test_a_source_whose_symbol_is_taken_is_refused():
    graph = px.freeze(px.random_model(layers=1, heads=1, seed=0).run([1, 2, 3]))
    first = graph.with_source("steer", np.ones(graph.sizes[1]))
    with pytest.raises(GraphError, match=r"W_steer|x_steer|label"):
        first.with_source("steer", np.ones(graph.sizes[1]))


def test_formulas_with_free_labels_are_the_arrays():
    graph = px.ResidualGraph.by_hand(positions=2, d_model=2, unembedding=np.eye(2))
    graph = graph.with_source("x", [[1.0, 2.0], [3.0, 4.0]])
    pattern, weight = np.array([[1.0, 0.0], [0.25, 0.75]]), np.array([[0.0, 2.0], [1.0, 3.0]])
    graph = graph.with_component("a", weight, pattern).with_component("b", 2 * weight, pattern="a")
    terms = px.expand(graph)
    term = terms["x a U"]
    found = px.expansion.evaluate(term.expr, terms.arrays())
    np.testing.assert_allclose(found, np.kron(pattern, weight))
    assert graph.with_component("c", weight).by_label["c"].label == "c"


@pytest.mark.parametrize("array", [[[2, 1, 1], [1, 2, 1], [1, 1, 2]], np.eye(4), np.diag([1.0, -3.0, 1.0])])
def test_eigenvectors_of_symmetric_maps_are_real_and_orthonormal(array):
    array = np.array(array, dtype=float)
    space = Space("model", len(array))
    values, right = eigenvectors(Dense(array, space, space))
    assert not right.imag.any() and not values.imag.any()
    np.testing.assert_allclose(right.T @ right, np.eye(len(values)), atol=1e-12)
    np.testing.assert_allclose(array @ right, right * values, atol=1e-12)
    assert np.all(np.diff(np.abs(values)) <= 1e-12)


def test_a_stream_without_variance_is_named_where_a_norm_has_no_eps():
    model = px.random_model(layers=1, heads=1, norm="layernorm", positions="none", seed=0)
    flat = Model(
        replace(model.config, norm_eps=0.0),
        replace(model.weights, W_E=np.ones_like(model.weights.W_E)),
    )
    with pytest.raises(WeightsError, match="variance, which is zero at"):
        flat.run([1, 2, 3])


@pytest.mark.parametrize("text", ["E " + ".? " * 1000 + "U", "~(E .* L0H0 " + ". " * 14 + "U) & E .* U"])
def test_queries_are_compiled_within_bounds_or_refused(text, monkeypatch):
    """However it is written, a query takes a bounded number of steps to compile."""
    monkeypatch.setattr(machine, "MAX_WORK", 200_000)
    graph = px.ResidualGraph.attention_only(2, 2)
    with pytest.raises(QueryError, match="steps to make"):
        px.expand(graph).where(text).count()


def test_json_of_a_head_that_writes_nothing_holds_null():
    model = px.random_model(layers=2, heads=2, seed=0)
    W_V = np.array(model.weights.W_V)
    W_V[0, 0] = 0.0
    text = px.overlap(Model(model.config, replace(model.weights, W_V=W_V))).to_json()
    assert "NaN" not in text and json.loads(text)
