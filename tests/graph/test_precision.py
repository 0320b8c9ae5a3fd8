"""Graphs by hand whose maps keep single precision: products are in double, as every error and bound assumes."""

from __future__ import annotations

import pickle
from fractions import Fraction

import numpy as np
import pytest

import pathexp as px
from pathexp.algebra import Chain, Dense, Diagonal, Kron, Scaled, Space, Sum, in_double
from pathexp.graph import Gate, ResidualGraph, Sink, Source, Step, Values
from pathexp.graph.nodes import Block, Component
from pathexp.graph.operators import Factor
from pathexp.model import Target
from tests.expansion.exact import Oracle

N, D, R, OUT = 3, 8, 5, 4


def single(name, array, target="out", source="in"):
    rows, columns = array.shape
    return Dense(array, Space(target, rows), Space(source, columns), name, dtype=np.float32)


def numbers(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def factor(rng, name, rows, columns):
    return Factor(name, rows, columns, single(name, numbers(rng, rows, columns), f"s{rows}", f"s{columns}"))


def graph(seed=0):
    """Heads, an MLP with frozen gates and a source, all of float32."""
    rng, blocks = np.random.default_rng(seed), []
    for b in range(3):
        A = Factor(f"A{b}", N, N, single("A", np.tril(np.abs(numbers(rng, N, N))), "position", "position"))
        head = Step((A,), (factor(rng, f"W_O{b}", D, R), factor(rng, f"W_V{b}", R, D)))
        gate = Gate(f"G{b}", N, R, numbers(rng, N, R))
        neurons = (
            Step((), (factor(rng, f"W_out{b}", D, R),)),
            gate,
            Step((), (factor(rng, f"W_in{b}", R, D),)),
        )
        parts = (Component(f"L{b}H0", "head", (head,), 0), Component(f"L{b}M", "mlp", neurons, 0))
        blocks.append(Block(parts))
    source = Source("E", "embedding", Values("x", D, numbers(rng, N, D)))
    return ResidualGraph(
        N, D, OUT, (source,), tuple(blocks), Sink("U", (Step((), (factor(rng, "W_U", OUT, D),)),))
    )


def test_values_are_those_of_the_numbers_in_double_precision():
    made = graph()
    target = Target(N - 1, np.eye(OUT)[1], "logits", "a logit", float(px.expand(made).logits()[N - 1, 1]))
    terms, exact = px.expand(made), Oracle(made, target)
    values = terms.values(target)
    best = terms.top(5, target)
    assert best.exact and max(best.errors) < 1e-7 * max(map(abs, best.values))
    for term, value, error in zip(best.terms, best.values, best.errors, strict=True):
        assert abs(exact.value(tuple(term.path)) - Fraction(value)) <= error
    assert values.dtype == np.float64


def test_everything_a_graph_keeps_is_in_double():
    made = pickle.loads(pickle.dumps(graph()))
    assert made.sources[0].start.array.dtype == np.float64
    for block in made.blocks:
        (_, gate, _) = block.components[1].operator
        assert gate.numbers().dtype == np.float64
        (head,) = block.components[0].operator
        assert all(part.numbers().dense().dtype == np.float64 for part in head.position + head.feature)


def test_maps_that_are_made_later_are_raised_as_well():
    late = Factor("W", 2, 2, lambda: single("W", np.eye(2, dtype=np.float32)))
    assert late.numbers().dense().dtype == np.float64


@pytest.mark.parametrize(
    "compound",
    [
        lambda a, b: Scaled(2.0, a),
        lambda a, b: Chain((a, b)),
        lambda a, b: Sum((a, Scaled(-1.0, a))),
        lambda a, b: Kron(a, b),
        lambda a, b: Scaled(0.5, Chain((a, Sum((b, b))))),
    ],
)
def test_parts_are_raised_and_nothing_else_changes(compound):
    rng = np.random.default_rng(0)
    a, b = (single(name, numbers(rng, 3, 3), "s", "s") for name in "ab")
    map = compound(a, b)
    raised = in_double(map)
    x = rng.standard_normal((2, raised.source.size))
    assert raised.formula == map.formula and raised is not map and in_double(raised) is raised
    assert raised.apply(x.astype(np.float32)).dtype == np.float64
    np.testing.assert_allclose(raised.apply(x), map.apply(x), rtol=1e-12)


def test_double_stays_the_same_map():
    a = Dense(np.eye(2), Space("s", 2), Space("s", 2))
    for map in (
        a,
        Diagonal(np.ones(2), Space("s", 2)),
        Chain((a, a)),
        Kron(a, a),
        Sum((a, a)),
        Scaled(2.0, a),
    ):
        assert in_double(map) is map
