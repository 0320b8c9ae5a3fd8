"""The largest terms toward a target, with their exact remainder."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import numpy as np

from ..errors import PathexpError
from ..graph import Indices, Walk
from ..model import Target
from .path import Path
from .term import Term
from .values import path_values


@dataclass(frozen=True, repr=False)
class Ranking:
    """The k terms of largest |value| toward a target.

    `value` is the signed sum of the listed terms and `remainder` what all other paths add, so that
    value + remainder is the target. `examined` of `count` paths were evaluated one by one; `exact` says that
    the ranking is proven; no path that is not listed has an absolute value above `bound`.
    """

    terms: tuple[Term, ...]
    values: tuple[float, ...]
    remainder: float
    target: Target
    examined: int
    count: int
    exact: bool
    bound: float

    @property
    def value(self) -> float:
        """The signed sum of the listed terms, in the target's units."""
        return float(sum(self.values))

    def __repr__(self) -> str:
        return f"<Ranking: {len(self.terms)} of {self.count:,} terms toward {self.target.label}>"

    def __str__(self) -> str:
        head = f"{len(self.terms)} largest of {self.count:,} terms toward {self.target.label}"
        rows = [f"{value:+12.6f}  {term.path}" for term, value in zip(self.terms, self.values, strict=True)]
        proof = "proven" if self.exact else f"not proven: paths up to |{self.bound:.6g}| may be missing"
        return "\n".join(
            [
                f"{head} ({proof}, {self.examined:,} examined)",
                *rows,
                f"{self.value:+12.6f}  sum of the terms listed",
                f"{self.remainder:+12.6f}  exact remainder, {self.count - len(self.terms):,} terms not listed",
            ]
        )


def rank(walk: Walk, k: int, target: Target, total: float) -> Ranking:
    """Rank by enumeration: every path is evaluated, so the answer is exact by construction.

    `total` is what all paths of the walk add to the target, computed without listing them.
    """
    if not isinstance(k, int) or k < 1:
        raise PathexpError(f"top() takes a whole number of terms from 1 up, not {k!r}")
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


def _terms_at(walk: Walk, places: Indices) -> list[Term]:
    """Return the terms at given places of the iteration, in the order of the places."""
    wanted = {int(place): index for index, place in enumerate(places)}
    found: list[Term | None] = [None] * len(places)
    stop = max(wanted, default=-1) + 1
    for place, word in enumerate(islice(walk.words(), stop)):
        if place in wanted:
            found[wanted[place]] = Term(walk.graph, Path(word))
    return [term for term in found if term is not None]
