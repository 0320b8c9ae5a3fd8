"""What removing a head costs on repeated tokens: whether it copies through later layers, where that cannot be read straight."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from math import sqrt

import numpy as np

from ...graph import Array
from ...labels import read_label
from ...model.continued import ContinuedRuns, logits_of_rows, without_result
from ...model.softmax import log_softmax
from ...workers import in_turn
from .repeated_tokens import RepeatedRun, RepeatedTokens


@dataclass(frozen=True)
class Removal:
    """By how much the log-probability of the next token falls without a head, in nats, over queries of second copies."""

    head: str
    fall: float
    standard_error: float

    def said(self) -> str:
        """Return it in words."""
        return f"removing it costs {self.fall:.2f} ± {self.standard_error:.2f} nats per token"


def removals(texts: RepeatedTokens, heads: Iterable[str], runs: int) -> tuple[Removal, ...]:
    """Return what removing each of some heads costs, live: its output set to zero, all behind it computed anew.

    Of texts of the longest length; the standard error is over queries. Heads that share their work each cost little alone.
    Cost: one forward pass a head and text, as many at a time as there are cores.

    >>> import pathexp as px
    >>> found = removals(RepeatedTokens(px.induction_model(), 8), ["L1H0"], 1)
    >>> round(found[0].fall, 3)  # log 8: all eight tokens are alike without it
    2.079
    """
    wanted = tuple(heads)
    falls: dict[str, list[Array]] = {label: [] for label in wanted}
    for copy in islice(texts.random(), runs if wanted else 0):
        run = texts.run(copy)
        for label, fall in in_turn(partial(_fall, run), wanted):
            falls[label].append(fall)
    return tuple(_summed(label, np.concatenate(found)) for label, found in falls.items() if found)


def _fall(run: RepeatedRun, label: str) -> Array:
    """The fall of the log-probability of the token that comes next, at every query of the second copy but the last."""
    place, trace = read_label(label), run.trace
    layer, n = place.layer or 0, len(trace)
    result = trace.z[layer, place.index or 0] @ trace.model.weights.W_O[layer, place.index or 0].T
    stream = without_result(trace, layer, result)
    queries = np.array(run.second)[:-1]
    coming = trace.tokens[queries + 1]
    later = ContinuedRuns([trace], 0, n)
    for behind in range(layer + 1, trace.config.n_layers):
        stream = later.block(stream, behind)
    left = log_softmax(logits_of_rows(later, stream[queries]))[np.arange(len(queries)), coming]
    return np.asarray(trace.log_probs[queries, coming] - left)


def _summed(label: str, falls: Array) -> Removal:
    return Removal(label, float(falls.mean()), float(falls.std(ddof=1)) / sqrt(len(falls)))
