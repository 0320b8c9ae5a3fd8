"""Numbers of paths by order, packed into one number a state, against lists of numbers order by order."""

from __future__ import annotations

import numpy as np
import pytest

from pathexp.graph.counts import Counts, completions


def listed(steps: list[np.ndarray], finishing: list[bool]) -> list[list[Counts]]:
    """The same ways with one list of numbers a state, added order by order."""
    tables: list[list[list[int]]] = [[[1] if ends else [] for ends in finishing]]
    for block in reversed(steps):
        after, before = tables[0], []
        for state, row in enumerate(block.tolist()):
            total = list(after[state])
            for ways in ([0, *after[reached]] for reached in row if reached >= 0):
                total = [
                    (total[k] if k < len(total) else 0) + (ways[k] if k < len(ways) else 0)
                    for k in range(max(len(total), len(ways)))
                ]
            before.append(total)
        tables.insert(0, before)
    return [[_without_zeros_at_the_end(ways) for ways in table] for table in tables]


def _without_zeros_at_the_end(ways: list[int]) -> Counts:
    while ways and not ways[-1]:
        ways = ways[:-1]
    return tuple(ways)


@pytest.mark.parametrize("seed", range(30))
def test_ways_are_those_counted_order_by_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    states = int(rng.integers(1, 6))
    steps = [
        rng.integers(-1, states, (states, int(rng.integers(1, 10)))) for _ in range(int(rng.integers(0, 40)))
    ]
    finishing = rng.random(states) < 0.5
    found, expected = completions(steps, finishing.tolist()), listed(steps, finishing.tolist())
    assert len(found) == len(expected)
    for depth, table in enumerate(expected):
        for state, ways in enumerate(table):
            assert found.by_order(depth, state) == ways
            assert found.leads(depth, state) == any(ways)
            assert found.amount(depth, state) == sum(ways)


def test_no_digit_overflows_where_every_path_is_accepted() -> None:
    steps = [np.zeros((1, 255), dtype=np.int64)] * 64
    found = completions(steps, [True]).by_order(0, 0)
    assert sum(found) == 256**64 and found[0] == 1 and found[1] == 255 * 64
