"""Runs that pass: one window of a corpus, read and let go of at once, so that memory stays flat."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..model import Model, Trace
from .corpus import Tokens


@contextmanager
def passing(model: Model, tokens: Tokens) -> Iterator[Trace]:
    """Run a model, and at the end of the block let the run go: a run and its graph hold each other otherwise.

    >>> import pathexp as px
    >>> with passing(px.random_model(), [1, 2, 3]) as trace:
    ...     loss, graph = trace.loss(), trace.graph
    >>> "graph" in vars(trace)
    False
    """
    trace = model.run(tokens)
    try:
        yield trace
    finally:
        vars(trace).pop("graph", None)
