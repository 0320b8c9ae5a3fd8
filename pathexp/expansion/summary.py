"""An expansion of a run as a person reads it: what is frozen, the largest terms, the totals, the verdict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from ..answer import Answer, Facts, Note, Part, Table, columns
from ..graph import MlpMode, Query, everything, freeze
from ..model import Target, Trace
from .expansion import Expansion, expand
from .header import counted, run_facts
from .ranking import Ranking
from .verdict import Verdict


@dataclass(frozen=True, eq=False, repr=False)
class Summary(Answer):
    """Everything that `pathexp expand` shows; each part is computed when it is first read.

    >>> import pathexp as px
    >>> trace = px.load("attn-1l").run("To be, or not to be")
    >>> found = summary(trace, trace.logit(" the"))
    >>> found.ok, len(found.ranking), round(sum(found.totals) - trace.logit(" the").value, 9)
    (True, 9, 0.0)
    """

    live: ClassVar[frozenset[str]] = frozenset({"trace", "terms"})

    trace: Trace
    terms: Expansion
    target: Target
    k: int
    seconds: float | None = None
    progress: bool = False

    @cached_property
    def ranking(self) -> Ranking:
        """The largest terms."""
        return self.terms.top(self.k, self.target, seconds=self.seconds, progress=self.progress)

    @cached_property
    def totals(self) -> tuple[float, ...]:
        """What the terms of each order add."""
        return self.terms.value_by_order(self.target)

    @cached_property
    def verdict(self) -> Verdict:
        """The comparison with the forward pass."""
        return self.terms.verify()

    @property
    def complete(self) -> bool:
        """Whether the ranking is proven."""
        return self.ranking.exact

    def headline(self) -> str:
        """Return how many paths of which order there are."""
        orders = ", ".join(f"{n:,} of order {k}" for k, n in enumerate(self.terms.count_by_order()) if n)
        return f"{counted(self.terms.count(), 'path')}: {orders}" if self.terms.count() else "no paths"

    def parts(self) -> Iterator[Part]:
        """Yield the ledger, the largest terms, the totals by order and the verdict, each as soon as it is known."""
        yield run_facts(self.trace, self.target)
        yield Facts({"query": str(self.terms.query), "count": self.terms.count()})
        yield Note("\n".join(self.terms.graph.frozen or ("nothing: this model is linear",)), "frozen")
        yield self.ranking.table(
            f"the {len(self.ranking)} largest in absolute value, toward {self.target.label}:"
        )
        facts = ("examined", "exact", "bound", "margin", "value", "remainder")
        yield Facts({name: getattr(self.ranking, name) for name in facts})
        if self.ranking.examined < self.ranking.count:
            yield Note(self.ranking.certainty)
        yield self.orders()
        yield self.verdict.check

    def orders(self) -> Table:
        """Return the totals by order."""
        counts = self.terms.count_by_order()
        return Table(
            (columns.count("order"), columns.count("paths"), columns.number("adds", "contribution", "logits")),
            [(k, n, total) for k, (n, total) in enumerate(zip(counts, self.totals, strict=True))],
            "orders", key=("order",), value="adds", shown=None, absent="zero",
            rest=[("all", sum(counts), sum(self.totals))],
        )  # fmt: skip


def summary(
    trace: Trace,
    target: Target,
    *,
    query: str | Query = everything,
    mlp: MlpMode = "gate",
    k: int = 12,
    seconds: float | None = None,
    progress: bool = False,
) -> Summary:
    """Take a run apart: freeze it, expand the paths that a query accepts, rank, total and verify them.

    Raises FreezeError for an unknown way to treat MLPs, QueryError for a query that cannot be read. Costs a few
    forward passes and the search for the k largest terms (see `Expansion.top`).
    """
    graph = freeze(trace, mlp=mlp)  # 3
    terms = expand(graph, query)  # 4 and 5
    return Summary(trace, terms, target, k, seconds, progress)  # 6 and 7, when they are read
