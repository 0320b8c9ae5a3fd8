"""The largest terms toward a target, with their exact remainder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice
from typing import ClassVar, overload

import numpy as np

from ..answer import Answer, Facts, Figure, Note, Part, Table, columns
from ..arguments import AMOUNT, expect
from ..errors import PathexpError
from ..graph import Array, Indices, Walk
from ..model import Target
from .bundle import bundle
from .header import counted, shown_target
from .path import Path
from .proof import Certificate, ProofCheck, check_ranking
from .proof.checker import Claims
from .resolution import is_resolved, margin, tied_places, ties
from .search import Budget, Valued, by_size, certify, constant_lost, interrupts, search, search_cost
from .search.rounding import finite
from .search.shadow import path_errors
from .search.zeros import certain_zeros
from .term import Term
from .values import path_values, straight_values


@dataclass(frozen=True, eq=False, repr=False)
class Ranking(Answer):
    """The k terms of largest |value| toward a target, as a sequence.

    `value` is the signed sum of the listed terms and `remainder` what all other paths add, so that
    value + remainder is the target. `examined` of `count` paths were evaluated one by one; `exact` says that
    the ranking is proven; no path that is not listed has an absolute value above `bound`, rounding
    included. `margin` is how far rounding can blur the ranking's end, in the target's units: no path that is not
    listed exceeds the least that is listed by more. `errors` say how far each value may be off.
    """

    live: ClassVar[frozenset[str]] = frozenset({"terms", "walk"})

    terms: tuple[Term, ...]
    values: tuple[float, ...]
    remainder: float
    target: Target
    examined: int
    count: int
    exact: bool
    bound: float
    margin: float = 0.0
    errors: tuple[float, ...] = ()
    walk: Walk | None = None

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, index: int) -> Term: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Term, ...]: ...
    def __getitem__(self, index: int | slice) -> Term | tuple[Term, ...]:
        return self.terms[index]

    def __iter__(self) -> Iterator[Term]:
        return iter(self.terms)

    @property
    def value(self) -> float:
        """The signed sum of the listed terms, in the target's units."""
        return float(sum(self.values))

    def check(self, certificate: Certificate | None = None) -> ProofCheck:
        """Return what code that shares only the graph with the search says of this ranking.

        Inclusions of all sets are certified by shifted Cholesky factorizations (Rump 2006), every ending that was cut is
        bounded again in double precision, every listed path evaluated once more by pushing forward. Without a
        `certificate` the search is done once more to record one. Raises PathexpError if nothing bounds what is not listed, or
        for a copy that has lost its graph.

        >>> import pathexp as px
        >>> trace = px.load("attn-2l").run("To be, or not to be")
        >>> px.expand(trace).top(3, trace.logit(0)).check().ok
        True
        """
        if self.walk is None or len(self.terms) != len(self.values):
            raise PathexpError("this ranking is a copy without its graph; check the one that top() returned")
        made = certificate if certificate is not None else self.certificate()
        words = tuple(tuple(term.path) for term in self.terms)
        claims = Claims(words, self.values, self.errors, self.bound, self.margin, self.count, self.exact)
        return check_ranking(self.walk, self.target, claims, made)

    def certificate(self) -> Certificate:
        """Return what proves this ranking's bound: known beginnings, sets of all others, and endings that were opened."""
        found = None
        if self.walk is not None and np.isfinite(self.bound):
            found = certify(self.walk, self.target, self.bound)
        if found is None:
            raise PathexpError(
                f"nothing bounds the paths that this ranking does not list (bound {self.bound}): there is nothing to check; "
                "give the search more time"
            )
        return found

    @property
    def ties(self) -> int:
        """How many terms at the end of the list differ from what is not listed by less than rounding."""
        return ties(self.values, self.margin, self.bound)

    @property
    def complete(self) -> bool:
        """Whether the ranking is proven."""
        return self.exact

    @property
    def certainty(self) -> str:
        """What is known of the paths that are not listed, in a sentence."""
        examined = f"{self.examined:,} of {self.count:,} paths were evaluated"
        if len(self) == self.count:
            return "these are all paths"
        if self.exact:
            tied = f"; {tied_places(self.values, self.ties)} within rounding" if self.ties else ""
            return (
                f"proven{tied}: no other path adds more than {self.bound:.4g} in absolute value ({examined})"
            )
        missing = "nothing bounds the paths that are missing"
        if np.isfinite(self.bound):
            missing = f"paths of up to {self.bound:.4g} in absolute value may be missing"
        return f"not proven: {missing} ({examined}); give it more time"

    def headline(self) -> str:
        """Return what is ranked, and whether it is proven."""
        proof = "proven" if self.exact else "not proven"
        return f"{len(self)} largest of {counted(self.count, 'term')} toward {self.target.label} ({proof})"

    def parts(self) -> Iterator[Part]:
        """Yield the terms with the exact remainder, and what is known of those that are not listed."""
        yield Facts(
            {
                name: getattr(self, name)
                for name in ("count", "examined", "exact", "bound", "margin", "ties", "remainder")
            }
        )
        target = self.target if self.walk is None else shown_target(self.walk.graph, self.target)
        yield Facts({"value": self.value, "target": target.label, "target_value": target.value})
        yield self.table()
        yield Note(self.certainty)
        yield self.figure()
        if self.terms:
            yield self.ribbons()

    def figure(self) -> Figure:
        """Return the terms as bars."""
        data = {"rows": [str(term.path) for term in self.terms], "values": [[value] for value in self.values]}
        return Figure("bars", "paths", data, f"largest terms of {self.target.label}", "logits")

    def ribbons(self) -> Figure:
        """Return the listed paths as ribbons, those that share an edge bundled."""
        title = f"{self.headline()}: {self.value:+.4f} of {self.value + self.remainder:+.4f}"
        paths = [term.path for term in self.terms]
        return bundle(paths, self.values, self.terms[0].graph.places, title, "logits")

    def table(self, title: str = "") -> Table:
        """Return the terms, the largest first; the exact remainder is the row after them."""
        rows = [
            (str(term.path), term.order, value, total, term.formula, term.latex())
            for term, value, total in zip(self.terms, self.values, accumulate(self.values), strict=True)
        ]
        rest = (
            f"{counted(self.count - len(self), 'other path')}",
            None,
            self.remainder,
            self.value + self.remainder,
        )
        return Table(
            (columns.path(), columns.count("order"), columns.number("adds", "contribution", "logits"),
             columns.number("cumulative", unit="logits"), columns.formula("formula"), columns.hidden("latex")),
            rows, "paths", title, key=("path",), value="adds", shown=None, rest=[(*rest, "", "")], absent="unknown",
        )  # fmt: skip


