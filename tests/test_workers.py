"""How many threads BLAS has and how many workers there are, inside and after every way to limit them."""

from __future__ import annotations

import threading

import pytest
import threadpoolctl

from pathexp.workers import for_each, one_thread, own_workers


def threads():
    found = [each for each in threadpoolctl.threadpool_info() if each["user_api"] == "blas"]
    return max(each["num_threads"] for each in found)


def workers(count=8):
    """How many different threads work at once: each waits until all of them are there, or a moment."""
    seen, together = set(), threading.Barrier(2)

    def work(_):
        seen.add(threading.get_ident())
        try:
            together.wait(timeout=0.2)
        except threading.BrokenBarrierError:
            return

    for_each(work, count)
    return len(seen)


@pytest.fixture
def two_threads():
    with threadpoolctl.threadpool_limits(limits=2, user_api="blas"):
        if threads() < 2:
            pytest.skip("BLAS has one thread here")
        yield


@pytest.mark.usefixtures("two_threads")
def test_workers_of_our_own_are_as_many_as_blas_had_threads_and_blas_has_one():
    with own_workers():
        assert threads() == 1 and workers() == 2
        with one_thread():
            assert threads() == 1 and workers() == 1
        with own_workers():
            assert workers() == 2
        assert threads() == 1 and workers() == 2
    assert threads() == 2 and workers() == 2


@pytest.mark.usefixtures("two_threads")
def test_one_thread_stays_one_for_those_that_ask_for_workers_meanwhile():
    with one_thread():
        with own_workers():
            assert threads() == 1 and workers() == 1
        assert threads() == 1
    assert threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_an_error_inside_restores_the_threads():
    with pytest.raises(ZeroDivisionError), own_workers():
        _ = 1 // 0
    assert threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_a_search_leaves_threads_as_they_were():
    import pathexp as px

    trace = px.random_model(layers=8, heads=6, d_model=16, d_head=3, d_vocab=9, n_ctx=8, seed=3).run(
        [1, 2, 3]
    )
    assert px.expand(trace).top(3, trace.logit(1)).exact
    assert threads() == 2
