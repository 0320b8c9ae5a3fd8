"""Rows whose chosen entry is the largest: those of the whole table, ties told apart from rounding."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pathexp.circuits.heads import row_maxima
from pathexp.circuits.heads.row_maxima import maximum_at


def brute(table, columns, ties):
    own = table[np.arange(len(table)), columns]
    others = np.array(table)
    others[np.arange(len(table)), columns] = -np.inf
    return own >= others.max(axis=1) if ties else own > others.max(axis=1)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(0, 30), st.integers(1, 700), st.integers(1, 5), st.booleans())
def test_they_are_those_of_the_whole_table(seed, rows, width, inner, ties):
    """Of small integers, whose products are exact: many ties."""
    rng = np.random.default_rng(seed)
    left, right = rng.integers(-3, 4, (rows, inner)) * 1.0, rng.integers(-3, 4, (inner, width)) * 1.0
    columns = rng.integers(0, width, rows)
    found = maximum_at(left, right, columns, ties=ties)
    assert found.tolist() == brute(left @ right, columns, ties).tolist()


@pytest.mark.parametrize("entries", [1, 300, 2**22])
def test_in_blocks_of_any_size(entries, monkeypatch):
    monkeypatch.setattr(row_maxima, "ENTRIES", entries)
    rng = np.random.default_rng(1)
    left = rng.standard_normal((50, 8))
    right = np.concatenate(
        [left.T, rng.standard_normal((8, 9_000))], axis=1
    )  # most rows meet themselves best
    columns = np.arange(50)
    expected = brute(left @ right, columns, False)
    assert 0 < expected.sum() < 50
    assert maximum_at(left, right, columns, ties=False).tolist() == expected.tolist()


def test_the_last_column_of_all_can_win():
    left, right = np.ones((1, 1)), np.arange(20_000.0)[None]
    assert maximum_at(left, right, np.array([19_999]), ties=False).all()
    assert not maximum_at(left, right, np.array([19_998]), ties=True).any()


def test_a_tie_up_to_rounding_is_one():
    """Entries that are equal on paper, summed in another order: 0.1 + 0.2 + 0.3 and 0.3 + 0.2 + 0.1."""
    left = np.ones((1, 3))
    right = np.array([[0.1, 0.3], [0.2, 0.2], [0.3, 0.1]])
    for column in (0, 1):
        assert maximum_at(left, right, np.array([column]), ties=True).all()
        assert not maximum_at(left, right, np.array([column]), ties=False).any()


@pytest.mark.parametrize("size", [1e-300, 1.0, 1e150, 5e-324])
def test_at_extreme_sizes(size):
    left, right = np.eye(3) * size, np.array([[2.0, 1, 0], [0, 40, 1], [9, 0, 1]])
    columns = np.arange(3)
    ties = maximum_at(left, right, columns, ties=True).tolist()
    assert ties[:2] == [True, True]
    if size > 1e-307:  # less is a multiple of the least number and may be a tie
        assert ties[2] is False
        assert maximum_at(left, right, columns, ties=False).tolist() == [True, True, False]


def test_what_is_no_number_wins_nothing():
    left = np.array([[np.nan], [np.inf], [1.0]])
    right = np.array([[1.0, 0.0]])
    with np.errstate(invalid="ignore"):
        assert maximum_at(left, right, np.zeros(3, dtype=np.int64), ties=False).tolist() == [
            False,
            False,
            True,
        ]
        assert maximum_at(left, right, np.zeros(3, dtype=np.int64), ties=True).tolist() == [
            False,
            False,
            True,
        ]
