"""Pictures of what circuits do, as SVG: scores by kind, heads by kind, bigrams, skip-trigrams, virtual heads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..circuits.bigrams import Bigrams
from ..circuits.heads.head import head
from ..circuits.heads.head_types import HeadKinds
from ..circuits.heads.repeated_tokens import KINDS
from ..circuits.skip_trigrams import SkipTrigram, tables
from ..circuits.virtual_heads import VirtualHead
from ..expansion import ScoreExpansion
from ..model import Model
from .svg import element, heat_map, label, picture
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


def draw_trigrams(model: Model, trigrams: Sequence[SkipTrigram]) -> str:
    """Return a heat map of what skip-trigrams add: rows head, source … destination, columns outputs.

    >>> import pathexp as px
    >>> model = px.random_model(layers=1, positions="none")
    >>> draw_trigrams(model, px.skip_trigrams(model, 5)).startswith("<svg")
    True
    """
    name = model.token_string
    rows = list(dict.fromkeys((t.head, t.source, t.destination) for t in trigrams))
    columns = list(dict.fromkeys(t.output for t in trigrams))
    read = {label: tables(head(model, label)) for label in {label for label, _, _ in rows}}
    values = [[read[label].trigram(a, b, c).adds for c in columns] for label, a, b in rows]
    return heat_map(
        values, [f"{label} {visible(name(a))} … {visible(name(b))}" for label, a, b in rows],
        [visible(name(token)) for token in columns], title="what skip-trigrams add", column_name="output",
    )  # fmt: skip


def draw_virtual_heads(heads: Sequence[VirtualHead]) -> str:
    """Return a heat map of V-composition: rows the earlier heads of a pair, columns the later.

    >>> import pathexp as px
    >>> draw_virtual_heads(px.virtual_heads(px.random_model(layers=2, heads=2))).startswith("<svg")
    True
    """
    rows = list(dict.fromkeys(one.heads[0].label for one in heads))
    columns = list(dict.fromkeys(" ".join(each.label for each in one.heads[1:]) for one in heads))
    values = np.full((len(rows), len(columns)), np.nan)
    for one in heads:
        later = " ".join(each.label for each in one.heads[1:])
        values[rows.index(one.heads[0].label), columns.index(later)] = _or_nan(one.composition)
    return heat_map(values, rows, columns, title="V-composition", row_name="first", column_name="then")


def _or_nan(value: float | None) -> float:
    return np.nan if value is None else value


_SIDE, _MARGIN = 360.0, 46.0
MOST_POINTS = 1200
"""How many bigrams are drawn, the most frequent."""


def draw_bigrams(found: Bigrams) -> str:
    """Return a scatter of log p by the corpus (across) and by the model (up), the most frequent bigrams.

    The diagonal is where both agree; larger points are more frequent.
    """
    chosen = np.flatnonzero(found.kept)[:MOST_POINTS]
    corpus, model = found.corpus[chosen], found.model[chosen]
    lowest = float(min(corpus.min(initial=-1.0), model.min(initial=-1.0)))
    radius = 1 + 4 * np.sqrt(found.counts[chosen] / found.counts.max())
    body = [*_frame(lowest), *_points(corpus / lowest, model / lowest, radius)]
    side = _SIDE + 2 * _MARGIN
    return picture(body, side, side, "bigrams: log p by the corpus and by the model")


def _frame(lowest: float) -> Iterator[str]:
    low, high = _MARGIN, _MARGIN + _SIDE
    yield element("rect", x=low, y=low, width=_SIDE, height=_SIDE, fill="none", stroke="#cccccc")
    yield element("line", x1=low, y1=high, x2=high, y2=low, stroke="#999999")
    yield label(f"corpus log p, from {lowest:.1f} to 0", low, high + 22)
    yield label(f"model log p, from {lowest:.1f} to 0 (up)", low, low - 12)


def _points(across: np.ndarray, up: np.ndarray, radius: np.ndarray) -> Iterator[str]:
    for x, y, r in zip(across, up, radius, strict=True):
        place = _MARGIN + _SIDE * (1 - float(x)), _MARGIN + _SIDE * float(y)
        yield element("circle", cx=place[0], cy=place[1], r=float(r), fill="#2166ac", fill_opacity="0.35")
