"""The budget of bytes: what is kept, what is let go, what belongs to nobody any more."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pathexp.budget import Budget, bytes_of, memory_budget, memory_of
from pathexp.errors import PathexpError


class Owner:
    """Somebody that values belong to."""


def test_the_least_recently_used_goes_first() -> None:
    budget, owner, made = Budget(100), Owner(), []

    def make(key: str) -> np.ndarray:
        made.append(key)
        return np.zeros(5)  # 40 bytes

    for key in "abacab":
        budget.get(owner, key, lambda key=key: make(key))
    assert made == ["a", "b", "c", "b"]  # "a" was used between, so "b" went


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), st.integers(0, 12)), max_size=40))
def test_never_over_the_limit_and_always_the_value_asked_for(steps: list[tuple[int, int, int]]) -> None:
    budget, owners = Budget(160), [Owner(), Owner(), Owner()]
    sizes: dict[tuple[int, int], int] = {}
    for who, key, size in steps:
        size = sizes.setdefault((who, key), size)
        found = budget.get(
            owners[who], key, lambda who=who, key=key, size=size: np.full(size, 10 * who + key)
        )
        assert len(found) == size
        assert (found == 10 * who + key).all()
        held = {array: amount for value, _ in budget._kept.values() for array, amount in memory_of(value)}
        assert budget._total == sum(held.values()) <= 160


def test_shared_memory_counts_once() -> None:
    budget, owner, whole = Budget(1000), Owner(), np.zeros(10)
    for key, value in enumerate((whole, whole[:5], (whole.T, whole[2:]))):
        budget.get(owner, key, lambda value=value: value)
    assert "80 bytes" in repr(budget)
    budget.get(owner, "large", lambda: np.zeros(125))
    assert "1,000 bytes of 1,000 kept in 1 values" in repr(budget)


def test_owners_that_are_gone_take_their_values_along() -> None:
    budget, owner, other = Budget(1000), Owner(), Owner()
    for each in (owner, other):
        budget.get(each, "x", lambda: np.zeros(10))
    del owner
    gc.collect()
    assert repr(budget) == "80 bytes of 1,000 kept in 1 values"


@pytest.mark.parametrize("ask", ["get", "find"])
def test_who_comes_to_the_place_of_one_that_is_gone_finds_nothing_of_it(ask: str) -> None:
    """Owners go while the lock is held, as when the collector runs there; addresses are used again at once."""
    budget, owner = Budget(1000), Owner()
    place = id(owner)
    budget.get(owner, "x", lambda: np.zeros(3))
    with budget._lock:
        del owner
    crowd = [Owner() for _ in range(1000)]
    following = next((each for each in crowd if id(each) == place), None)
    if following is None:
        pytest.skip("the address was not used again")
    assert ask == "get" or budget.find(following, "x") is None
    assert budget.get(following, "x", lambda: np.ones(3)).tolist() == [1, 1, 1]
    assert repr(budget) == "24 bytes of 1,000 kept in 1 values"


def test_what_is_larger_than_the_budget_is_not_kept() -> None:
    budget, owner = Budget(10), Owner()
    assert len(budget.get(owner, "x", lambda: np.zeros(10))) == 10
    assert "kept in 0 values" in repr(budget)


@pytest.mark.parametrize("size", ["", "much", "-1", "nan", "1e999", "3 TBs", True, float("inf")])
def test_sizes_that_are_none_are_refused(size: object) -> None:
    with pytest.raises(PathexpError, match="memory: expected a number of bytes such as 3000000000"):
        bytes_of(size)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [1e16, "1e+16", "1E16", np.float64(1e16), 10**16])
def test_sizes_may_be_written_as_python_writes_them(size: float | str) -> None:
    assert bytes_of(size) == 10**16


def test_a_smaller_budget_lets_go_at_once() -> None:
    before = memory_budget().limit
    try:
        assert memory_budget(0).kept == 0
    finally:
        memory_budget(before)


def test_the_environment_sets_it() -> None:
    told = "import pathexp.budget as b; print(b.memory_budget().limit)"
    found = subprocess.run([sys.executable, "-c", told], env={**os.environ, "PATHEXP_MEMORY": "5MB"},
                           capture_output=True, text=True, check=True)  # fmt: skip
    assert found.stdout == "5000000\n"


def test_arrays_that_pass_leave_room_for_what_stays():
    """Of values that refer to large arrays that pass few are kept, whoever refers to them; all others stay."""
    budget, owner = Budget(16 * 8 * 200), Owner()
    stays = budget.get(owner, "stays", lambda: np.ones(400))
    arrays = [np.ones(100) for _ in range(5)]
    for at, array in enumerate(arrays):
        budget.get(owner, at, lambda array=array: array, passing=True)
        budget.get(owner, ("part", at), lambda array=array: (array[3:], np.ones(2)))
    kept = [at for at in range(5) if budget.find(owner, at) is not None]
    assert kept == [3, 4] == [at for at in range(5) if budget.find(owner, ("part", at)) is not None]
    assert budget.find(owner, "stays") is stays


def test_one_array_that_passes_is_kept_however_small_the_share():
    budget, owner = Budget(8 * 250), Owner()
    for at in range(3):
        budget.get(owner, at, lambda: np.ones(100), passing=True)
        assert [budget.find(owner, each) is not None for each in range(at + 1)] == [False] * at + [True]


def test_what_another_thread_makes_is_waited_for_and_other_values_are_made_meanwhile() -> None:
    budget, owner, made = Budget(1000), Owner(), []
    both, other = threading.Barrier(2), threading.Event()

    def make(key: str) -> np.ndarray:
        made.append(key)
        if key == "a":
            assert other.wait(timeout=30), "b is made while a is"
        other.set()
        return np.ones(3)

    def ask(keys: str) -> list[np.ndarray]:
        both.wait(timeout=30)
        return [budget.get(owner, key, lambda key=key: make(key)) for key in keys]

    budget.get(owner, "c", lambda: make("c"))
    other.clear()
    with ThreadPoolExecutor(2) as pool:
        (first, *_), (_, second) = pool.map(ask, ("ab", "ba"))
    assert sorted(made) == ["a", "b", "c"] and first is second


def test_a_value_that_could_not_be_made_can_be_asked_for_again() -> None:
    budget, owner = Budget(1000), Owner()
    with pytest.raises(ZeroDivisionError):
        budget.get(owner, "a", lambda: 1 // 0)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(budget.get, owner, "a", lambda: 7).result(timeout=30) == 7
    assert budget.get(owner, "b", lambda: budget.get(owner, "c", lambda: 1) + 1) == 2
