"""Memory that arrays let go is taken over by others as large, never while anything refers to it."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from pathexp.budget import BUDGET, BUFFERS, memory_budget
from pathexp.buffers import LEAST, Buffers

SIZE = LEAST // 8


def address(array):
    return array.__array_interface__["data"][0]


def test_an_array_takes_over_what_another_let_go():
    buffers = Buffers(lambda: LEAST)
    first = buffers.array((SIZE,))
    place = address(first)
    del first
    assert address(buffers.array((2, SIZE // 2))) == place


@pytest.mark.parametrize(
    "cut", [lambda a: a[1:], lambda a: a.T, lambda a: a.reshape(-1)[::3], memoryview, lambda a: a[3:][4]]
)
def test_what_is_referred_to_is_not_taken_over(cut):
    buffers = Buffers(lambda: 4 * LEAST)
    whole = buffers.array((512, SIZE // 512))
    whole.fill(1.0)
    part = cut(whole)
    del whole
    others = [buffers.array((SIZE,)) for _ in range(3)]
    for other in others:
        other.fill(2.0)
    assert (np.asarray(part) == 1.0).all() and buffers.spare == 0
    del part
    assert buffers.spare == LEAST


def test_no_more_is_kept_than_the_limit():
    limit = [3 * LEAST]
    buffers = Buffers(lambda: limit[0])
    arrays = [buffers.array((SIZE,)) for _ in range(5)]
    arrays.clear()
    assert buffers.spare == 3 * LEAST
    limit[0] = LEAST
    buffers.trim()
    assert buffers.spare == LEAST
    limit[0] = 0
    buffers.trim()
    assert buffers.spare == 0


def test_small_arrays_are_not_kept():
    buffers = Buffers(lambda: 2**30)
    array = buffers.array((SIZE - 1,))
    assert array.shape == (SIZE - 1,)
    del array
    assert buffers.spare == 0


def test_many_threads_never_share_memory():
    buffers = Buffers(lambda: 8 * LEAST)

    def use(seed):
        for turn in range(20):
            array = buffers.array((SIZE,))
            array.fill(seed * 100 + turn)
            if not (array == seed * 100 + turn).all():
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(use, range(4)))


def test_a_smaller_budget_gives_spare_memory_back():
    before = BUDGET.limit
    try:
        memory_budget(8 * LEAST)
        arrays = [BUFFERS.array((SIZE,)) for _ in range(4)]
        arrays.clear()
        assert 0 < BUFFERS.spare <= 2 * LEAST
        memory_budget(0)
        assert BUFFERS.spare == 0
    finally:
        memory_budget(before)
