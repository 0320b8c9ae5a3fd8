"""An expansion of a run as a person reads it: what is frozen, the largest terms, the totals, the verdict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ..answer import Answer, Check, Facts, Note, Part, Table, columns
from ..arguments import expect, whole
from ..graph import Query, everything
from ..model import Target, Trace
from .expansion import Expansion, expand
from .header import counted, matching, run_facts
from .mlp_paths import MlpPaths, frozen_as
from .proof import ProofCheck
from .ranking import Ranking
from .search import search_cost
from .tree import Tree
from .verdict import Verdict

FEW = 50_000
"""Up to so many paths all are evaluated and the largest are listed; beyond, the answer is the tree of their sums."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PathSummary(Answer):
    """What is shown of many paths toward a target, each when it is first read: the largest, the tree, the verdict."""

    live: ClassVar[frozenset[str]] = frozenset({"terms"})

    terms: Expansion
    target: Target
    k: int
    nodes: int = 200
    seconds: float | None = None
    progress: bool = False

    @cached_property
    def ranking(self) -> Ranking:
        """The largest terms."""
        tree = self.tree if self.terms.count() > FEW else None
        return self.terms.top(self.k, self.target, seconds=self.seconds, progress=self.progress, tree=tree)

    @cached_property
    def tree(self) -> Tree:
        """The terms as a tree of exact sums."""
        return self.terms.tree(self.target, nodes=self.nodes, seconds=self.seconds, progress=self.progress)

    @cached_property
    def verdict(self) -> Verdict:
        """The comparison with the forward pass, or with both of them."""
        return self.terms.verify()

    def grown(self) -> Iterator[Part]:
        """Yield the tree of exact sums."""
        yield from shown_inside(self.tree)


