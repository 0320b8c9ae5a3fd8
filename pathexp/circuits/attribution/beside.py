"""What attribution patching and path patching say of the shares of a contrast, and what cutting them does live."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ...arguments import Kind, expect
from ...errors import PathexpError
from ...expansion import expand
from ...graph import Array, Contrast
from ...model import Target
from ..interventions.contrast_cuts import ContrastCut, contrast_cut
from ..interventions.contrast_prices import Cutting

METHODS = ("gradient", "path patching", "live")
_METHODS = Kind(
    f"names of methods, of {', '.join(METHODS)}",
    lambda given: (
        isinstance(given, str) or (isinstance(given, list | tuple) and all(isinstance(m, str) for m in given))
    ),
)
WRITERS = {"embedding": "E", "MLPs": "M"}
"""Rows by head that are no head, and what a query calls them."""


def beside(
    graph: Contrast, change: Target, values: Mapping[str, float], methods: Sequence[str], most: int
) -> dict[str, Array]:
    """Return by method a number for each row of a contrast by head or component; nan where none was asked for or is defined.

    The `most` largest rows are measured. "gradient" and "path patching" are of the same edge as the share, from the
    writer straight to the sink, means of both runs and both directions. "live" patches the writer whole, everything behind
    it recomputed; "all paths" is the contrast's exact sum over the same paths.
    """
    cutting = Cutting(graph, change)
    order = sorted(values, key=lambda name: -abs(values[name]))[:most]
    columns = {name: np.full(len(values), np.nan) for name in headings(methods)}
    for name in order:
        if graph.alphabet.meaning(writer := WRITERS.get(name, name)):
            for heading, measure in _measures(cutting, writer, methods).items():
                columns[heading][list(values).index(name)] = measure()
    return columns


def headings(methods: Sequence[str]) -> list[str]:
    """Return the columns of some methods; what is cut whole live has its exact sum beside it."""
    return [
        heading
        for method in methods
        for heading in (("all paths", "live") if method == "live" else (method,))
    ]


def _measures(cutting: Cutting, writer: str, methods: Sequence[str]) -> dict[str, Callable[[], float]]:
    straight, whole = _cut(cutting, edge=(writer, "U")), _cut(cutting, node=writer)
    known = {
        "gradient": lambda: cutting.gradient(writer, "U"),
        "path patching": lambda: both_ways(cutting, straight),
        "all paths": lambda: expand(cutting.graph, whole.paths).value(cutting.target),
        "live": lambda: both_ways(cutting, whole),
    }
    return {heading: known[heading] for heading in headings(methods)}


def _cut(cutting: Cutting, node: str | None = None, edge: tuple[str, str] | None = None) -> ContrastCut:
    return contrast_cut(cutting.graph, None, node, edge)


def both_ways(cutting: Cutting, cut: ContrastCut) -> float:
    """Return the mean live effect of a cut over both directions of patching."""
    here, there = cutting.graph.runs
    return (cutting.moved(there, here, cut) - cutting.moved(here, there, cut)) / 2


def check_methods(methods: object, unit: str) -> tuple[str, ...]:
    """Return methods as a tuple; raises PathexpError for one that is not known, or a unit that has no writers."""
    expect("attribution", beside=(methods, _METHODS))
    found = (methods,) if isinstance(methods, str) else tuple(methods)  # type: ignore[arg-type]
    if unknown := [method for method in found if method not in METHODS]:
        raise PathexpError(f"beside: unknown method {unknown[0]!r}; choose from {', '.join(METHODS)}")
    if found and unit not in ("head", "component"):
        raise PathexpError(
            f"beside={found!r} measures what writes to the sink: by='head' or 'component', got {unit!r}"
        )
    return found
