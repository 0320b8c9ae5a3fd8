"""An attention score as a person reads it: its kinds, its largest pairs of paths, its table of orders, the verdict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..errors import SizeError
from ..expansion import AnyScoreTerm, Effect, PositionBias, ScoreExpansion, ScoreRanking, ScoreVerdict
from .text import count_of, table, visible


@dataclass(frozen=True)
class ScoreReport:
    """Everything that `pathexp score` shows, as values."""

    terms: ScoreExpansion
    ranking: ScoreRanking | str
    """The largest terms, or why they cannot be listed."""
    effects: tuple[Effect, ...]
    verdict: ScoreVerdict

    def text(self) -> str:
        """Return the report for a terminal."""
        parts = (_asked(self), _effects(self), _largest(self), _orders(self))
        return "\n\n".join(["\n".join(part) for part in parts] + [str(self.verdict)])

    def data(self) -> dict[str, Any]:
        """Return the report as plain data for JSON."""
        terms = self.terms
        return {
            "model": terms.trace.model.name,
            "tokens": [int(token) for token in terms.trace.tokens],
            "head": terms.pair.head,
            "query": terms.pair.query,
            "key": terms.pair.key,
            "score": terms.whole().value(),
            "attention": float(terms.pattern()[terms.pair.key]),
            "count": terms.count(),
            "kinds": [asdict(effect) for effect in self.effects],
            **self._ranked(),
            "count_by_order": [list(row) for row in terms.count_by_order()],
            "totals_by_order": terms.by_order().tolist(),
            "verdict": asdict(self.verdict),
        }

    def _ranked(self) -> dict[str, Any]:
        ranking = self.ranking
        if isinstance(ranking, str):
            return {"terms": None, "reason": ranking}
        return {
            "terms": [_row(term) for term in ranking.terms],
            "sum": ranking.value,
            "remainder": ranking.remainder,
            "bound": ranking.bound,
        }


def report_score(terms: ScoreExpansion, top: int) -> ScoreReport:
    """Rank (where the paths can be listed), total and verify the expansion of a score."""
    return ScoreReport(terms, _ranking(terms, top), terms.effects(), terms.verify())


def _ranking(terms: ScoreExpansion, top: int) -> ScoreRanking | str:
    try:
        return terms.top(top)
    except SizeError as error:
        return str(error)


def amount(count: int) -> str:
    """Return a count in full, or from a million million on by its first digits and its power of ten.

    >>> amount(13_947_137_604), amount(68_719_476_736 * 10**39)
    ('13,947,137,604', '6.87e49')
    """
    digits = str(count)
    return f"{count:,}" if len(digits) <= 12 else f"{digits[0]}.{digits[1:3]}e{len(digits) - 1}"


def _row(term: AnyScoreTerm) -> dict[str, Any]:
    paths = {} if isinstance(term, PositionBias) else {
        "query": str(term.query_term.path),
        "key": str(term.key_term.path),
    }  # fmt: skip
    return paths | {
        "kind": term.kind,
        "value": term.value,
        "advantage": term.advantage,
        "no_effect": term.no_effect,
        "formula": term.formula,
        "latex": term.latex(),
    }


def _asked(report: ScoreReport) -> Iterator[str]:
    terms = report.terms
    pair, tokens = terms.pair, terms.trace.token_strings
    yield (
        f"{pair.head} looks from {visible(tokens[pair.query])} (position {pair.query}) "
        f"at {visible(tokens[pair.key])} (position {pair.key})"
    )
    score, attention = terms.whole().value(), float(terms.pattern()[pair.key])
    yield f"score {score:+.4f} before the softmax, attention {attention:.4f}"


def _effects(report: ScoreReport) -> Iterator[str]:
    rows = [
        [e.kind, amount(e.count), f"{e.value:+.4f}", f"{e.advantage:+.4f}", f"{e.without:.4f}"]
        for e in report.effects
    ]
    terms = report.terms
    rows.append(["all", amount(terms.count()), f"{terms.value():+.4f}", f"{terms.advantage():+.4f}", ""])
    yield table(["kind", "terms", "adds", "above other keys", "attention without"], rows, "<>>>>")


def _largest(report: ScoreReport) -> Iterator[str]:
    ranking = report.ranking
    if isinstance(ranking, str):
        yield f"{count_of(report.terms.count(), 'term')}, which cannot be ranked: {ranking}"
        return
    yield f"{count_of(ranking.count, 'term')}; the {len(ranking.terms)} that add most, up or down:"
    yield ""
    rows = [
        [str(term), term.kind, f"{term.value:+.4f}", _advantage(term), term.formula] for term in ranking.terms
    ]
    hidden = ranking.count - len(ranking.terms)
    rows.append([count_of(hidden, "other term"), "", f"{ranking.remainder:+.4f}", "", ""])
    yield table(["query path × key path", "kind", "adds", "above other keys", "formula"], rows, "<<>><")


def _advantage(term: AnyScoreTerm) -> str:
    return "no effect" if term.no_effect else f"{term.advantage:+.4f}"


ORDERS_SHOWN = 5
"""How many orders a table shows on each side before it adds the rest up."""


def _orders(report: ScoreReport) -> Iterator[str]:
    totals, counts = report.terms.by_order(), np.array(report.terms.count_by_order(), dtype=object)
    totals, counts = (_folded(_folded(both).T).T for both in (totals, counts))
    rows, columns = (_order_names(size) for size in np.shape(report.terms.by_order()))
    cells = [
        [name, *(f"{total:+.4f} ({amount(count)})" for total, count in zip(*pair, strict=True))]
        for name, *pair in zip(rows, totals, counts, strict=True)
    ]
    yield "totals (and pairs of paths) by order:"
    header = ["query order", *(f"key order {name}" for name in columns)]
    yield table(header, cells, "<" + ">" * len(columns))


def _folded(array: np.ndarray) -> np.ndarray:
    """Rows beyond the shown ones added up into one."""
    if len(array) <= ORDERS_SHOWN + 1:
        return array
    return np.concatenate([array[:ORDERS_SHOWN], array[ORDERS_SHOWN:].sum(axis=0, keepdims=True)])


def _order_names(size: int) -> list[str]:
    if size <= ORDERS_SHOWN + 1:
        return [str(order) for order in range(size)]
    return [*map(str, range(ORDERS_SHOWN)), f"{ORDERS_SHOWN} and more"]
