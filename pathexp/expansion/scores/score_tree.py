"""An attention score as a pair of trees: query paths that meet the whole key, key paths that meet the whole query.

score(i, j) = Σ over bundles p of query paths, q of key paths of scale · (what p brings to the query at i)ᵀ R (what q
brings to the key at j). Every such product is exact, so that the pairs add up to both trees and to the score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from ...answer import Answer, Check, Facts, Matrix, Note, Part
from ...graph import Array
from ..expansion import Expansion
from ..header import amount, counted, matching
from ..tree import Tree
from ..tree.drawing import drawn, flame, signed, table
from ..tree.shown import BRANCHES, ROWS, largest_branches
from .pair import Pair

SHOWN = 6
"""How many of a tree's largest branches are told apart in the matrix of pairs; the others are summed up."""


@dataclass(frozen=True, eq=False)
class Bundles:
    """A partition of one side's paths: the largest branches below a tree's root, and all others together.

    `vectors` (bundles, d_head) are what each brings to the query, or to the key as the query meets it.
    """

    labels: tuple[str, ...]
    vectors: Array


@dataclass(frozen=True, eq=False, repr=False)
class ScoreTree(Answer):
    """The trees of both sides of one attention score, and the sums over pairs of their branches.

    The position bias, which no path brings, is in neither tree.

    >>> import pathexp as px
    >>> trace = px.induction_model().run([5, 2, 7, 3, 5, 2])
    >>> found = px.score(trace, "L1H0", query=-1, key=2).tree(nodes=5)
    >>> found.ok, found.queries.root.query, found.keys.root.children[0].query
    (True, 'S .* Q', 'S .* L0H0 K')
    """

    live: ClassVar[frozenset[str]] = frozenset({"all_queries", "all_keys", "queries", "keys"})

    pair: Pair
    all_queries: Expansion
    all_keys: Expansion
    queries: Tree
    keys: Tree
    value: float
    tolerance: float

    def headline(self) -> str:
        """Return whose score these are the trees of, and of how many pairs of paths."""
        count = self.queries.count * self.keys.count
        return (
            f"score of {self.pair.head}, query {self.pair.query}, key {self.pair.key}: {signed(self.value)} = the sum of "
            f"{amount(count)} {'pair' if count == 1 else 'pairs'} of paths{self._narrowed()}, as a tree of each side"
        )

    def _narrowed(self) -> str:
        """What the pairs leave out of the score: paths that match no query of a side, the position bias."""
        sides = (("query", self.queries), ("key", self.keys))
        said = [f"{side} paths{chosen}" for side, tree in sides if (chosen := matching(tree.query))]
        if self.pair.form.slope:
            said.append("without the position bias")
        return f" ({', '.join(said)})" if said else ""

    @property
    def complete(self) -> bool:
        """Whether no tree was interrupted."""
        return self.queries.complete and self.keys.complete

    def parts(self) -> Iterator[Part]:
        """Yield the tree of either side, the sums over pairs of branches, and the checks."""
        yield Facts(
            {"head": self.pair.head, "query": self.pair.query, "key": self.pair.key, "value": self.value}
        )
        for side, tree in (("query", self.queries), ("key", self.keys)):
            yield from _side(side, tree)
        yield self.pairs()
        yield from self.checks()

    def pairs(self) -> Matrix:
        """Return what pairs of branches add to the score: (query bundles, key bundles); all entries add up to it."""
        query, key = self._bundles
        return Matrix(
            "pairs", query.labels, key.labels, self._products, "pairs of branches, query paths by key paths",
            row_axis="query paths", column_axis="key paths",
        )  # fmt: skip

    def checks(self) -> Iterator[Check]:
        """Yield whether pairs add up to the branches of both trees, and to the score."""
        source = "rounding of both sides and of their product"
        for axis, side, tree in ((1, "query", self.queries), (0, "key", self.keys)):
            sums, branches = self._products.sum(axis=axis), tree.root.children[:SHOWN]
            values = [branch.value for branch in branches]
            error = float(np.abs(sums[: len(values)] - values).max(initial=0.0))
            yield Check(
                f"pairs add up to the {side} branches", error, self.tolerance, source, name=f"{side}_pairs"
            )
        error = abs(float(self._products.sum()) - self.value)
        yield Check("pairs add up to the score", error, self.tolerance, source, name="pairs")

    @cached_property
    def _products(self) -> Array:
        query, key = self._bundles
        return np.asarray(self.pair.scale * (query.vectors @ key.vectors.T))

    @cached_property
    def _bundles(self) -> tuple[Bundles, Bundles]:
        return (
            _bundles(self.all_queries, self.queries, lambda side: side.logits()[self.pair.query]),
            _bundles(self.all_keys, self.keys, self._met),
        )

    def _met(self, side: Expansion) -> Array:
        """What key paths bring to the key, as the query meets it."""
        return np.asarray(self.pair.form.met(side.logits(), self.pair.query)[self.pair.key])


def _bundles(side: Expansion, tree: Tree, vector: Callable[[Expansion], Array]) -> Bundles:
    """The largest branches and the rest of one side. Costs one forward pass up to the head a branch."""
    branches = tree.root.children
    shown = [vector(side.where(branch.query)) for branch in branches[:SHOWN]]
    if len(branches) <= SHOWN and branches:
        return Bundles(tuple(branch.query for branch in branches), np.stack(shown))
    rest = vector(side) - np.sum(shown, axis=0) if shown else vector(side)
    labels = [branch.query for branch in branches[:SHOWN]]
    labels.append(f"… {len(branches) - SHOWN} more" if branches else tree.root.query)
    return Bundles(tuple(labels), np.stack([*shown, rest]))


def _side(side: str, tree: Tree) -> Iterator[Part]:
    """One tree: as text, as a table, as a picture, with its check; their names say which side they are of."""
    shown, rows = largest_branches(tree.root, BRANCHES), largest_branches(tree.root, ROWS)
    yield Note(
        drawn(shown[0]),
        f"{side} paths, meeting the whole {_OTHER[side]} ({counted(tree.nodes, 'node')} opened)",
    )
    yield replace(table(rows, "", len(tree)), name=f"{side}_nodes")
    yield replace(tree.balance, name=f"{side}_balance")
    yield replace(flame(rows, f"{side} paths of {tree.target.label}", ""), name=f"{side}_tree")


_OTHER = {"query": "key", "key": "query"}
