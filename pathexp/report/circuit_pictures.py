"""Pictures of what circuits do, as SVG: scores by kind, heads by kind."""

from __future__ import annotations

import numpy as np

from ..circuits.heads.head_types import HeadKinds
from ..circuits.heads.repeated_tokens import KINDS
from ..expansion import ScoreExpansion
from .svg import heat_map
from .text import visible


def draw_score(terms: ScoreExpansion) -> str:
    """Return a heat map of what each kind of term adds to a query's score of every key.

    >>> import pathexp as px
    >>> trace = px.induction_model().run([5, 2, 7, 3, 5, 2])
    >>> draw_score(px.expand_score(trace, "L1H0", 5, 2)).count("<rect") > 24
    True
    """
    rows = terms.rows_by_kind()
    tokens = [f"{i} {visible(token)}" for i, token in enumerate(terms.trace.token_strings)]
    return heat_map(
        list(rows.values()), list(rows), tokens,
        title=f"scores of {terms.pair.head} for the query at {terms.pair.query}, by kind of term", column_name="key",
    )  # fmt: skip


def draw_kinds(kinds: HeadKinds) -> str:
    """Return a heat map of every head's mean attention to where each kind looks.

    >>> import pathexp as px
    >>> draw_kinds(px.head_kinds(px.induction_model())).startswith("<svg")
    True
    """
    values = np.array([[each.attention[kind] for kind in KINDS] for each in kinds.heads]).reshape(
        -1, len(KINDS)
    )
    names = [each.label for each in kinds.heads]
    return heat_map(values, names, KINDS, title="attention on random tokens said twice")
