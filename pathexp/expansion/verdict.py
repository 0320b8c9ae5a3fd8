"""The verdict: do the paths add up to the forward pass? With the error, the tolerance, and the worst place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from ..answer import Answer, Check, Facts, Part
from ..answer.parts import Outcome
from ..arguments import LOGITS, NUMBER, TEXT, expect, instance
from ..errors import PathexpError
from ..graph import Array, Contrast, ResidualGraph, Walk, lengths
from ..model.points import values_at
from .header import counted
from .one_by_one import is_small, sum_of_paths
from .term import Term
from .tolerance import rounding_tolerance, sum_and_tolerance

FORWARD = "paths add up to the forward pass"
DIFFERENCE = "paths add up to the difference of the two runs"


@dataclass(frozen=True, eq=False, repr=False)
class Verdict(Answer):
    """A comparison of a sum over paths with logits computed without them.

    It holds if the largest absolute difference is at most `tolerance`, which is derived from the rounding of both
    sides (see `pathexp.expansion.tolerance`). Where the tolerance is not small beside the logits, `reason` says so and
    nothing can be told.
    """

    max_error: float
    tolerance: float
    position: int
    token: int
    found: float
    expected: float
    scale: float
    method: str
    reason: str = ""
    claim: str = FORWARD

    def __bool__(self) -> bool:
        return self.ok

    @property
    def ok(self) -> bool:
        """Whether the paths add up."""
        return self.check.ok

    @property
    def outcome(self) -> Outcome:
        """Whether the paths add up, do not, or it cannot be told."""
        return self.check.outcome

    @property
    def check(self) -> Check:
        """The comparison as a part of an answer."""
        detail = (
            f"{self.method}; worst at position {self.position}, token {self.token}: "
            f"got {self.found:.9g}, expected {self.expected:.9g}"
        )
        return Check(
            self.claim, self.max_error, self.tolerance,
            "rounding of both sides, carried to the logits", detail, self.reason, "verdict",
        )  # fmt: skip

    def headline(self) -> str:
        """Return the check in one line."""
        return str(self.check)

    def parts(self) -> Iterator[Part]:
        """Yield where it is worst, and the check."""
        yield Facts(
            {name: getattr(self, name) for name in ("max_error", "position", "token", "found", "expected")}
        )
        yield Facts({"tolerance": self.tolerance, "scale": self.scale, "method": self.method})
        yield self.check

    def text(self, *, width: int | None = None, top: int | None = None) -> str:
        """Return the check and where it is worst."""
        return "\n".join([str(self.check), f"  {self.check.detail}"])


def compare(
    found: Array, expected: Array, tolerance: float, method: str, scale: float | None = None
) -> Verdict:
    """Compare two arrays of logits, shape (position, d_vocab) each.

    `scale` is the size of logits that the tolerance must be small beside: the root mean square of `expected` unless
    told otherwise (a difference of two runs may be near zero).

    Raises PathexpError if their shapes differ. A NaN anywhere is never ok.
    """
    expect("compare", found=(found, LOGITS), tolerance=(tolerance, NUMBER), method=(method, TEXT))
    try:
        expected = np.asarray(expected, dtype=np.float64)
    except (TypeError, ValueError):
        raise PathexpError(f"logits to compare with are an array of numbers, not {expected!r:.60}") from None
    if found.shape != expected.shape:
        raise PathexpError(
            f"the sum has shape {found.shape}, but the logits to compare with {expected.shape}"
        )
    worst, position, token = _worst(found, expected)
    scale = root_mean_square(expected) if scale is None else scale
    blind = tolerance > BLIND * scale and worst > 0
    reason = f"the tolerance is not small beside the logits (root mean square {scale:.3g})" if blind else ""
    return Verdict(
        max_error=worst,
        tolerance=tolerance,
        position=position,
        token=token,
        found=float(found[position, token]),
        expected=float(expected[position, token]),
        scale=scale,
        method=method,
        reason=reason,
    )


def _worst(found: Array, expected: Array) -> tuple[float, int, int]:
    """The largest absolute difference and its first place; a NaN is infinitely far. A position at a time: there may be many."""
    each = [_worst_of_row(*rows) for rows in zip(found, expected, strict=True)]
    position = int(np.argmax([error for error, _ in each]))
    return (each[position][0], position, each[position][1])


def _worst_of_row(found: Array, expected: Array) -> tuple[float, int]:
    error = np.abs(np.asarray(found - expected, dtype=np.float64))
    np.copyto(error, np.inf, where=np.isnan(error))
    token = int(np.argmax(error))
    return float(error[token]), token


def root_mean_square(logits: Array) -> float:
    """Return the size of logits (n, O), without over- or underflow, a position at a time: of many they are large."""
    each = np.array([lengths(row.reshape(-1)) for row in logits])
    return float(lengths(each)) / float(np.sqrt(logits.size))


def scale_of(graph: ResidualGraph) -> float | None:
    """Return the size of the logits of the two runs of a contrast (or of what its paths end at); None for other graphs."""
    both = [root_mean_square(values_at(run, graph.at)) for run in graph.runs]
    return max(both) if len(both) > 1 else None


BLIND = 1e-4
"""A tolerance above this share of the logits' size would let real faults pass."""


