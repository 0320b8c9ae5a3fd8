"""One term of an expansion, in all its forms: path, formula, pattern ⊗ weight, logits, number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ..algebra import Identity, LinearMap, Space
from ..answer.mathml import mathml
from ..arguments import expect, instance
from ..errors import FreezeError
from ..graph import Array, Operator, ResidualGraph, Source, Step, Walk, start_value, word_map
from ..model import Target
from . import symbolic
from .path import Path, is_straight, operator_of, stream_operator_of
from .targets import on_stream, reads_output

if TYPE_CHECKING:
    import sympy as sp


@dataclass(frozen=True, eq=True)
class Term:
    """The contribution of one path to the logits.

    >>> import pathexp as px
    >>> term = px.expand(px.ResidualGraph.attention_only(layers=2, heads=2))["E L0H1 L1H0 U"]
    >>> term.order, term.formula
    (2, 'A_L1H0 A_L0H1 ⊗ W_U W_OV_L1H0 W_OV_L0H1 W_E')
    """

    graph: ResidualGraph
    path: Path

    def __repr__(self) -> str:
        return f"Term({str(self.path)!r})"

    def _repr_html_(self) -> str:
        return f'<div class="pathexp"><p><code>{self.path}</code></p><p>{mathml(self.latex())}</p></div>'

    def _repr_latex_(self) -> str:
        return f"${self.latex()}$"

    @property
    def order(self) -> int:
        """How many components the path passes; 0 is the direct path, W_U W_E."""
        return len(self.path) - 2

    @property
    def source(self) -> Source:
        """The source at which the path starts."""
        node = self.graph.by_label[self.path[0]]
        assert isinstance(node, Source)
        return node

    @cached_property
    def operator(self) -> Operator:
        """The factors of the path, from its source to the logits."""
        return operator_of(self.path, self.graph)

    # As a formula --------------------------------------------------------------------------------------

    @property
    def expr(self) -> sp.MatrixExpr:
        """The term as a sympy matrix expression, `A ⊗ W` (a product of such around gates)."""
        return symbolic.expression(self.operator, self.graph, symbolic.start_width(self.source.start))

    def latex(self) -> str:
        """The term in the papers' notation, such as A^{1.0} A^{0.1} ⊗ W_U W_{OV}^{1.0} … W_E."""
        return symbolic.latex(self.operator)

    @property
    def formula(self) -> str:
        """The term as one line of plain text; `Id` is the identity on positions."""
        return symbolic.formula(self.operator)

    # As matrices ---------------------------------------------------------------------------------------

    @property
    def pattern(self) -> Array:
        """The position part: (query position, key position), the product of the path's patterns.

        Frozen norm scales are part of it. Raises FreezeError if a gate keeps the term from splitting as ⊗.
        For a constant it is the column (position, 1).
        """
        product = word_map(self._single_step().position)
        if product is None:
            return np.eye(self.graph.sizes[0])
        return product.dense()

    @property
    def weight(self) -> LinearMap:
        """The feature part: a factored map from the source's space to the vocabulary (virtual weight).

        Elhage et al. 2021, "Virtual Weights and the Residual Stream as a Communication Channel". Its
        `rank_bound` is at most the narrowest head on the path. Raises FreezeError as `pattern` does.
        """
        product = word_map(self._single_step().feature)
        if product is None:
            return Identity(Space("stream", self.graph.sizes[1]))
        return product

    def _single_step(self) -> Step:
        match self.operator:
            case (Step() as step,):
                return step
        gates = ", ".join(part.name for part in self.operator if not isinstance(part, Step))
        raise FreezeError(
            f"term {str(self.path)!r} is no single A ⊗ W: the gates {gates} act on (position, neuron) pairs. "
            "Use .operator for its factors, or make single neurons components."
        )

    # As numbers ----------------------------------------------------------------------------------------

    def stream(self) -> Array:
        """What the path brings to the final stream, before the sink reads it: (position, d_model)."""
        if is_straight(self.path, self.graph):
            return np.zeros(self.graph.sizes[:2])
        return start_value(self.source.start, stream_operator_of(self.path, self.graph))

    def logits(self) -> Array:
        """What the path adds to the logits: (position, d_vocab). O(path length · n · d_model · d_head)."""
        return start_value(self.source.start, self.operator)

    def value(self, target: Target) -> float:
        """What the path adds to a target, in the target's units (logits for a logit target)."""
        if is_straight(self.path, self.graph):
            read = reads_output(target, self.graph)
            return float(self.logits()[target.position] @ target.direction) if read else 0.0
        return float(np.vdot(on_stream(target, self.graph), self.stream()))

    def with_graph(self, graph: ResidualGraph) -> Term:
        """The same path on another run's graph. Raises PathexpError for anything else."""
        expect("with_graph", graph=(graph, instance(ResidualGraph, "a residual graph")))
        return replace(self, graph=graph)


def terms_of(walk: Walk) -> Iterator[Term]:
    """Stream the terms of a walk in its fixed order."""
    graph = walk.graph
    return (Term(graph, Path(word)) for word in walk.words())
