"""The check of a table's largest entries: accepts what is true, rejects what was changed."""

from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.algebra import Chain, Dense, Entries, Space, top_entries
from pathexp.circuits.composition.virtual_weight import largest_entries
from pathexp.expansion.proof import check_entries
from tests.zoo import FAMILIES, ZOO


@pytest.mark.parametrize("largest", ["abs", "positive", "negative"])
@pytest.mark.parametrize("name", ["2L-plain", "gpt2", "llama", "olmo2"])
def test_true_entries_are_accepted(name, largest):
    model = {**ZOO, **FAMILIES}[name]()
    norms = "raw" if model.config.norm_placement == "post" else "folded"
    found = largest_entries(model, through="L1H0", k=7, largest=largest, norms=norms)
    assert all(check.ok for check in found.check()), found.check()


def test_a_trained_table_is_accepted():
    found = largest_entries(px.load("attn-2l"), through="L0H4", k=20)
    assert all(check.ok for check in found.check())


@pytest.mark.parametrize(
    ("tampered", "fails"),
    [
        (lambda e: Entries(e.rows[1:], e.columns[1:], e.values[1:]), 1),
        (lambda e: Entries(e.rows, e.columns, e.values * (1 + 1e-9)), 0),
        (lambda e: Entries(e.rows[::-1], e.columns, e.values), 0),
        (lambda e: Entries(np.append(e.rows, e.rows[:1]), np.append(e.columns, e.columns[:1]), np.append(e.values, e.values[:1])), 0),
        (lambda e: Entries(e.rows, e.columns, np.where(np.arange(len(e.values)) == 2, np.nan, e.values)), 0),
    ],
)  # fmt: skip
def test_what_was_changed_is_rejected(tampered, fails):
    found = largest_entries(px.load("attn-1l"), through="L0H0", k=5)
    checks = replace(found, entries=tampered(found.entries)).check()
    assert not checks[fails].ok


def test_every_block_is_looked_at(monkeypatch):
    monkeypatch.setattr("pathexp.expansion.proof.table_entries.BLOCK", 3)
    rng = np.random.default_rng(0)
    table = Dense(rng.standard_normal((5, 11)), Space("out", 5), Space("in", 11))
    for k in (1, 4, 55):
        assert all(check.ok for check in check_entries(table, top_entries(table, k), "abs"))
    wrong = top_entries(table, 4)
    assert not check_entries(table, Entries(*(part[[0, 1, 3]] for part in wrong)), "abs")[1].ok


def test_entries_that_underflow_on_the_way_are_within_the_rounding_of_the_check():
    """Two tiny factors and a huge one: the table comes out as zeros, and the list, made in another order, does not."""
    side, base = Space("side", 2), np.array([[1.0, 2.0], [3.0, 5.0]])
    table = Chain([Dense(size * base, side, side) for size in (1e250, 1e-200, 1e-200)])
    true = np.linalg.matrix_power(base, 3) * 1e-150
    assert not table.dense().any()
    listed = Entries(np.array([1]), np.array([1]), true[[1], [1]])
    assert all(check.ok for check in check_entries(table, listed, "abs"))
