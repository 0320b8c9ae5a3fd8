"""What is found of a score: what each kind of term does to it, and its largest terms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import ClassVar, TypeAlias, overload

from ...answer import Answer, Check, Facts, Part, Table, columns
from ...errors import PathexpError
from ..header import counted
from ..proof.ranking_check import RankingCheck
from ..resolution import is_resolved, margin, tied_places, ties
from .largest import LargestPairs
from .term import PositionBias, ScoreTerm

AnyScoreTerm: TypeAlias = ScoreTerm | PositionBias


@dataclass(frozen=True)
class Effect:
    """What one kind of term adds to a score, and what the softmax makes of it.

    `value` is added to the score, `advantage` to the score above the mean of the other visible keys;
    `attention` is the run's, `without` what it would be if these terms were removed.
    """

    kind: str
    count: int
    value: float
    advantage: float
    attention: float
    without: float


def effects_table(effects: Sequence[Effect], count: int, value: float, advantage: float) -> Table:
    """Return the effects of all kinds, and what all terms add."""
    head = (
        columns.text("kind"), columns.count("count", "terms"), columns.number("value", "contribution"),
        columns.number("advantage"), columns.number("without", "attention if removed", signed=False),
        columns.hidden("attention"),
    )  # fmt: skip
    rows = [(e.kind, e.count, e.value, e.advantage, e.without, e.attention) for e in effects]
    rest = [("all", count, value, advantage, None, None)]
    return Table(head, rows, "kinds", key=("kind",), value="value", rest=rest, absent="zero")


@dataclass(frozen=True, eq=False, repr=False)
class ScoreRanking(Answer):
    """The terms of largest |value| in a score, as a sequence; value + remainder is the sum of all terms.

    `examined` pairs of paths were multiplied out; no term that is not listed exceeds `bound` in size, rounding included.
    `exact` says that the ranking is proven, `margin` how far rounding can blur its end, `errors` how far each value may be off.
    """

    live: ClassVar[frozenset[str]] = frozenset({"terms", "checker"})

    terms: tuple[AnyScoreTerm, ...]
    values: tuple[float, ...]
    remainder: float
    examined: int
    count: int
    bound: float
    exact: bool = True
    margin: float = 0.0
    errors: tuple[float, ...] = ()
    checker: Callable[[ScoreRanking], tuple[Check, ...]] | None = None

    def check(self) -> ScoreRankingCheck:
        """Return what code that shares only the graph with the ranking says of it: every pair of paths again.

        Both sides are pushed forward from their sources with a bound on the rounding of each number. Costs all paths of both
        sides and all their products. Raises PathexpError for a copy that has lost its graph.

        >>> import pathexp as px
        >>> trace = px.load("attn-2l").run("the king and the")
        >>> px.score(trace, "L1H0", query=3, key=1).top(3).check().ok
        True
        """
        if self.checker is None:
            raise PathexpError("this ranking is a copy without its graph; check the one that top() returned")
        return ScoreRankingCheck(self.checker(self))

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, index: int) -> AnyScoreTerm: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[AnyScoreTerm, ...]: ...
    def __getitem__(self, index: int | slice) -> AnyScoreTerm | tuple[AnyScoreTerm, ...]:
        return self.terms[index]

    def __iter__(self) -> Iterator[AnyScoreTerm]:
        return iter(self.terms)

    @property
    def value(self) -> float:
        """The signed sum of the listed terms."""
        return float(sum(self.values))

    @property
    def ties(self) -> int:
        """How many terms at the end of the list differ from what is not listed by less than rounding."""
        return ties(self.values, self.margin, self.bound)

    @property
    def complete(self) -> bool:
        """Whether the ranking is proven."""
        return self.exact

    def headline(self) -> str:
        """Return how many terms of how many, and whether they are proven to be the largest."""
        tied = f"; {tied_places(self.values, self.ties)} within rounding" if self.ties else ""
        proof = f"proven{tied}" if self.exact else f"not proven: rounding blurs {self.bound:.4g}"
        return f"the {len(self)} largest in absolute value of {counted(self.count, 'term')} ({proof})"

    def parts(self) -> Iterator[Part]:
        """Yield the terms with the exact remainder."""
        yield self.table()
        yield self.facts()

    def facts(self) -> Facts:
        """Return the sums, the bound on what is not listed, and what rounding does to both."""
        names = ("value", "remainder", "bound", "exact", "margin", "ties", "examined", "count")
        return Facts({name: getattr(self, name) for name in names})

    def table(self, title: str = "") -> Table:
        """Return the terms as a table, and what all others add."""
        head = (
            columns.path("query_path", "query path"), columns.path("key_path", "key path"), columns.text("kind"),
            columns.number("value", "contribution"), columns.number("advantage"), columns.flag("no_effect"),
            columns.formula("formula"), columns.hidden("latex"),
        )  # fmt: skip
        others = self.count - len(self)
        rest = [(counted(others, "other term"), "", "", self.remainder, None, None, None, None)]
        return Table(
            head, map(_row, self.terms, self.values), "terms", title, key=("query_path", "key_path"), value="value", shown=None,
            rest=rest if others else [], absent="zero",
        )  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class ScoreRankingCheck(RankingCheck):
    """What was checked of a score's largest terms."""

    def ranked(self) -> str:
        """Return what is ranked."""
        return "of pairs of paths"


def ranked(
    pairs: LargestPairs,
    bias: PositionBias | None,
    k: int,
    total: float,
    count: int,
    checker: Callable[[ScoreRanking], tuple[Check, ...]] | None = None,
) -> ScoreRanking:
    """Return the k largest of some pairs of paths and of what distance adds, and what all others add."""
    alone = [] if bias is None else [bias]
    terms: list[AnyScoreTerm] = [*alone, *pairs.terms]
    added = [*(one.value for one in alone), *pairs.values]
    errors = [*(one.error for one in alone), *pairs.errors]
    sizes = [abs(value) if isfinite(value) else inf for value in added]
    order = sorted(range(len(terms)), key=lambda at: -sizes[at])
    found, off = [terms[at] for at in order[:k]], tuple(errors[at] for at in order[:k])
    values = tuple(added[at] for at in order[:k])
    bound = max([pairs.beyond, *(sizes[at] + errors[at] for at in order[k:])])
    blurred = margin(values, off, bound)
    sure = len(values) == min(k, count) and is_resolved(values, blurred) and isfinite(bound)
    return ScoreRanking(
        tuple(found), values, total - sum(values), pairs.examined + len(alone), count, bound, sure,
        blurred if sure else 0.0, off, checker,
    )  # fmt: skip


def _row(term: AnyScoreTerm, value: float) -> tuple[object, ...]:
    paths = (
        ("ALiBi", "")
        if isinstance(term, PositionBias)
        else (str(term.query_term.path), str(term.key_term.path))
    )
    return (*paths, term.kind, value, term.advantage, term.no_effect, term.formula, term.latex())


def orders_table(counts: Sequence[Sequence[int]], totals: Sequence[Sequence[float]]) -> Table:
    """Return the totals of pairs of paths by query order and key order, the largest in absolute value first."""
    cells = [
        (a, b, counts[a][b], float(totals[a][b]))
        for a in range(len(counts))
        for b in range(len(counts[0]))
        if counts[a][b]
    ]
    head = (
        columns.count("query_order"), columns.count("key_order"), columns.count("count", "pairs of paths"),
        columns.number("value", "contribution"),
    )  # fmt: skip
    rows = sorted(cells, key=lambda cell: -abs(cell[-1]))
    return Table(
        head, rows, "orders", key=("query_order", "key_order"), value="value", additive=True, absent="zero"
    )
