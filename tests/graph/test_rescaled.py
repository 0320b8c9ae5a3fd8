"""The sizes of weights, which decide whether any is extreme."""

import numpy as np
import pytest

from pathexp.budget import BUDGET
from pathexp.graph.rescaled import _exponents
from pathexp.model.stored import BLOCK, StoredRows


@pytest.mark.parametrize("columns", [False, True])
def test_a_table_of_many_tokens_is_sized_without_being_raised_whole(columns, monkeypatch):
    monkeypatch.setattr(BUDGET, "limit", 2 * 8 * BLOCK)  # the whole table would take more than half
    numbers = np.random.default_rng(0).standard_normal((BLOCK + 9, 2))
    numbers[BLOCK + 3, 1] = -77.0
    asked = []

    def read(begin, end):
        asked.append(end - begin)
        return numbers[begin:end]

    table = StoredRows("W_U", numbers.shape, read)
    assert _exponents(table.T if columns else table, 2).tolist() == [[7]]
    assert asked == [BLOCK, 9]
