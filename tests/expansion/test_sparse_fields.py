"""Fields that are zero at most positions meet rows as all do."""

from __future__ import annotations

import numpy as np
import pytest

import pathexp as px
from pathexp.expansion.tree.ladder import products
from pathexp.graph import mixing

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("filled", [(), (3,), (0, 8, 2), tuple(range(9))])
@pytest.mark.parametrize("others", [(), (5,), tuple(range(9))])
def test_products_are_those_of_all_numbers(filled, others, monkeypatch):
    monkeypatch.setattr(mixing, "ROWS", 4)
    fields, rows = np.zeros((3, 9, 5)), RNG.standard_normal((7, 45))
    fields[0, list(filled)] = RNG.standard_normal((len(filled), 5))
    fields[2, list(others)] = RNG.standard_normal((len(others), 5))
    np.testing.assert_allclose(products(fields, rows), fields.reshape(3, 45) @ rows.T, rtol=0, atol=1e-14)


@pytest.mark.parametrize("direction", ["back", "forward"])
def test_trees_do_not_depend_on_it(direction, monkeypatch):
    model = px.random_model(layers=2, heads=3, d_mlp=12, norm="rmsnorm", biases=True, seed=4)
    trace = model.run(RNG.integers(0, model.config.d_vocab, 12))

    def grown():
        tree = px.expand(trace).tree(trace.logit(5), nodes=12, direction=direction)
        return np.concatenate([opening.values for opening in tree.growth.openings])

    whole = grown()
    monkeypatch.setattr(mixing, "ROWS", 4)
    np.testing.assert_allclose(grown(), whole, rtol=0, atol=1e-12)
