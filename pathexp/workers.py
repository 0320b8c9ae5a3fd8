"""Work in pieces that fit the cache: on all cores, if BLAS can be told to use one each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import cache, partial
from threading import Lock
from typing import Any, TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")


def for_each(work: Callable[[int], None], count: int) -> None:
    """Call `work` with every number below `count`, in any order.

    With threadpoolctl there are as many workers as BLAS has threads, and BLAS uses one in each of
    them; small factorizations gain from that what they do not gain from threads of BLAS. Without, one after the other.
    """
    blas = _blas()
    workers = min(count, blas.workers) if blas else 1
    if blas is None or workers < 2:
        for at in range(count):
            work(at)
        return
    with blas.limited(), ThreadPoolExecutor(workers) as pool:
        for _ in pool.map(work, range(count)):
            pass


def in_turn(work: Callable[[Item], Made], items: Iterable[Item]) -> Generator[tuple[Item, Made], None, None]:
    """Yield each item with what `work` makes of it, in order, while the next ones are worked on; see `side_by_side`.

    >>> list(in_turn(abs, [3, -1]))
    [(3, 3), (-1, 1)]
    """
    with closing(side_by_side(work, items)) as every:
        for item, wait in every:
            yield item, wait()


def side_by_side(
    work: Callable[[Item], Made], items: Iterable[Item]
) -> Generator[tuple[Item, Callable[[], Made]], None, None]:
    """Yield each item with what waits for what `work` makes of it, and raises what that raises; the next ones are worked on meanwhile.

    With threadpoolctl there are as many workers as BLAS has threads, and BLAS uses one in each of them until the last item, or
    until the iterator is closed: what was begun by then is waited for and let go. Without, one after the other. Items are taken
    in the calling thread, as many ahead as there are workers.

    >>> [(item, wait()) for item, wait in side_by_side(abs, [3, -1])]
    [(3, 3), (-1, 1)]
    """
    blas = _blas()
    workers = 1 if blas is None else blas.workers
    if workers < 2:
        for item in items:
            yield item, partial(work, item)
        return
    ahead = deque[tuple[Item, Future[Made]]]()
    with own_workers(), ThreadPoolExecutor(workers) as pool:
        try:
            for item in items:
                ahead.append((item, pool.submit(work, item)))
                if len(ahead) == workers:
                    first, made = ahead.popleft()
                    yield first, made.result
            while ahead:
                first, made = ahead.popleft()
                yield first, made.result
        finally:
            for _, made in ahead:
                made.cancel()


def each(work: Callable[[int], None], count: int, cost: int) -> None:
    """Call `work` with every number below `count`, on all cores if so many multiplications are worth it."""
    if cost > WORTH:
        for_each(work, count)
        return
    for at in range(count):
        work(at)


WORTH = 2**26
"""How many multiplications are worth more than the start of a worker."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Let BLAS use one thread meanwhile: with another number of them the last bits of a product may be others.

    Holds for the whole process, until the last of those that ask for it, in any thread, is done.
    """
    with _limited_to(1):
        yield


@contextmanager
def own_workers() -> Iterator[None]:
    """Let BLAS use one thread meanwhile, and `for_each` as many workers as BLAS had threads.

    Threads of BLAS wait for each other in every small product, spinning: beside another load that multiplies the time of
    work that consists of thousands of them.
    """
    with _limited_to(None):
        yield


SMALL = 2**25
"""Up to so many multiplications in one product, a millisecond's worth, threads of BLAS wait longer than they multiply."""


@contextmanager
def small_products(multiplications: float) -> Iterator[None]:
    """As `own_workers` where products have no more than a few million multiplications each; else nothing is changed."""
    if multiplications > SMALL:
        yield
        return
    with own_workers():
        yield


@contextmanager
def _limited_to(workers: int | None) -> Iterator[None]:
    blas = _blas()
    if blas is None:
        yield
        return
    allowed = blas.enter(workers)
    try:
        yield
    finally:
        blas.leave(allowed)


class _Blas:
    """The threads of BLAS, and how to limit them."""

    def __init__(self, controller: Any) -> None:
        self._controller = controller.select(user_api="blas")
        self._lock, self._allowed = Lock(), list[int]()
        self._limit: Any = None
        self._before = 1

    def enter(self, workers: int | None) -> int:
        """Limit BLAS to one thread; `workers` may work side by side meanwhile, as many as it had threads if None."""
        with self._lock:
            if not self._allowed:
                self._before = self.threads
                self._limit = self.limited()
            allowed = self._before if workers is None else workers
            self._allowed.append(allowed)
        return allowed

    def leave(self, allowed: int) -> None:
        with self._lock:
            self._allowed.remove(allowed)
            if not self._allowed:
                self._limit.restore_original_limits()

    @property
    def workers(self) -> int:
        """How many may work side by side: the least that anyone asked for."""
        with self._lock:
            return min(self._allowed) if self._allowed else self.threads

    @property
    def threads(self) -> int:
        return max((int(library["num_threads"]) for library in self._controller.info()), default=1)

    def limited(self) -> Any:
        return self._controller.limit(limits=1)


@cache
def _blas() -> _Blas | None:
    try:
        import threadpoolctl
    except ImportError:
        return None
    return _Blas(threadpoolctl.ThreadpoolController())
