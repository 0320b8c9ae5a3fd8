"""The terms of an attention score as formulas, from sizes alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ...graph import Factor, OneHot, Operator, ResidualGraph, Sink, Source, Step, chain
from ...graph.factors import Factors
from ...graph.form import ScoreForm
from ...graph.reading import Side, head_place, reading_graph_of_sizes
from ...model import Config
from ..expansion import Expansion
from .largest import terms_of_order
from .pair import Pair
from .term import ScoreTerm


@dataclass(frozen=True)
class ScoreFormulas:
    """The pairs of paths whose products make a head's scores, without numbers and without its own biases.

    Terms are read by their `formula`, `latex()`, `kind` and paths; the attention scale, a common factor, is left
    out. They come by the sum of their orders. `config` says how positions enter: added to the stream, to queries and
    keys alone, by one rotation per `distance` between query and key, or by slopes (`position_bias`). Elhage et al. 2021, "Path Expansion of Attention Scores QK Circuit".

    >>> import pathexp as px
    >>> terms = ScoreFormulas(px.ResidualGraph.attention_only(layers=2, heads=1), "L1H0")
    >>> terms.count()
    4
    >>> [term.formula for term in terms][1]
    'Id ⊗ A_L0H0 ⊗ W_Eᵀ W_QK_L1H0 W_OV_L0H0 W_E'
    """

    graph: ResidualGraph
    head: str
    config: Config | None = None
    distance: int = 1

    @classmethod
    def of(cls, config: Config, head: str, distance: int = 1) -> ScoreFormulas:
        """The terms of a head's scores in a model of a configuration, for a key `distance` positions before its query.

        >>> import pathexp as px
        >>> config = px.random_model(layers=1, heads=1, d_head=4, positions="rotary").config
        >>> [term.formula for term in ScoreFormulas.of(config, "L0H0", distance=3)]
        ['Id ⊗ Id ⊗ W_Eᵀ W_Q_L0H0ᵀ R_3 W_K_L0H0 W_E']
        """
        return cls(ResidualGraph.from_config(config), head, config, distance)

    @cached_property
    def sides(self) -> tuple[Expansion, Expansion]:
        """The paths into the query and into the key."""
        query, key = (Expansion(self._reading(side)) for side in _SIDES)
        return query, key

    def _reading(self, side: Side) -> ResidualGraph:
        """What one side reads, with a norm of its own, and positions that it alone reads."""
        graph, c = reading_graph_of_sizes(self.graph, self.head, side), self.config
        if c is None:
            return graph
        norm = self._norm(side, graph) if c.qk_norm else self._latent(side)
        graph = replace(graph, sink=Sink(side, chain(norm, graph.sink.operator)))
        if c.positions != "qk":
            return graph
        weight = Factor(f"W_{side}_{self.head}", graph.d_out, graph.d_model)
        word = Step((), (weight, Factor("W_pos", graph.d_model, c.n_ctx)))
        into: Mapping[str, Operator] = {side: chain(norm, (word,))}
        own = Source("P", "positions", OneHot("p", c.n_ctx), depth=None, into=into)
        return replace(graph, sources=(*graph.sources, own))

    def _norm(self, side: Side, graph: ResidualGraph) -> Operator:
        """The frozen norm of queries or keys."""
        name = f"{side.lower()}_{self.head}"
        scales = Factor(f"S_{name}", graph.positions, graph.positions)
        gain, center = (Factor(symbol, graph.d_out, graph.d_out) for symbol in (f"G_{name}", "C_head"))
        centers = self.config is not None and self.config.qk_norm == "layernorm"
        return (Step((scales,), (gain, center) if centers else (gain,)),)

    def _latent(self, side: Side) -> Operator:
        """The frozen norm of what queries or keys are made of, if there is one."""
        made = None if self.config is None else Factors.of(self.config)
        return made.head_norm(side, *head_place(made.config, self.head)) if made else ()

    @property
    def by_distance(self) -> bool:
        """Whether a rotation stands between query and key, one for each distance."""
        return self._pair.form.by_distance

    @property
    def position_bias(self) -> str | None:
        """What distance alone takes off, if anything, whatever the scale: ALiBi's slope times the distance."""
        return None if self.config is None or self.config.positions != "alibi" else "slope · |i - j|"

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
                    for query in terms_of_order(queries, a)
                    for key in terms_of_order(keys, total - a)
                )

    @property
    def _pair(self) -> Pair:
        """A pair of positions so far apart, and no scale."""
        size = max(self.distance, 0) + 1
        form = ScoreForm(1, 1.0)
        if self.config is not None:
            layer = head_place(self.config, self.head)[0]
            form = ScoreForm(self.config.d_head, 1.0, self.config.rotary_of(layer))
        return Pair(self.head, self.distance, 0, form, np.ones(size, dtype=bool), np.ones(size))


_SIDES: tuple[Side, Side] = ("Q", "K")
