"""An expansion of a run as a person reads it: what was frozen, the terms, the totals, the verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..expansion import Expansion, Ranking, Verdict, expand
from ..graph import MlpMode, Query, everything, freeze, query
from ..model import Model, Target, Trace
from .text import count_of, table, visible


@dataclass(frozen=True)
class ExpansionReport:
    """Everything that `pathexp expand` shows, as values."""

    trace: Trace
    terms: Expansion
    target: Target
    ranking: Ranking
    totals: tuple[float, ...]
    verdict: Verdict

    def text(self) -> str:
        """Return the report for a terminal."""
        return "\n\n".join(
            [
                "\n".join(_run(self)),
                "\n".join(_frozen(self)),
                "\n".join(_terms(self)),
                _totals(self),
                str(self.verdict),
            ]
        )

    def data(self) -> dict[str, Any]:
        """Return the report as plain data for JSON."""
        ranking, verdict = self.ranking, self.verdict
        return {
            "model": self.trace.model.name,
            "tokens": [int(token) for token in self.trace.tokens],
            "token_strings": list(self.trace.token_strings),
            "frozen": list(self.terms.graph.frozen),
            "query": str(self.terms.query),
            "count": self.terms.count(),
            "count_by_order": list(self.terms.count_by_order()),
            "target": {
                "label": self.target.label,
                "position": self.target.position,
                "value": self.target.value,
            },
            "terms": [
                {
                    "path": str(term.path),
                    "order": term.order,
                    "value": value,
                    "formula": term.formula,
                    "latex": term.latex(),
                }
                for term, value in zip(ranking.terms, ranking.values, strict=True)
            ],
            "proven": ranking.exact,
            "bound": ranking.bound if np.isfinite(ranking.bound) else None,
            "examined": ranking.examined,
            "truncated": len(ranking.terms) < ranking.count,
            "kept": len(ranking.terms),
            "sum": ranking.value,
            "remainder": ranking.remainder,
            "totals_by_order": list(self.totals),
            "verdict": {
                "ok": verdict.ok,
                "max_error": verdict.max_error,
                "tolerance": verdict.tolerance,
                "position": verdict.position,
                "token": verdict.token,
                "method": verdict.method,
            },
        }


def explain(
    model: Model,
    text: str | Sequence[int],
    *,
    aim: Callable[[Trace], Target] = lambda trace: trace.logit(trace.top_token()),
    condition: str | Query = everything,
    mlp: MlpMode = "gate",
    top: int = 12,
    seconds: float | None = None,
    progress: bool = False,
) -> ExpansionReport:
    """Take a run of a model apart: the whole pipeline, a stage a line (docs/how-it-works.md numbers them)."""
    tokens = model.encode(text) if isinstance(text, str) else text  # 1
    trace = model.run(tokens)  # 2
    graph = freeze(trace, mlp=mlp)  # 3
    chosen = query(condition)  # 4
    terms = expand(graph, chosen)  # 5
    target = aim(trace)
    ranking = terms.top(top, target, seconds=seconds, progress=progress)  # 6
    verdict = terms.verify()  # 7
    return ExpansionReport(trace, terms, target, ranking, order_totals(terms, target), verdict)


def order_totals(terms: Expansion, target: Target) -> tuple[float, ...]:
    """Return what the terms of each order add to a target on the logits."""
    return tuple(float(total[target.position] @ target.direction) for total in terms.by_order())


def _run(report: ExpansionReport) -> Iterator[str]:
    trace = report.trace
    config = trace.config
    yield (
        f"{trace.model.name or 'model'}: {count_of(config.n_layers, 'layer')} × {count_of(config.n_heads, 'head')}, "
        f"d_model {config.d_model}, d_head {config.d_head}, {config.d_vocab:,} symbols"
    )
    yield f"text     {' '.join(visible(token) for token in trace.token_strings)}"
    token = trace.top_token(report.target.position)
    chance = np.exp(trace.log_probs[report.target.position, token])
    yield (
        f"predicts {visible(trace.model.token_string(token))} after token {report.target.position} "
        f"(logit {trace.logits[report.target.position, token]:.4f}, probability {chance:.3f})"
    )


def _frozen(report: ExpansionReport) -> Iterator[str]:
    yield "held fixed"
    yield from (
        f"  {sentence}" for sentence in report.terms.graph.frozen or ("nothing: this model is linear",)
    )


def _terms(report: ExpansionReport) -> Iterator[str]:
    ranking, counts = report.ranking, report.terms.count_by_order()
    orders = ", ".join(f"{amount:,} of order {order}" for order, amount in enumerate(counts) if amount)
    yield f"{count_of(ranking.count, 'path')}: {orders}" if ranking.count else "no paths"
    yield f"the {len(ranking.terms)} that add most, up or down, to {report.target.label}:"
    yield ""
    running = np.cumsum(ranking.values)
    rows = [
        [str(term.path), str(term.order), f"{value:+.4f}", f"{total:+.4f}", term.formula]
        for term, value, total in zip(ranking.terms, ranking.values, running, strict=True)
    ]
    hidden = ranking.count - len(ranking.terms)
    rows.append(
        [
            count_of(hidden, "other path"),
            "",
            f"{ranking.remainder:+.4f}",
            f"{ranking.value + ranking.remainder:+.4f}",
            "",
        ]
    )
    yield table(["path", "order", "adds", "sum so far", "formula"], rows, "<>>><")
    if ranking.examined < ranking.count or not ranking.exact:
        yield ""
        yield _certainty(ranking)


def _certainty(ranking: Ranking) -> str:
    """What is known of the paths that were not evaluated one by one."""
    examined = f"{ranking.examined:,} of {ranking.count:,} paths were evaluated"
    if ranking.exact:
        return f"proven: no other path adds more than {ranking.bound:.4g}, up or down ({examined})"
    if not np.isfinite(ranking.bound):
        return f"not proven: nothing bounds the paths that are missing ({examined}); give it more time"
    return (
        f"not proven: paths that add up to {ranking.bound:.4g} may be missing ({examined}); give it more time"
    )


def _totals(report: ExpansionReport) -> str:
    counts = report.terms.count_by_order()
    rows = [
        [str(order), f"{amount:,}", f"{total:+.4f}"]
        for order, (amount, total) in enumerate(zip(counts, report.totals, strict=True))
    ]
    rows.append(["all", f"{sum(counts):,}", f"{sum(report.totals):+.4f}"])
    return table(["order", "paths", "adds"], rows, ">>>")