def shown_inside(found: Answer) -> Iterator[Part]:
    """Yield an answer as a part of another: its headline, and what it shows beside facts."""
    yield Note(found.headline())
    yield from (part for part in found.parts() if not isinstance(part, Facts))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Summary(PathSummary):
    """Everything that `pathexp expand` shows; each part is computed when it is first read.

    Few paths are ranked and listed. Where nobody could list them, the tree of exact sums stands in their place; the
    search for the largest single paths, with its proof, runs when `prove` asks for it.

    >>> import pathexp as px
    >>> trace = px.load("attn-1l").run("To be, or not to be")
    >>> found = summary(trace, trace.logit(" the"))
    >>> found.ok, len(found.ranking), round(sum(found.totals) - trace.logit(" the").value, 9)
    (True, 9, 0.0)
    """

    live: ClassVar[frozenset[str]] = frozenset({"trace", "terms"})

    trace: Trace
    prove: bool = False
    check: bool = False

    @property
    def ranked(self) -> bool:
        """Whether single paths are ranked: they are few, or it is asked for."""
        return self.prove or self.check or self.terms.count() <= FEW

    @cached_property
    def proof(self) -> ProofCheck:
        """What code that shares only the graph with the search says of the ranking. Raises PathexpError if nothing bounds it."""
        return self.ranking.check()

    @cached_property
    def totals(self) -> tuple[float, ...]:
        """What the terms of each order add."""
        return self.terms.value_by_order(self.target)

    @property
    def complete(self) -> bool:
        """Whether the ranking, if there is one, is proven, and the tree, if there is one, was not interrupted."""
        grown = self.terms.count() <= FEW or self.tree.complete
        return grown and (not self.ranked or self.ranking.exact)

    def headline(self) -> str:
        """Return how many paths there are, and of which order where there are few."""
        chosen = matching(self.terms.query)
        if self.terms.count() > FEW:
            counts = self.terms.count_by_order()
            return f"{counted(self.terms.count(), 'path')}{chosen}, of orders 0 to {len(counts) - 1}"
        orders = ", ".join(f"{n:,} of order {k}" for k, n in enumerate(self.terms.count_by_order()) if n)
        return (
            f"{counted(self.terms.count(), 'path')}{chosen}: {orders}"
            if self.terms.count()
            else f"no paths{chosen}"
        )

    def parts(self) -> Iterator[Part]:
        """Yield the ledger, the largest terms or the tree, the verdict, the totals by order, each once it is known."""
        yield run_facts(self.trace, self.target)
        yield Facts({"query": str(self.terms.query), "count": self.terms.count()})
        yield Note("\n".join(self.terms.graph.frozen or ("nothing: this model is linear",)), "frozen")
        if self.terms.count() > FEW:
            yield from self.grown()
        if self.ranked:
            yield from self.listed()
        yield self.verdict.check
        yield from self.orders()

    def grown(self) -> Iterator[Part]:
        """Yield the tree of exact sums, and how single paths are found."""
        yield from super().grown()
        if not self.prove:
            yield Note(
                "The largest single paths are searched for, with a proof, by --prove (in Python: terms.top); "
                "`pathexp tree` opens more nodes."
            )

    def listed(self) -> Iterator[Part]:
        """Yield the largest single paths."""
        if self.terms.count() > FEW:
            until = "until it is proven" if self.seconds is None else f"for {self.seconds:g} s"
            yield Note(f"searching for the {self.k} largest single paths {until}; Ctrl-C shows what there is")
            if not self.progress:  # else the search says so itself
                yield Note(str(search_cost(self.terms.walk)))
        yield self.ranking.table(
            f"the {len(self.ranking)} largest in absolute value, toward {self.target.label}:"
        )
        facts = ("examined", "exact", "bound", "margin", "ties", "value", "remainder")
        yield Facts({name: getattr(self.ranking, name) for name in facts})
        if self.ranking.examined < self.ranking.count:
            yield Note(self.ranking.certainty)
        yield self.ranking.figure()
        if self.check:
            yield from self.checked()

    def checked(self) -> Iterator[Part]:
        """Yield what was checked of the ranking, and whether it holds."""
        if np.isfinite(self.ranking.bound):
            yield Note(self.proof.headline())
            yield from self.proof.parts()
        else:
            reason = "the search ended before anything bounded the paths that are missing; give it more time"
            yield Check("the ranking holds", np.inf, 0.0, reason=reason, name="proof")

    def orders(self) -> Iterator[Part]:
        """Yield the totals by order, and whether they cancel."""
        counts, total = self.terms.count_by_order(), sum(self.totals)
        yield Table(
            (columns.count("order"), columns.count("paths"), columns.number("adds", "contribution", "logits")),
            [(k, n, value) for k, (n, value) in enumerate(zip(counts, self.totals, strict=True))],
            "orders", key=("order",), value="adds", absent="zero", rest=[("all", sum(counts), total)], additive=True,
        )  # fmt: skip
        size = sum(map(abs, self.totals))
        if size > 10 * abs(total):
            yield Note(f"orders cancel: their sizes add up to {size:,.4g}, their sum is {total:+.4f}")


def summary(
    trace: Trace,
    target: Target,
    *,
    query: str | Query = everything,
    mlp: MlpPaths = "gate",
    k: int = 12,
    nodes: int = 200,
    prove: bool = False,
    check: bool = False,
    seconds: float | None = None,
    progress: bool = False,
) -> Summary:
    """Take a run apart: freeze it, expand the paths that a query accepts, rank or bundle, total and verify them.

    Parameters
    ----------
    mlp: "gate", paths pass through MLPs; "source", they start at them; "neurons", they pass through single neurons, L0N17.
    k: how many single paths to list. nodes: how many nodes of the tree to open where there are more than 50,000 paths.
    prove: also search for the `k` largest of very many paths, with a proof; `seconds` ends the search.
    check: also check the ranking and its proof by code that shares only the graph with the search (`Ranking.check`).

    Raises FreezeError for an unknown way to treat MLPs, QueryError for a query that cannot be read. Costs a few
    forward passes, the nodes of the tree, and the search if it is asked for (see `Expansion.top`).
    """
    expect("expand", k=(k, whole(1)), nodes=(nodes, whole(1)))
    terms = expand(frozen_as(trace, mlp), query)  # 3, 4 and 5
    return Summary(  # 6 and 7, when they are read
        trace=trace, terms=terms, target=target, k=k, nodes=nodes, prove=prove, check=check, seconds=seconds,
        progress=progress,
    )  # fmt: skip
