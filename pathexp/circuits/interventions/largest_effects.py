"""Which components of many to compute live: those that matter most by what one pass tells of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...graph import Array, ResidualGraph, freeze
from ...model import Target, Trace
from ..attribution.decompose import decompose
from ..attribution.sweeps import pulled
from .contrast_prices import slope_at


def frozen_effects(trace: Trace, target: Target) -> dict[str, float]:
    """Return how a target changes without each component, frozen: less the sum of all paths through it.

    What it writes, met with the target pulled back to there. One pass forward and one backward.
    """
    graph = freeze(trace)
    return _removed(trace, graph, pulled(graph, target))


def first_order_effects(trace: Trace, target: Target) -> dict[str, float]:
    """Return how a target changes without each component, live, to first order in what it writes (attribution patching).

    The gradient of the forward pass, patterns, norms and gates included, is that of the run against itself; a norm that
    stands behind the component keeps its scale. One pass forward and one backward.

    >>> import pathexp as px
    >>> trace = px.random_model(layers=1, norm=None).run([1, 2, 3])
    >>> found = first_order_effects(trace, trace.logit(5))
    >>> bool(np.isclose(found["L0H0"], frozen_effects(trace, trace.logit(5))["L0H0"]))  # nothing behind it bends
    True
    """
    fields = slope_at(trace, target, mlp_ports=False).fields
    return _removed(trace, freeze(trace), [fields[depth] for depth in range(len(fields))])


def _removed(trace: Trace, graph: ResidualGraph, fields: Sequence[Array]) -> dict[str, float]:
    parts = decompose(trace)
    return {
        component.label: -float(np.vdot(parts.written(component.label), fields[b + 1]))
        for b, block in enumerate(graph.blocks)
        for component in block.components
    }


def largest(trace: Trace, target: Target, frozen: Mapping[str, float], most: int) -> frozenset[str]:
    """Return the labels of the `most` components that change a target most: frozen or to first order, whichever is more."""
    bent = first_order_effects(trace, target)
    ranked = sorted(frozen, key=lambda label: -max(abs(frozen[label]), abs(bent[label])))
    return frozenset(ranked[:most])
