"""The same work on every case, here or on any executor: in the order of the cases, a bounded number at a time."""

from __future__ import annotations

import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from ...errors import PathexpError
from ...model import Model
from ...workers import one_thread, own_workers, side_by_side
from .case import Case
from .sent import ArrivedModel, SentModel
from .steps import Step

Found = TypeVar("Found")
Work: TypeAlias = Callable[[Model, Case], Found]
AHEAD = 64
"""How many cases are with the workers at a time."""


class Workers:
    """Where work is done: in this process (`executor` None) or on an executor; what is reported of it.

    `folder`: where the model is put for workers that read it, one that all of them see. Used as a context: meanwhile
    BLAS uses one thread here as it does in workers, so that no digit depends on where a case is run, with workers of our own on
    all cores, and at its end what was sent is removed.
    """

    def __init__(
        self, executor: Executor | None = None, folder: str | Path | None = None, progress: bool = False
    ) -> None:
        self.executor, self.folder, self.progress = (
            executor,
            None if folder is None else Path(folder),
            progress,
        )
        self.sent: tuple[Model, Any] | None = None
        self.meanwhile = ExitStack()

    def __enter__(self) -> Workers:
        self.meanwhile.enter_context(own_workers())
        return self

    def __exit__(self, *error: object) -> None:
        self.meanwhile.close()
        if self.sent is not None and isinstance(self.sent[1], SentModel):
            self.sent[1].close()
        self.sent = None

    def over(
        self, work: Work[Found], model: Model, cases: Sequence[Case], kept: Step[Found] | None = None,
        together: bool = False,
    ) -> Iterator[Found]:  # fmt: skip
        """Yield what work finds in every case, in their order; what is `kept` already is not done again.

        `together`: in this process, work on as many cases at a time as BLAS had threads, which not every work of others can take. What a worker that died had not brought back is done in this process, with a warning. Errors name the case.
        """
        report = _Report(len(cases), self.progress)
        there = {} if kept is None else kept.of(cases)
        for number, (case, wait) in enumerate(
            zip(cases, self._with(there, work, model, cases, together), strict=True), 1
        ):
            with naming(number, len(cases), case):
                found = wait()
                if kept is not None:
                    kept.keep(case, found)
                yield found
            report.done(number)

    def _with(
        self, kept: Mapping[int, Callable[[], Found]], work: Work[Found], model: Model, cases: Sequence[Case],
        together: bool,
    ) -> Iterator[Callable[[], Found]]:  # fmt: skip
        fresh = self._found(work, model, [case for at, case in enumerate(cases) if at not in kept], together)
        return (kept[at] if at in kept else next(fresh) for at in range(len(cases)))

    def _found(
        self, work: Work[Found], model: Model, cases: Sequence[Case], together: bool
    ) -> Iterator[Callable[[], Found]]:
        if self.executor is None and together:
            return (wait for _, wait in side_by_side(partial(work, model), cases))
        if self.executor is None:
            return (partial(work, model, case) for case in cases)
        return _Pool(self.executor, self._there(self.executor, model), work, model).over(cases)

    def _there(self, executor: Executor, model: Model) -> Any:
        """What stands for the model in tasks: with Dask its value, which each worker fetches once, else a file."""
        if self.sent is None or self.sent[0] is not model:
            client = _dask_client(executor)
            by_value = client is not None and self.folder is None
            self.sent = (
                model,
                client.scatter(model, broadcast=True, hash=False)
                if by_value
                else SentModel(model, self.folder),
            )
        return self.sent[1]


class _Pool:
    """Cases on an executor: those that are under way, and whether it still works."""

    def __init__(self, executor: Executor, there: Any, work: Work[Any], model: Model) -> None:
        self.executor, self.there, self.work, self.model = executor, there, work, model
        self.broken = False

    def over(self, cases: Sequence[Case]) -> Iterator[Callable[[], Any]]:
        """Yield for each case what waits for its result."""
        waiting: deque[tuple[Case, Future[Any] | None]] = deque()
        try:
            for case in cases:
                waiting.append((case, self._submit(case)))
                if len(waiting) >= AHEAD:
                    yield self._result(*waiting.popleft())
            while waiting:
                yield self._result(*waiting.popleft())
        finally:
            for _, future in waiting:
                if future is not None:
                    future.cancel()

    def _submit(self, case: Case) -> Future[Any] | None:
        if self.broken:
            return None
        try:
            return self.executor.submit(_done, self.there, self.work, case)
        except BrokenExecutor:
            self._broke()
            return None

    def _result(self, case: Case, future: Future[Any] | None) -> Callable[[], Any]:
        def wait() -> Any:
            if future is not None:
                try:
                    return future.result()
                except _lost():
                    self._broke()
            return self.work(self.model, case)

        return wait

    def _broke(self) -> None:
        if not self.broken:
            warnings.warn(
                "a worker died: what it had not brought back, and what follows, is done in this process",
                stacklevel=2,
            )
        self.broken = True


def _lost() -> tuple[type[BaseException], ...]:
    """What an executor raises for work whose worker died."""
    dask = sys.modules.get("distributed")
    return (BrokenExecutor, CancelledError, *((dask.KilledWorker,) if dask is not None else ()))


def _done(there: SentModel | ArrivedModel | Model, work: Work[Found], case: Case) -> Found:
    """One case in a worker."""
    with one_thread():
        return work(there if isinstance(there, Model) else there.model, case)


def _dask_client(executor: Executor) -> Any:
    """The client behind an executor of Dask; None for others."""
    dask = sys.modules.get("distributed.cfexecutor")
    return executor._client if dask is not None and isinstance(executor, dask.ClientExecutor) else None


@contextmanager
def naming(number: int, of: int, case: Case) -> Iterator[None]:
    """Name the case in the errors of what is done with it."""
    try:
        yield
    except PathexpError as error:
        raise type(error)(f"case {number} of {of:,} ({case.label}): {error}") from error


class _Report:
    """A line on stderr now and then."""

    def __init__(self, of: int, wanted: bool) -> None:
        self.of, self.wanted, self.said = of, wanted, time.monotonic()

    def done(self, number: int) -> None:
        """Say how many are done, at most once a second."""
        now = time.monotonic()
        if self.wanted and now - self.said > 1:
            self.said = now
            print(f"{number:,} of {self.of:,} cases", file=sys.stderr, flush=True)
