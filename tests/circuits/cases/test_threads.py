"""Where a case is run, how many threads BLAS has there changes no digit: it has one, and afterwards as many as before."""

import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from multiprocessing import get_context

import pytest
import threadpoolctl

import pathexp as px
from pathexp.answer import Answer, Table, columns
from pathexp.circuits.cases.edge_run import EdgeRun
from pathexp.circuits.cases.workers import Workers
from pathexp.circuits.cases.zero_point import mean_over
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


def test_circuits_of_two_cases_are_measured_side_by_side_and_the_same_as_one_after_the_other(monkeypatch):
    cases = drawn(4)
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        alone = px.faithfulness(MODEL, cases, edges=(0.5, 0.1)).to_dict()
    met, values = threading.Barrier(2), EdgeRun.values

    def together(*given):
        met.wait(timeout=30)  # the first waits until the second is measured too
        return values(*given)

    monkeypatch.setattr(EdgeRun, "values", together)
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        if threads() != 2:
            pytest.skip("BLAS has one thread here")
        assert px.faithfulness(MODEL, cases, edges=(0.5, 0.1)).to_dict() == alone
        assert threads() == 2


def test_an_error_in_a_case_beside_another_names_it():
    def broken(trace):
        raise PathexpError(f"{len(trace)} tokens are wrong") if len(trace) == 10 else ZeroDivisionError

    cases = [case.on(MODEL) for case in drawn(6)]
    place = next(at for at, case in enumerate(cases) if len(case.tokens) == 10)
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        with pytest.raises(PathexpError, match=f"case 1 of {6 - place}.*10 tokens are wrong"):
            mean_over(broken, MODEL, cases[place:], Workers())
        assert threads() == 2
