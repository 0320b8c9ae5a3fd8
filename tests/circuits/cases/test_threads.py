"""Where a case is run, how many threads BLAS has there changes no digit: it has one, and afterwards as many as before."""

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from multiprocessing import get_context

import pytest
import threadpoolctl

import pathexp as px
from pathexp.answer import Answer, Table, columns
from pathexp.errors import PathexpError
from pathexp.workers import one_thread
from tests.circuits.cases.test_average import MODEL, drawn, refused


def threads():
    """How many threads the BLAS of numpy has; another package may have brought one of its own."""
    found = [each for each in threadpoolctl.threadpool_info() if each["user_api"] == "blas"]
    return max(each["num_threads"] for each in found if "numpy" in each["filepath"])


@dataclass(frozen=True, eq=False, repr=False)
class Threads(Answer):
    """An answer of one row: the threads of BLAS where it was asked."""

    number: int

    def headline(self):
        return f"{self.number} threads"

    def parts(self):
        head = (columns.text("name"), columns.number("threads"))
        yield Table(head, [("blas", self.number)], key=("name",), value="threads")


def asked(trace):
    return Threads(threads())


def processes():
    return ProcessPoolExecutor(2, mp_context=get_context("spawn"))


@pytest.mark.parametrize("executor", [nullcontext, lambda: ThreadPoolExecutor(3), processes])
def test_a_case_is_run_with_one_thread_of_blas(executor):
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        if threads() != 2:
            pytest.skip("BLAS has one thread here")
        with executor() as pool:
            found = px.average(asked, MODEL, drawn(12), executor=pool)
        assert found.records()[0]["mean"] == 1.0 and found.records()[0]["error"] == 0.0
        assert threads() == 2


def test_it_lasts_until_the_last_is_done():
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = threads()
        first, second = one_thread(), one_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert threads() == 1
        second.__exit__(None, None, None)
        assert threads() == before
        with pytest.raises(ZeroDivisionError), one_thread():
            assert 1 // 0
        assert threads() == before


def test_a_case_that_is_refused_leaves_them_as_they_were():
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = threads()
        with pytest.raises(PathexpError, match="ten tokens"):
            px.average(refused, MODEL, drawn(12))
        assert threads() == before
