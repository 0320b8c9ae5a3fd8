"""Attention scores as exact sums over pairs of paths: one into the query, one into the key.

score(i, j) = scale · Σ (query path at i)ᵀ R (key path at j), before the softmax, over all paths of the frozen
run that reach the head's query and key, biases and positions included. Elhage et al. 2021, "Path Expansion of
Attention Scores QK Circuit", to any depth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...answer import Answer, Check, Facts, Figure, Note, Part, visible
from ...arguments import AMOUNT, TEXT, Kind, expect, instance, sequence_of
from ...errors import PathexpError, SizeError
from ...graph import Array, Query, freeze
from ...graph.reading import head_component
from ...model import Target, Trace
from ..expansion import Expansion
from ..header import counted, run_facts
from ..path import Path
from ..proof import Listed, Side, check_pairs
from ..ranking import Ranking
from ..tree import Direction
from ..verdict import root_mean_square
from .largest import largest_pairs, terms_of_order
from .pair import Pair
from .results import AnyScoreTerm, Effect, ScoreRanking, effects_table, orders_table, ranked
from .score_tree import ScoreTree
from .term import KINDS, POSITION_BIAS, PositionBias, ScoreTerm, kind_of
from .verdict import ONE_BY_ONE, ScoreVerdict, score_tolerance, verify_score

_TWO = sequence_of(instance(object, "a path"), "a query path and a key path", 2)
_SOME = Kind(
    "a kind of terms, or several",
    lambda kind: (
        TEXT.holds(kind) or (isinstance(kind, list | tuple | set | frozenset) and all(map(TEXT.holds, kind)))
    ),
)


@dataclass(frozen=True, eq=False, repr=False)
class ScoreExpansion(Answer):
    """The terms of one attention score, of some or all kinds; nothing is listed until asked.

    `queries` and `keys` are expansions of the query vectors and the key vectors, (position, d_head), with the
    sinks `Q` and `K`. Terms come by the sum of their orders, then by the query path, then by the key path;
    the position bias, if there is one, last.

    >>> import pathexp as px
    >>> trace = px.induction_model().run([5, 2, 7, 3, 5, 2])
    >>> terms = px.score(trace, "L1H0", query=-1, key=2)
    >>> terms.count(), terms.verify().ok
    (16, True)
    >>> {kind: round(value, 3) for kind, value in terms.by_kind().items()}
    {'direct': 0.0, 'Q-composition': 0.0, 'K-composition': 14.773, 'joint': 0.0}
    >>> terms.top(1).terms
    (ScoreTerm('E Q × E L0H0 K'),)
    """

    live: ClassVar[frozenset[str]] = frozenset({"trace", "queries", "keys"})

    trace: Trace
    pair: Pair
    queries: Expansion
    keys: Expansion
    kinds: tuple[str, ...] = KINDS
    k: int = 12
    """How many of the largest terms are printed."""
    nodes: int | None = None
    """How many nodes of each side's tree are printed as well, if any."""

    def headline(self) -> str:
        """Return whose score of which key for which query this expands."""
        query, key = (visible(self.trace.token_strings[at]) for at in (self.pair.query, self.pair.key))
        chosen = "" if self.kinds == KINDS else f" ({', '.join(self.kinds)})"
        return (
            f"{counted(self.count(), 'term')}{chosen} of the score of {self.pair.head}, query {self.pair.query} "
            f"{query}, key {self.pair.key} {key}"
        )

    def parts(self) -> Iterator[Part]:
        """Yield the score, its kinds of terms, the largest, totals by order, the verdict, and all keys by kind."""
        attention = float(self.pattern()[self.pair.key])
        yield run_facts(self.trace)
        yield Facts(
            {"head": self.pair.head, "query": self.pair.query, "key": self.pair.key, "count": self.count()}
        )
        yield Facts({"score": self.whole().value(), "attention": attention})
        yield Note(f"score {self.whole().value():+.4f} before the softmax, attention {attention:.4f}")
        yield effects_table(self.effects(), self.count(), self.value(), self.advantage())
        yield from self._largest()
        if self.nodes is not None:
            trees = self.tree(nodes=self.nodes)
            yield Note(trees.headline())
            yield from (part for part in trees.parts() if not isinstance(part, Facts))
        yield orders_table(self.count_by_order(), self.by_order().tolist())
        yield self._checked()
        yield self._picture()

    def _largest(self) -> Iterator[Part]:
        """The largest terms, or why they cannot be ranked."""
        try:
            ranking = self.top(self.k)
        except SizeError as error:
            yield Note(f"the terms cannot be ranked: {error}")
        else:
            yield ranking.table(ranking.headline())
            yield ranking.facts()

    def _checked(self) -> Part:
        """The verdict; none of a graph that was changed by hand."""
        changed = self.queries.graph.changed
        return Note(f"not verified: {'; '.join(changed)}") if changed else self.verify().check

    def _picture(self) -> Figure:
        """What each kind of term adds to the score of every key, as a heat map."""
        rows = self.rows_by_kind()
        tokens = [f"{at} {visible(token)}" for at, token in enumerate(self.trace.token_strings)]
        data = {"rows": list(rows), "columns": tokens, "values": list(rows.values())}
        return Figure(
            "heatmap", "keys", data, f"scores of {self.pair.head} for query {self.pair.query}, by kind"
        )

    # Counting and listing ------------------------------------------------------------------------------

    def count(self) -> int:
        """How many terms there are, exactly, the position bias included."""
        return sum(map(sum, self.count_by_order())) + (self.position_bias is not None)

    def count_by_order(self) -> tuple[tuple[int, ...], ...]:
        """How many pairs of paths there are: entry [a][b] for query paths of order a and key paths of order b."""
        return self._counts

    @cached_property
    def _counts(self) -> tuple[tuple[int, ...], ...]:
        queries, keys = self.queries.count_by_order(), self.keys.count_by_order()
        return tuple(
            tuple(q * k if kind_of(a, b) in self.kinds else 0 for b, k in enumerate(keys))
            for a, q in enumerate(queries)
        )

    def count_by_kind(self) -> dict[str, int]:
        """How many terms there are of each kind that is present."""
        counts = np.array(self.count_by_order(), dtype=object)
        found = {kind: int(counts[self._cells(kind)].sum()) for kind in self._pair_kinds}
        return found if self.position_bias is None else found | {POSITION_BIAS: 1}

    def __iter__(self) -> Iterator[AnyScoreTerm]:
        """Stream the terms in their fixed order."""
        counts = self.count_by_order()
        for total in range(len(counts) + len(counts[0]) - 1):
            for a in range(len(counts)):
                if 0 <= total - a < len(counts[0]) and counts[a][total - a]:
                    yield from self._of_orders(a, total - a)
        if self.position_bias is not None:
            yield self.position_bias

    def _of_orders(self, a: int, b: int) -> Iterator[ScoreTerm]:
        for query in terms_of_order(self.queries, a):
            for key in terms_of_order(self.keys, b):
                yield ScoreTerm(self.pair, query, key)

    def __getitem__(self, paths: tuple[str | Path, str | Path]) -> ScoreTerm:
        """Return the term of one pair of paths, such as terms["E Q", "E L0H1 K"].

        Raises PathError if there is no such path, PathexpError if the pair's kind was left out.
        """
        expect("__getitem__", paths=(paths, _TWO))
        query, key = paths
        term = ScoreTerm(self.pair, self.queries[query], self.keys[key])
        if term.kind not in self.kinds:
            raise PathexpError(f"{term} is a {term.kind} term; these are only {', '.join(self.kinds)}")
        return term

    def where(
        self,
        kind: str | Iterable[str] | None = None,
        query: str | Query | None = None,
        key: str | Query | None = None,
    ) -> ScoreExpansion:
        """Return the terms of some kinds whose paths match path queries, such as key=".* L0H1 K".

        A condition on paths leaves the position bias out, which has none. Raises PathexpError for an unknown
        kind, QueryError as `Expansion.where` does.
        """
        kinds = self._chosen(kind)
        if query is not None or key is not None:
            kinds = tuple(kind for kind in kinds if kind != POSITION_BIAS)
        return replace(
            self,
            queries=self.queries if query is None else self.queries.where(query),
            keys=self.keys if key is None else self.keys.where(key),
            kinds=kinds,
        )

    def _chosen(self, kind: str | Iterable[str] | None) -> tuple[str, ...]:
        if kind is None:
            return self.kinds
        expect("where", kind=(kind, _SOME))
        wanted = {kind} if isinstance(kind, str) else set(kind)
        if unknown := sorted(wanted - set(KINDS)):
            raise PathexpError(f"unknown kind of term {unknown[0]!r}; choose from: {', '.join(KINDS)}")
        return tuple(kind for kind in self.kinds if kind in wanted)

    @cached_property
    def position_bias(self) -> PositionBias | None:
        """The term that distance alone adds, if the head has one and it was not left out."""
        return PositionBias(self.pair) if self.pair.form.slope and POSITION_BIAS in self.kinds else None

    @property
    def _pair_kinds(self) -> tuple[str, ...]:
        """The kinds of pairs of paths that were chosen; without paths of order 1 or more some are empty."""
        return tuple(kind for kind in self.kinds if kind != POSITION_BIAS)

    def _cells(self, kind: str) -> NDArray[np.bool_]:
        """Which cells (query order, key order) are of a kind."""
        shape = (len(self.queries.count_by_order()), len(self.keys.count_by_order()))
        return np.array([[kind_of(a, b) == kind for b in range(shape[1])] for a in range(shape[0])])

    # Sums ----------------------------------------------------------------------------------------------

    @cached_property
    def _parts(self) -> tuple[Array, Array]:
        """Query (2, d_head) and keys (2, position, d_head) as they meet, by paths of order 0 and by all others."""
        queries, keys = (side.walk.logits_with_and_without for side in (self.queries, self.keys))
        return queries[:, self.pair.query], self.pair.form.met(keys, self.pair.query)

    @cached_property
    def _kind_rows(self) -> dict[str, Array]:
        """The exact total of every kind of pairs that was chosen, (position,) each, not masked."""
        scales = self.pair.form.scale * self.pair.ratios
        totals = scales * np.einsum("ad,bjd->abj", *self._parts)
        return {kind_of(a, b): totals[a, b] for a in (0, 1) for b in (0, 1) if kind_of(a, b) in self.kinds}

    def by_order(self) -> Array:
        """Return the exact totals of all pairs, (query order, key order), without listing.

        Costs two forward passes up to the head per order and live state. The position bias is not in it.
        """
        if not self._pair_kinds:
            return np.zeros((len(self.queries.count_by_order()), len(self.keys.count_by_order())))
        queries = self.queries.by_order()[:, self.pair.query]
        keys = self.pair.form.met(self.keys.by_order(), self.pair.query)[:, self.pair.key]
        kept = np.any([self._cells(kind) for kind in self._pair_kinds], axis=0)
        return np.where(kept, self.pair.scale * (queries @ keys.T), 0.0)

    def by_kind(self) -> dict[str, float]:
        """Return the exact total of each kind of term, without listing."""
        return {kind: float(row[self.pair.key]) for kind, row in self.rows_by_kind().items()}

    def rows_by_kind(self) -> dict[str, Array]:
        """Return the exact total of each kind for every key, (position,); NaN where masked."""
        rows = {kind: self.pair.row(self._kind_rows[kind]) for kind in self._pair_kinds}
        return rows if self.position_bias is None else rows | {POSITION_BIAS: self.position_bias.row}

    def row(self) -> Array:
        """Return the exact sum of the terms for every key of this query, (position,); NaN where masked."""
        row = sum(self._kind_rows.values(), np.zeros(len(self.trace)))
        return self.pair.row(row if self.position_bias is None else row + self.position_bias.row)

    def value(self) -> float:
        """Return the exact sum of the terms, without listing them."""
        return float(self.row()[self.pair.key])

    def advantage(self) -> float:
        """Return what the terms add to the score above the mean of the other visible keys."""
        return self.pair.advantage(self.row())

    # The largest ---------------------------------------------------------------------------------------

    def top(self, k: int) -> ScoreRanking:
        """Return the k terms of largest absolute value, exactly, with what all others add.

        Raises SizeError above 200,000 paths on a side; the pairs themselves are not all formed.
        """
        expect("top", k=(k, AMOUNT))
        found = largest_pairs(self.pair, self.queries, self.keys, self.count_by_order(), int(k) + 1)
        return ranked(found, self.position_bias, int(k), self.value(), self.count(), self._check_of)

    def _check_of(self, ranking: ScoreRanking) -> tuple[Check, ...]:
        """Every pair of paths again, by code that shares only the graph with the ranking."""
        turn = self.pair.form.rotation(self.pair.query - self.pair.key)
        queries = Side(self.queries.walk, self.pair.query)
        keys = Side(self.keys.walk, self.pair.key, None if turn is None else turn.numbers().dense())
        listed = {
            (tuple(term.query_term.path), tuple(term.key_term.path)): value
            for term, value in zip(ranking.terms, ranking.values, strict=True)
            if isinstance(term, ScoreTerm)
        }
        counts = self.count_by_order()
        skipped = [(a, b) for a, row in enumerate(counts) for b, amount in enumerate(row) if not amount]
        return tuple(check_pairs(queries, keys, self.pair.scale, Listed(listed, ranking.bound), skipped))

    def top_keys(self, k: int) -> Ranking:
        """Return the k key paths of largest absolute value, each met by the whole query (all its paths at once).

        Values are those of the key paths summed over query paths, so that they and the remainder add up to the
        score (the position bias apart). As `Expansion.top`; kinds cannot be left out here.
        """
        return self.keys.top(k, self._met_by(self._parts[0].sum(axis=0), self.pair.key, "key", turned=True))

    def top_queries(self, k: int) -> Ranking:
        """Return the k query paths of largest absolute value, each meeting the whole key. As `top_keys`."""
        key = self._parts[1][:, self.pair.key].sum(axis=0)
        return self.queries.top(k, self._met_by(key, self.pair.query, "query", turned=False))

    def tree(
        self, *, nodes: int | None = None, seconds: float | None = None, direction: Direction = "back"
    ) -> ScoreTree:
        """Return the score as a pair of trees of exact sums: of its query paths and of its key paths.

        Each tree's target is the score with the other side whole; sums over pairs of branches are exact as well and add
        up to both. `nodes` and `seconds` limit each tree, as in `Expansion.tree`. The position bias is in neither; kinds
        cannot be left out here.
        """
        query, key = self._parts[0].sum(axis=0), self._parts[1][:, self.pair.key].sum(axis=0)
        toward_query = self._met_by(key, self.pair.query, "query", turned=False)
        toward_key = self._met_by(query, self.pair.key, "key", turned=True)
        queries = self.queries.tree(toward_query, nodes=nodes, seconds=seconds, direction=direction)
        keys = self.keys.tree(toward_key, nodes=nodes, seconds=seconds, direction=direction)
        tolerance = score_tolerance(self.pair, self.queries, self.keys)
        return ScoreTree(self.pair, self.queries, self.keys, queries, keys, toward_key.value, tolerance)

    def _met_by(self, other: Array, position: int, side: str, turned: bool) -> Target:
        """The score as a target on one side's vectors, the other side being given."""
        if set(self.kinds) | {POSITION_BIAS} != set(KINDS):
            raise PathexpError(
                f"{side} paths are ranked over pairs of every kind; these are {', '.join(self.kinds)}"
            )
        turn = self.pair.form.rotation(self.pair.query - self.pair.key) if turned else None
        read = self.pair.scale * (other if turn is None else turn.numbers().T.apply(other))
        value = float(sum(row[self.pair.key] for row in self._kind_rows.values()))
        label = f"score of {self.pair.head}, query {self.pair.query}, key {self.pair.key}"
        return Target(position, read, "logits", label, value)

    # The softmax ---------------------------------------------------------------------------------------

    def pattern(self) -> Array:
        """Return the run's attention of this query over keys, (position,)."""
        return np.array(self.trace.patterns[(*self._place, self.pair.query)])

    def pattern_without(self) -> Array:
        """Return what the attention of this query would be without these terms, all else as it was."""
        scores = self.trace.scores[(*self._place, self.pair.query)]
        return self.pair.attention(scores - np.nan_to_num(self.row()))

    def effects(self) -> tuple[Effect, ...]:
        """Return, for each kind of term, what it adds and what the softmax makes of it."""
        before = float(self.pattern()[self.pair.key])
        counts = self.count_by_kind()
        parts = [self.where(kind=kind) for kind in counts if counts[kind]]
        return tuple(
            Effect(
                part.kinds[0], part.count(), part.value(), part.advantage(), before,
                float(part.pattern_without()[self.pair.key]),
            )
            for part in parts
        )  # fmt: skip

    # Proof ---------------------------------------------------------------------------------------------

    @property
    def _place(self) -> tuple[int, int]:
        component = head_component(freeze(self.trace), self.pair.head)
        assert component.head is not None
        return component.layer, component.head

    def whole(self) -> ScoreExpansion:
        """Return all terms of this score."""
        return replace(
            self, queries=Expansion(self.queries.graph), keys=Expansion(self.keys.graph), kinds=KINDS
        )

    def verify(self) -> ScoreVerdict:
        """Compare the sum of all terms with the run's own score before the softmax.

        A narrowed expansion is compared together with the rest. Raises PathexpError if the graph was changed
        by hand, so that the run's score is not what it should add up to.
        """
        if changed := self.queries.graph.changed:
            raise PathexpError(f"the graph is not the run's own any more ({'; '.join(changed)})")
        row = self.trace.scores[(*self._place, self.pair.query)]
        expected, scale = float(row[self.pair.key]), root_mean_square(row[self.pair.visible])
        whole, values = self.whole(), None
        if self.count() <= ONE_BY_ONE:
            values = [term.value for term in self]
        return verify_score(
            values, self.value(), whole.value(), (self.count(), whole.count()),
            score_tolerance(self.pair, whole.queries, whole.keys), expected, scale,
        )  # fmt: skip
