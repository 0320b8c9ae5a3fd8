"""A run, frozen: hold fixed what is not linear, and the rest is a residual graph with numbers."""

from __future__ import annotations

from collections.abc import Iterator

from ..model import Trace
from .build import Sizes, pieces
from .graph import ResidualGraph


def freeze(trace: Trace) -> ResidualGraph:
    """Return the residual graph of a run with its patterns and norm scales held fixed.

    The frozen graph is an affine map of the embedding that equals the run on the run's own tokens; what is
    held fixed is listed in `graph.frozen`. Elhage et al. 2021, section "Path Expansion".

    >>> import pathexp as px
    >>> graph = px.freeze(px.load("attn-2l").run("To be, or not to be"))
    >>> graph.frozen[0].startswith("attention patterns")
    True
    """
    sizes = Sizes.of(trace.config, positions=len(trace.tokens))
    return ResidualGraph(**pieces(sizes, trace), frozen=tuple(ledger(trace)))


def ledger(trace: Trace) -> Iterator[str]:
    """Say in words what is held fixed."""
    layers, heads, n, _ = trace.patterns.shape
    if layers:
        yield f"attention patterns: {layers} layers × {heads} heads, {n} × {n} each"
    if trace.norm_scales:
        yield f"norm scales: {', '.join(trace.norm_scales)}, one number per position"


Trace.freezer = staticmethod(freeze)
