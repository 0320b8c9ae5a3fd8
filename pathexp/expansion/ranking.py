"""The largest terms toward a target, with their exact remainder."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from numbers import Integral

import numpy as np

from ..errors import PathexpError
from ..graph import Indices, Walk
from ..model import Target
from .path import Path
from .search import Budget, Valued, by_size, constant_lost, interrupts, search
from .term import Term
from .values import path_values, straight_values


@dataclass(frozen=True, repr=False)
class Ranking:
    """The k terms of largest |value| toward a target.

    `value` is the signed sum of the listed terms and `remainder` what all other paths add, so that
    value + remainder is the target. `examined` of `count` paths were evaluated one by one; `exact` says that
    the ranking is proven; no path that is not listed has an absolute value above `bound`, rounding
    included. `margin` is how far rounding can blur the ranking's end, in the target's units: no path that is not
    listed exceeds the least that is listed by more.
    """

    terms: tuple[Term, ...]
    values: tuple[float, ...]
    remainder: float
    target: Target
    examined: int
    count: int
    exact: bool
    bound: float
    margin: float = 0.0

    @property
    def value(self) -> float:
        """The signed sum of the listed terms, in the target's units."""
        return float(sum(self.values))

    @property
    def ties(self) -> int:
        """How many terms at the end of the list differ from what is not listed by less than rounding."""
        return sum(abs(value) - self.margin <= self.bound for value in self.values) if self.bound else 0

    def _tied(self) -> str:
        last = len(self.terms)
        return f"place {last}" if self.ties == 1 else f"places {last - self.ties + 1} to {last}"

    def __repr__(self) -> str:
        return f"<Ranking: {len(self.terms)} of {self.count:,} terms toward {self.target.label}>"

    def __str__(self) -> str:
        head = f"{len(self.terms)} largest of {self.count:,} terms toward {self.target.label}"
        rows = [f"{value:+12.6f}  {term.path}" for term, value in zip(self.terms, self.values, strict=True)]
        proof = "proven" if self.exact else f"not proven: paths up to |{self.bound:.6g}| may be missing"
        if self.exact and self.ties:
            proof = f"proven, {self._tied()} within rounding"
        return "\n".join(
            [
                f"{head} ({proof}, {self.examined:,} examined)",
                *rows,
                f"{self.value:+12.6f}  sum of the terms listed",
                f"{self.remainder:+12.6f}  exact remainder, {self.count - len(self.terms):,} terms not listed",
            ]
        )


ENUMERATED = 50_000
"""Up to this many paths a ranking evaluates all of them; beyond, it searches with bounds."""


def rank(walk: Walk, k: int, target: Target, total: float, budget: Budget | None = None) -> Ranking:
    """Rank the paths of a walk by |value| toward a target: few by evaluating all, many by a search with bounds.

    `total` is what all paths of the walk add to the target, computed without listing them. A search that ends
    at its budget returns the best it found and the bound on anything missed.
    """
    if not isinstance(k, Integral) or isinstance(k, bool) or k < 1:
        raise PathexpError(f"top() takes a whole number of terms from 1 up, not {k!r}")
    k = int(k)
    if sum(walk.count_by_order) <= ENUMERATED:
        return enumerated(walk, k, target, total)
    with interrupts() as interrupted:
        return searched(walk, k, target, total, replace(budget or Budget(), interrupted=interrupted))


def enumerated(walk: Walk, k: int, target: Target, total: float) -> Ranking:
    """Rank by enumeration: every path is evaluated, so the answer is exact by construction."""
    values = path_values(walk, target)
    order = np.argsort(-np.abs(values), kind="stable")
    chosen = order[:k]
    listed = float(values[chosen].sum())
    return Ranking(
        terms=tuple(_terms_at(walk, chosen)),
        values=tuple(float(value) for value in values[chosen]),
        remainder=total - listed,
        target=target,
        examined=len(values),
        count=len(values),
        exact=True,
        bound=float(abs(values[order[k]])) if len(values) > k else 0.0,
    )


def searched(walk: Walk, k: int, target: Target, total: float, budget: Budget) -> Ranking:
    """Rank by a search with bounds, within a budget."""
    found, straight = search(walk, k, target, budget), _straight(walk, target)
    paths = sorted([*found.paths, *straight], key=by_size)
    if found.exact and found.bound == 0.0:
        paths += _zeros(walk, k - len(paths), {path.word for path in paths})
    values, count = tuple(path.value for path in paths[:k]), sum(walk.count_by_order)
    bound = max([found.bound, *(abs(path.value) + path.error for path in paths[k:])])
    full = len(values) == min(k, count) and bool(np.isfinite(bound))
    return Ranking(
        terms=tuple(Term(walk.graph, Path(path.word)) for path in paths[:k]),
        values=values,
        remainder=total - float(sum(values)),
        target=target,
        examined=found.examined + len(straight),
        count=count,
        exact=found.exact and full,
        bound=bound,
        margin=_margin(paths[:k], bound) if found.exact and full else 0.0,
    )


def _margin(paths: list[Valued], bound: float) -> float:
    """How far rounding can blur the end of a list."""
    least = min((abs(path.value) for path in paths), default=0.0)
    return max([bound - least, *(path.error for path in paths if abs(path.value) <= 2 * least)], default=0.0)


def _straight(walk: Walk, target: Target) -> list[Valued]:
    """The paths of constants that go straight into the sink."""
    by_label = {source.label: source for source in walk.graph.sources}
    return [
        Valued(value, word, constant_lost(by_label[word[0]], walk.graph, target))
        for value, word in straight_values(walk, target)
    ]


def _zeros(walk: Walk, wanted: int, listed: set[tuple[str, ...]]) -> list[Valued]:
    """The first paths of the iteration through something that writes nothing."""
    others = (word for word in walk.words() if word not in listed)
    return [Valued(0.0, word, 0.0) for word in islice(others, max(wanted, 0))]


def _terms_at(walk: Walk, places: Indices) -> list[Term]:
    """Return the terms at given places of the iteration, in the order of the places."""
    wanted = {int(place): index for index, place in enumerate(places)}
    found: list[Term | None] = [None] * len(places)
    stop = max(wanted, default=-1) + 1
    for place, word in enumerate(islice(walk.words(), stop)):
        if place in wanted:
            found[wanted[place]] = Term(walk.graph, Path(word))
    return [term for term in found if term is not None]
