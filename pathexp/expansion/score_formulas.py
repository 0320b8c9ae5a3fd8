"""The terms of an attention score as formulas, from sizes alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..graph import ResidualGraph
from ..graph.form import ScoreForm
from ..graph.reading import Side, reading_graph_of_sizes
from .expansion import Expansion
from .path import Path
from .score_term import Pair, ScoreTerm
from .term import Term


@dataclass(frozen=True)
class ScoreFormulas:
    """The pairs of paths whose products make a head's scores, without numbers and without its own biases.

    Terms are read by their `formula`, `latex()`, `kind` and paths; the attention scale, a common factor, is left
    out. They come by the sum of their orders. Elhage et al. 2021, "Path Expansion of Attention Scores QK Circuit".

    >>> import pathexp as px
    >>> terms = ScoreFormulas(px.ResidualGraph.attention_only(layers=2, heads=1), "L1H0")
    >>> terms.count()
    4
    >>> [term.formula for term in terms][1]
    'Id ⊗ A_L0H0 ⊗ W_Eᵀ W_QK_L1H0 W_OV_L0H0 W_E'
    """

    graph: ResidualGraph
    head: str

    @cached_property
    def sides(self) -> tuple[Expansion, Expansion]:
        """The paths into the query and into the key."""
        query, key = (Expansion(reading_graph_of_sizes(self.graph, self.head, side)) for side in _SIDES)
        return query, key

    def count(self) -> int:
        """How many pairs of paths there are, exactly."""
        return self.sides[0].count() * self.sides[1].count()

    def __iter__(self) -> Iterator[ScoreTerm]:
        """Stream the terms by the sum of their orders, then by that of the query path."""
        queries, keys = self.sides
        most = len(queries.count_by_order())
        for total in range(2 * most - 1):
            for a in range(max(0, total - most + 1), min(most, total + 1)):
                yield from (
                    ScoreTerm(self._pair, query, key)
                    for query in _of_order(queries, a)
                    for key in _of_order(keys, total - a)
                )

    @property
    def _pair(self) -> Pair:
        """No pair of positions in particular, and no scale."""
        return Pair(self.head, 0, 0, ScoreForm(1, 1.0), np.ones(1, dtype=bool), np.ones(1))


_SIDES: tuple[Side, Side] = ("Q", "K")


def _of_order(side: Expansion, order: int) -> Iterator[Term]:
    return (Term(side.graph, Path(word)) for word in side.walk.words_of_order(order))
