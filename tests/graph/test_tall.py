"""Unembeddings of very many rows: multiplied by blocks, never whole, with the results of one matrix."""

from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.graph import factors, tall
from pathexp.graph.tall import Tall
from pathexp.model.stored import StoredRows

SHAPE = {
    "layers": 2, "heads": 4, "kv_heads": 2, "d_head": 3, "d_model": 14, "d_mlp": 20, "gated": True, "d_vocab": 41,
    "biases": True, "positions": "rotary",
}  # fmt: skip
SHAPE |= {"d_head": 4}
MODELS = {
    "rmsnorm": px.random_model(**SHAPE, norm="rmsnorm", seed=1),
    "layernorm": px.random_model(**SHAPE, norm="layernorm", seed=2),
    "multiplied": px.random_model(**SHAPE, norm="rmsnorm", seed=3),
    "capped": px.random_model(**SHAPE, norm="rmsnorm", logit_cap=5.0, seed=4),
}
multiplied = MODELS["multiplied"]
MODELS["multiplied"] = replace(multiplied, config=replace(multiplied.config, logit_multiplier=0.25))
ASKED = {
    "verify": lambda run, target: px.expand(run).verify(),
    "tree": lambda run, target: px.tree(run, target, nodes=9),
    "flow": lambda run, target: px.flow(run, target),
    "lens": lambda run, target: px.lens(run, target),
    "attribution": lambda run, target: px.attribution(run, target),
    "list": lambda run, target: px.expand(run).top(5, target),
    "terms": lambda run, target: px.expand(run)["E L0H1 L1H2 U"].logits(),
}


@pytest.fixture
def blocks(monkeypatch):
    """Tables of more than eight rows count as very tall."""
    for module in (tall, factors):
        monkeypatch.setattr(module, "BLOCK", 8)


def asked(model, name):
    run = model.run([3, 1, 4, 1, 5])
    found = ASKED[name](run, run.logit_difference(7, 40))
    return found if isinstance(found, np.ndarray) else str(found)


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_blocks_give_what_the_whole_gives(model, name, monkeypatch):
    whole = asked(model, name)
    for module in (tall, factors):
        monkeypatch.setattr(module, "BLOCK", 8)
    found = asked(replace(model), name)
    if isinstance(whole, np.ndarray):
        np.testing.assert_allclose(found, whole, rtol=0, atol=1e-13 * np.abs(whole).max())
    else:
        assert without_errors(found) == without_errors(whole)


def without_errors(text):
    """Lines that tell no rounding error of this run."""
    return [line for line in text.splitlines() if "e-1" not in line]


@pytest.mark.parametrize("name", ["verify", "tree", "flow", "lens", "attribution", "list"])
def test_a_stored_table_is_never_whole(name, blocks, monkeypatch):
    model = MODELS["rmsnorm"]
    W_U = model.weights.W_U
    stored = StoredRows("W_U", W_U.shape, lambda begin, end: W_U[begin:end].copy())
    there = replace(model, weights=replace(model.weights, W_U=stored))
    expected, before = asked(model, name), px.memory_budget().limit
    monkeypatch.setattr(StoredRows, "whole", None)
    try:
        px.memory_budget(0)
        assert asked(there, name) == expected
    finally:
        px.memory_budget(before)


def test_a_target_reads_the_rows_it_counts_and_no_others(blocks):
    table, read = np.random.default_rng(1).standard_normal((41, 5)), []

    def rows(begin, end):
        read.append((begin, end))
        return table[begin:end]

    made = Tall("W_U", 41, rows)
    target = np.zeros((2, 41))
    target[1, [9, 12, 40]] = 1.0, -2.0, 3.0
    np.testing.assert_allclose(made.pull(target), target @ table, rtol=1e-14, atol=1e-14)
    assert read == [(9, 13), (40, 41)]
    x = np.random.default_rng(2).standard_normal((3, 2, 5))
    np.testing.assert_allclose(made.push(x), x @ table.T, rtol=1e-14, atol=1e-14)
    np.testing.assert_array_equal(made.pull(np.zeros((2, 41))), np.zeros((2, 5)))


def test_what_overflows_in_blocks_is_said(blocks):
    made = Tall("W_U", 9, lambda begin, end: np.full((end - begin, 2), 1e200))
    with pytest.raises(px.errors.PathexpError, match="W_U"):
        made.push(np.full((1, 2), 1e200))