def verify_walk(walk: Walk, reference: Array) -> Verdict:
    """Compare the whole sum of a walk (and of the rest, if its query leaves paths out) with a reference."""
    graph, count = walk.graph, sum(walk.count_by_order)
    rest = Walk(graph, ~walk.query)
    others = sum(rest.count_by_order)
    beside = f" and {others:,} others by recurrence" if others else ""
    if is_small(walk):
        added, total, size = sum_of_paths(walk)
        method, tolerance = (
            f"{counted(added, 'term')} added one by one",
            rounding_tolerance(graph, added, size),
        )
    else:
        method = f"{count:,} terms by recurrence over all paths"
        total, tolerance = _by_recurrence(walk, whole=not others)
    whole = total + rest.logits() if others else total
    verdict = compare(whole, reference, tolerance, method + beside, scale_of(graph))
    return replace(verdict, claim=claim_of(graph))


def _by_recurrence(walk: Walk, whole: bool) -> tuple[Array, float]:
    """The sum of a walk and how far it may be off: in one pass where its paths are all of the graph's."""
    return sum_and_tolerance(walk) if whole else (walk.logits(), rounding_tolerance(walk.graph, 0, 0.0))


def claim_of(graph: ResidualGraph) -> str:
    """Return what a verdict on a graph's paths says in one line."""
    return DIFFERENCE if isinstance(graph, Contrast) else FORWARD


def _sum_one_by_one(terms: Iterable[Term], shape: tuple[int, int]) -> tuple[Array, float]:
    """Return the sum of the terms' logits and the largest sum of their absolute values."""
    total, size = np.zeros(shape), np.zeros(shape)
    for term in terms:
        logits = term.logits()
        total += logits
        size += np.abs(logits)
    return total, float(size.max(initial=0.0))


def verify(terms: Iterable[Term], graph: ResidualGraph, reference: Array) -> Verdict:
    """Compare the sum of any terms with logits: a list that lacks a term, or has one twice, fails.

    >>> import pathexp as px
    >>> trace = px.load("attn-2l").run("To be, or not to be")
    >>> terms = list(px.expand(trace))
    >>> px.verify(terms, px.freeze(trace), trace.logits).ok, px.verify(terms[1:], px.freeze(trace), trace.logits).ok
    (True, False)
    """
    expect(
        "verify",
        terms=(terms, instance(Iterable, "terms")),
        graph=(graph, instance(ResidualGraph, "a residual graph")),
    )
    terms = list(terms)
    if strange := [term for term in terms if not isinstance(term, Term)]:
        raise PathexpError(f"verify() adds up terms of an expansion, found {strange[0]!r:.60} among them")
    listed = terms
    n, _, d_out = graph.sizes
    total, size = _sum_one_by_one(listed, (n, d_out))
    tolerance = rounding_tolerance(graph, len(listed), size)
    method = f"{counted(len(listed), 'term')} added one by one"
    return replace(compare(total, reference, tolerance, method, scale_of(graph)), claim=claim_of(graph))