ENUMERATED = 50_000
"""Up to this many paths a ranking evaluates all of them; beyond, it searches with bounds."""


def rank(
    walk: Walk,
    k: int,
    target: Target,
    total: float,
    budget: Budget | None = None,
    known: Sequence[tuple[str, ...]] = (),
) -> Ranking:
    """Rank the paths of a walk by |value| toward a target: few by evaluating all, many by a search with bounds.

    `total` is what all paths of the walk add to the target, computed without listing them. A search that ends
    at its budget returns the best it found and the bound on anything missed. It starts from paths that are `known`
    to be large, if some are.
    """
    expect("top", k=(k, AMOUNT))
    k = int(k)
    if sum(walk.count_by_order) <= ENUMERATED:
        return enumerated(walk, k, target, total)
    limits = budget or Budget()
    if limits.progress:
        limits.say(str(search_cost(walk)))
    with interrupts() as interrupted:
        return searched(walk, k, target, total, replace(limits, interrupted=interrupted), known)


def enumerated(walk: Walk, k: int, target: Target, total: float) -> Ranking:
    """Rank by enumeration: every path is evaluated, so the answer is exact by construction."""
    values = path_values(walk, target)
    errors = _errors(walk, target, values)
    order = np.argsort(-np.nan_to_num(np.abs(values), nan=np.inf, posinf=np.inf), kind="stable")
    chosen, left = order[:k], order[k:]
    bound = float(finite(np.abs(values[left]) + errors[left]).max(initial=0.0))
    found = [Valued(float(values[at]), (), float(errors[at])) for at in chosen]
    blurred = margin([path.value for path in found], [path.error for path in found], bound)
    sure = is_resolved(values[chosen].tolist(), blurred)
    return Ranking(
        terms=tuple(_terms_at(walk, chosen)),
        values=tuple(path.value for path in found),
        remainder=total - float(values[chosen].sum()),
        target=target,
        examined=len(values),
        count=len(values),
        exact=sure,
        bound=bound,
        margin=blurred if sure else 0.0,
        errors=tuple(path.error for path in found),
        walk=walk,
    )


def _errors(walk: Walk, target: Target, values: Array) -> Array:
    """How far the value of each path may be off: not at all if it is zero and no chain of numbers on it is without a zero."""
    with np.errstate(all="ignore"):
        errors = path_errors(walk, target, path_values)
        if not values.all():
            errors[(values == 0) & certain_zeros(walk, target, path_values)] = 0.0
    return errors


def searched(
    walk: Walk,
    k: int,
    target: Target,
    total: float,
    budget: Budget,
    known: Sequence[tuple[str, ...]] = (),
) -> Ranking:
    """Rank by a search with bounds, within a budget, from the paths that are known to be large."""
    straight = _straight(walk, target)
    given = {path.word for path in straight}
    found = search(walk, k, target, budget, [word for word in known if word not in given])
    paths = sorted([*found.paths, *straight], key=by_size)
    if found.exact and found.bound == 0.0:
        paths += _zeros(walk, k - len(paths), {path.word for path in paths})
    values, count = tuple(path.value for path in paths[:k]), sum(walk.count_by_order)
    bound = max([found.bound, *(abs(path.value) + path.error for path in paths[k:])])
    blurred = margin(values, [path.error for path in paths[:k]], bound)
    sure = found.exact and len(values) == min(k, count) and is_resolved(values, blurred)
    return Ranking(
        terms=tuple(Term(walk.graph, Path(path.word)) for path in paths[:k]),
        values=values,
        remainder=total - float(sum(values)),
        target=target,
        examined=found.examined + len(straight),
        count=count,
        exact=sure,
        bound=bound,
        margin=blurred if sure else 0.0,
        errors=tuple(path.error for path in paths[:k]),
        walk=walk,
    )


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
