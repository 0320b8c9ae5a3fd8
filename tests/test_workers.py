"""How many threads BLAS has and how many workers there are, inside and after every way to limit them."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
import threadpoolctl

from pathexp import cli
from pathexp.cli.table import TABLE
from pathexp.workers import SMALL, for_each, in_turn, one_thread, own_workers, side_by_side, small_products


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


@pytest.mark.usefixtures("two_threads")
def test_items_are_worked_on_side_by_side_and_come_in_order():
    met = threading.Barrier(2)

    def work(item):
        met.wait(timeout=30)  # the first waits until the second is worked on too
        return threads(), item**2

    assert list(in_turn(work, range(6))) == [(item, (1, item**2)) for item in range(6)]
    assert threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_what_is_closed_or_raises_leaves_blas_as_it_was():
    begun = []

    def work(item):
        begun.append(item)
        if item == 3:
            raise ValueError("three")
        return item

    every = in_turn(work, range(100))
    assert next(every) == (0, 0)
    every.close()
    assert threads() == 2 and len(begun) <= 3, "no more was begun than there are workers, and one"
    with pytest.raises(ValueError, match="three"):
        list(in_turn(work, range(2, 100)))
    assert threads() == 2 and max(begun) <= 4


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(("multiplications", "blas"), [(0, 1), (SMALL, 1), (SMALL + 1, 2), (float("inf"), 2)])
def test_small_products_leave_blas_one_thread_and_large_ones_all(multiplications, blas):
    with small_products(multiplications):
        assert threads() == blas and workers() == 2
    assert threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_a_command_about_a_short_run_multiplies_on_one_thread_and_one_about_a_model_on_all(
    monkeypatch, capsys
):
    seen = {}
    for name, words in {"entropy": ["attn-1l", "To be"], "composition": ["attn-2l"]}.items():
        ask = TABLE[name].ask

        def asked(*given, name=name, ask=ask, **options):
            seen[name] = threads()
            return ask(*given, **options)

        table = {**TABLE, name: replace(TABLE[name], ask=asked)}
        monkeypatch.setattr(cli, "TABLE", table)
        assert cli.main([name, *words]) == 0
    assert seen == {"entropy": 1, "composition": 2}


@pytest.mark.usefixtures("two_threads")
def test_an_error_comes_where_its_item_is_waited_for():
    every = side_by_side(lambda item: 1 // item, [1, 0, 1])
    waits = [wait for _, wait in every]
    assert waits[0]() == waits[2]() == 1 and threads() == 2
    with pytest.raises(ZeroDivisionError):
        waits[1]()
