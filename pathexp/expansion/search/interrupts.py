"""An interrupt from the keyboard as a question that a search asks: it ends at its next step, with what it has."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType

_ASKED: ContextVar[Callable[[], bool]] = ContextVar("asked", default=bool)


@contextmanager
def stopped_by(asked: Callable[[], bool]) -> Iterator[None]:
    """Let searches and trees that run inside end at their next step once `asked` returns True, with what they have.

    For threads other than the main one, where no Ctrl-C arrives; elsewhere Ctrl-C counts as well.
    """
    token = _ASKED.set(asked)
    try:
        yield
    finally:
        _ASKED.reset(token)


@contextmanager
def interrupts() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed since, or `stopped_by` asks to end; pressed a second time it is raised as ever.

    Ctrl-C counts never outside of the main thread, nor where a program ignores interrupts or takes them elsewhere than
    in Python.
    """
    before, asked = signal.getsignal(signal.SIGINT), _ASKED.get()
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield asked
        return
    seen: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if seen:
            raise KeyboardInterrupt
        seen.append(number)

    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(seen) or asked()
    finally:
        signal.signal(signal.SIGINT, before)
