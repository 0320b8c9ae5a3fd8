"""The terms of an attention score as symbols, from sizes alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

from ...answer import Answer, Facts, Part, Table, columns
from ...arguments import TEXT, expect, one_of, whole
from ...graph import ResidualGraph
from ...model import Config, Model, load
from ...model.config import CHOICES
from ..header import counted
from .score_formulas import ScoreFormulas
from .term import POSITION_BIAS, ScoreTerm

POSITIONS = tuple(name for name in CHOICES["positions"] if name)


@dataclass(frozen=True, eq=False, repr=False)
class ScoreDerivation(Answer):
    """The first terms of a head's scores as formulas, and how many there are in all.

    >>> import pathexp as px
    >>> found = px.derive_score(layers=2, heads=1)
    >>> found.count, found.complete, found.records()[1]["formula"]
    (4, True, 'Id ⊗ A_L0H0 ⊗ W_Eᵀ W_QK_L1H0 W_OV_L0H0 W_E')
    """

    live: ClassVar[frozenset[str]] = frozenset({"formulas", "terms"})

    formulas: ScoreFormulas
    terms: tuple[ScoreTerm, ...]

    @property
    def count(self) -> int:
        """How many pairs of paths there are."""
        return self.formulas.count()

    @property
    def complete(self) -> bool:
        """Whether every term is listed."""
        return len(self.terms) == self.count

    @property
    def factor(self) -> tuple[str, str, str]:
        """What multiplies all terms, and its inverse as text and as LaTeX."""
        c = self.formulas.config
        if c is None or c.attention_scale * c.d_head**0.5 == 1.0:
            return "1/√d_head", "√d_head", r"\sqrt{d_{head}}"
        return f"{c.attention_scale:.4g}", f"{1 / c.attention_scale:.4g}", f"{1 / c.attention_scale:.4g}"

    def headline(self) -> str:
        """Return whose score is a sum of how many terms."""
        formulas = self.formulas
        apart = f", for a key {formulas.distance} before its query" if formulas.by_distance else ""
        return f"a score of {formulas.head} is {self.factor[0]} times {counted(self.count, 'term')} A ⊗ B ⊗ W{apart}"

    def parts(self) -> Iterator[Part]:
        """Yield the terms, and the position bias if there is one."""
        yield Facts({"head": self.formulas.head, "count": self.count, "listed": len(self.terms)})
        yield Facts({"complete": self.complete, "position_bias": self.formulas.position_bias})
        head = (
            columns.path("query_path", "query path"), columns.path("key_path", "key path"), columns.text("kind"),
            columns.formula("formula", "term"), columns.hidden("latex"),
        )  # fmt: skip
        rows = [
            (str(t.query_term.path), str(t.key_term.path), t.kind, t.formula, t.latex()) for t in self.terms
        ]
        key = ("query_path", "key_path")
        yield Table(head, rows, "terms", key=key, shown=None, rest=list(self._rest()))

    def _rest(self) -> Iterator[tuple[str, ...]]:
        if left := self.count - len(self.terms):
            yield f"… {left:,} more of {self.count:,}; --max-terms lists more", "", "", "", ""
        if self.formulas.position_bias:
            yield "", "", POSITION_BIAS, f"-{self.factor[1]} · {self.formulas.position_bias}", ""

    def to_latex(self, *, top: int | None = None) -> str:
        """Return the sum of the terms in the papers' notation, one term a line."""
        left, scale = self.count - len(self.terms), self.factor[2]
        body = " \\\\\n  &+ ".join(term.latex() for term in self.terms)
        if left:
            body += f" \\\\\n  &+ \\cdots \\text{{ ({left:,} more of {self.count:,} terms)}}"
        if self.formulas.position_bias:
            body += f" \\\\\n  &- {scale} \\cdot \\mathrm{{slope}} \\cdot |i - j|"
        return f"\\begin{{aligned}}\n{scale} \\, S = {{}}& {body}\n\\end{{aligned}}"


def derive_score(
    head: str = "L1H0",
    *,
    layers: int = 2,
    heads: int = 2,
    positions: str = "none",
    distance: int = 1,
    model: str | Model | Config | None = None,
    max_terms: int = 200,
) -> ScoreDerivation:
    """Return the terms of a head's attention score as symbols, from sizes alone or those of a model.

    Parameters
    ----------
    layers, heads, positions: an attention-only stack, and how positions enter ("none", "learned", "rotary", …).
    distance: under rotary positions, how far the key is before the query.
    model: the sizes and switches of a model instead: its name or file, itself, or its configuration.
    max_terms: how many terms to list.

    Raises PathexpError for sizes that are not integers ≥ 1, GraphError if there is no such head. Elhage et al. 2021,
    "Path Expansion of Attention Scores QK Circuit".

    >>> import pathexp as px
    >>> px.derive_score("L5H0", layers=6, heads=8, max_terms=1).count
    3486784401
    """
    sizes = {"layers": (layers, whole(1)), "heads": (heads, whole(1)), "max_terms": (max_terms, whole(1))}
    expect("derive_score", head=(head, TEXT), positions=(positions, one_of(*POSITIONS)), **sizes)
    expect("derive_score", distance=(distance, whole()))
    formulas = _formulas(head, layers, heads, positions, distance, model)
    return ScoreDerivation(formulas, tuple(islice(formulas, max_terms)))


def _formulas(
    head: str, layers: int, heads: int, positions: str, distance: int, model: str | Model | Config | None
) -> ScoreFormulas:
    """The terms of a model, or of sizes alone."""
    if model is not None:
        found = load(model) if isinstance(model, str) else model
        return ScoreFormulas.of(found.config if isinstance(found, Model) else found, head, distance)
    graph = ResidualGraph.attention_only(layers, heads)  # refuses sizes nobody can lay out
    if positions == "none":
        return ScoreFormulas(graph, head)
    config = Config(
        n_layers=layers, n_heads=heads, d_model=2 * heads, d_head=2, d_vocab=1, n_ctx=1, positions=positions,
    )  # fmt: skip
    return ScoreFormulas.of(config, head, distance)
