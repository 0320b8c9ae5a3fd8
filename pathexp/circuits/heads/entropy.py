"""The entropy of attention, head by head: whether a head attends to one position or to many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...answer import Answer, Figure, Note, Part, Table, columns
from ...expansion.header import run_facts
from ...graph import Array
from ...model import Trace
from ...model.trace import check_trace


@dataclass(frozen=True, eq=False, repr=False)
class Entropy(Answer):
    """The attention entropy of every head, mean over queries: `values` (layers, heads), in nats.

    `most` is the entropy of attention that is even over all keys a query can attend to, of the same shape.
    """

    live: ClassVar[frozenset[str]] = frozenset({"trace"})

    trace: Trace
    values: Array
    most: Array

    def headline(self) -> str:
        """Return what is measured."""
        return "attention entropy, mean over queries: 0 for a head that attends to one position"

    def parts(self) -> Iterator[Part]:
        """Yield one row a head, the sharpest first, and a heat map."""
        yield run_facts(self.trace)
        head = (
            columns.text("head"),
            columns.number("entropy", unit="nats", signed=False),
            columns.share("even"),
        )
        yield Table(
            head,
            sorted(self._rows(), key=lambda row: row[1]),
            "heads",
            key=("head",),
            value="entropy",
            shown=24,
        )
        yield Note("even: the entropy as a share of that of even attention to all keys a query can attend to")
        layers, heads = (
            [f"{kind}{at}" for at in range(n)] for kind, n in zip("LH", self.values.shape, strict=True)
        )
        yield Figure(
            "heatmap", "entropy", {"rows": layers, "columns": heads, "values": self.values}, unit="nats"
        )

    def _rows(self) -> Iterator[tuple[str, float, float | None]]:
        for (layer, head), value in np.ndenumerate(self.values):
            most = float(self.most[layer, head])
            yield f"L{layer}H{head}", float(value), float(value) / most if most else None


def entropy(trace: Trace) -> Entropy:
    """Return the attention entropy -Σ A ln A of every head, a mean over queries in nats.

    The entropy of query i lies between 0 (one key) and the logarithm of how many keys it can attend to; a head's sink
    counts as one more. O(L H n²).

    >>> import pathexp as px
    >>> found = px.entropy(px.induction_model().run([5, 2, 7, 3, 5, 2]))
    >>> [(row["head"], round(row["entropy"], 2)) for row in found.records()]
    [('L0H0', 0.0), ('L1H0', 0.3)]
    """
    check_trace(trace, "entropy")
    sinks = trace.config.sinks
    found = [(_entropy(A, sinks), _most(s, sinks)) for A, s in zip(trace.patterns, trace.scores, strict=True)]
    shape = trace.patterns.shape[:2]
    values, most = (np.array([pair[at] for pair in found]).reshape(shape) for at in (0, 1))
    return Entropy(trace, values, most)


def _entropy(A: Array, sinks: bool) -> Array:
    """The entropy of the patterns (H, n, n) of one layer, (H,); what rows leave goes to the sink, if there is one."""
    if sinks:
        A = np.concatenate([A, np.maximum(0.0, 1 - A.sum(axis=-1, keepdims=True))], axis=-1)
    return np.asarray(-np.sum(A * np.log(np.where(A > 0, A, 1.0)), axis=-1).mean(axis=-1) + 0.0)


def _most(scores: Array, sinks: bool) -> Array:
    """What the entropy can be at most, of the scores (H, n, n) of one layer, (H,)."""
    keys = np.sum(~np.isneginf(scores), axis=-1) + sinks
    return np.asarray(np.log(np.maximum(keys, 1)).mean(axis=-1))
