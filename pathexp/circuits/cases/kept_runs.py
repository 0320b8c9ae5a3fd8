"""Runs of cases, kept from one step of the work to the next as far as there is room."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import fields
from threading import Lock
from typing import Any

from ...budget import BUDGET, memory_of
from ...model import Model, Trace
from .case import Case

SHARE = 4
"""Runs that are kept take at most one in so many bytes of the budget."""


class KeptRuns:
    """The first runs of a model that were asked for; a copy for another process keeps none.

    >>> import pathexp as px
    >>> runs, model, case = KeptRuns(), px.random_model(), Case([1, 2], 3)
    >>> runs.of(model, case) is runs.of(model, case)
    True
    """

    def __init__(self, room: int | None = None) -> None:
        self._room = BUDGET.limit // SHARE if room is None else room
        self._kept: dict[Hashable, Trace] = {}
        self._lock = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return KeptRuns, (0,)

    def of(self, model: Model, case: Case) -> Trace:
        """Return the run of a case's prompt, from what is kept or made."""
        if (kept := self._kept.get(case.tokens)) is not None:
            return kept
        made = model.run(case.tokens)
        size = bytes_of_run(made)
        with self._lock:
            if size <= self._room and case.tokens not in self._kept:
                self._kept[case.tokens] = made
                self._room -= size
        return made


def bytes_of_run(trace: Trace) -> int:
    """Return how many bytes the numbers of a run take, those of its model left out.

    >>> import pathexp as px
    >>> bytes_of_run(px.random_model(d_vocab=1000).run([1, 2])) > 2 * 1000 * 8
    True
    """
    parts = [dict(value) if hasattr(value, "keys") else value for value in _numbers(trace)]
    return sum(dict(memory_of(parts)).values())


def _numbers(trace: Trace) -> list[Any]:
    return [getattr(trace, each.name) for each in fields(trace) if each.name != "model"]
