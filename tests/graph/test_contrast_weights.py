"""A contrast holds what two runs made, and of the weights nothing: large models are read a layer at a time."""

from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.graph.operators import Parallel, Step
from pathexp.graph.tall import BLOCK
from pathexp.model import Weights


def factors(operator):
    for part in operator:
        if isinstance(part, Step):
            yield from part.position + part.feature
        if isinstance(part, Parallel):
            for term in part.terms:
                yield from factors(term)


def of_weights(graph):
    """Every factor of a contrast that is a matrix of the weights."""
    operators = [component.operator for component in graph.components()]
    operators += [graph.sink.operator, *(source.write for source in graph.sources)]
    return [factor for operator in operators for factor in factors(operator) if factor.name.startswith("W_")]


@pytest.fixture(scope="module")
def model():
    return px.random_model(
        layers=2,
        heads=4,
        kv_heads=2,
        d_head=5,
        d_mlp=9,
        gated=True,
        norm="rmsnorm",
        d_vocab=BLOCK + 7,
        seed=3,
    )


def changed(model):
    arrays = {name: np.array(array) * 1.01 for name, array in model.weights.arrays().items()}
    return replace(model, weights=Weights(**arrays))


@pytest.mark.parametrize("two_models", [False, True])
def test_no_matrix_is_made_before_it_is_used(model, two_models):
    other = changed(model) if two_models else model
    graph = px.contrast(model.run([1, 2, BLOCK + 3]), other.run([1, 5, BLOCK + 4]))
    found = of_weights(graph)
    assert {"W_in_L0", "W_gate_L1", "W_out_L1", "W_O_L0H3", "W_OV_L1H2", "W_U"} <= {
        each.name for each in found
    }
    assert all(callable(factor.map) for factor in found)
    assert px.expand(graph).verify().ok
    assert all(callable(factor.map) for factor in found)


@pytest.mark.parametrize("two_models", [False, True])
def test_blocks_of_rows_and_picked_columns_are_those_of_the_whole(model, two_models):
    other = changed(model) if two_models else model
    graph = px.contrast(model.run([1, 2]), other.run([1, BLOCK + 4]))
    (table,) = (factor for factor in factors(graph.sink.operator) if factor.name == "W_U")
    rows = np.concatenate([table.tall.rows(0, BLOCK), table.tall.rows(BLOCK, BLOCK + 7)])
    np.testing.assert_array_equal(rows, table.numbers().array)
    for source in graph.sources:
        for factor in factors(source.write):
            if factor.name == "W_E":
                tokens = np.array([3, BLOCK + 2, 3])
                np.testing.assert_array_equal(factor.picked(tokens), factor.numbers().array[:, tokens].T)
