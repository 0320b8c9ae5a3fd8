"""Interventions as a person reads them: what each changes of a target, frozen and live, and how far apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..circuits.interventions import Cut, Intervention, distance, intervene, through
from ..graph import Query, freeze
from ..model import Target, Trace
from .text import table, visible


@dataclass(frozen=True, eq=False)
class InterventionReport:
    """Everything that `pathexp intervene` shows, as values."""

    trace: Trace
    target: Target
    found: tuple[tuple[str, Intervention], ...]

    @property
    def what(self) -> str:
        """What is done to the paths."""
        return f"with paths {'cut' if self.found[0][1].other is None else 'carrying the other text'}"

    def text(self) -> str:
        """Return the report for a terminal."""
        place = self.target.position
        said = visible(self.trace.token_strings[place])
        return "\n".join(
            [
                f"{self.trace.model.name} after {said} (position {place})",
                f"{self.target.label}: {self.target.value:+.4f}; what changes {self.what}",
                "",
                table(["paths", "count", "frozen", "live", "price", "live KL"], map(self._row, self.found), "<>>>>>"),
                "",
                "frozen: patterns, norms and gates as in the run, exact and linear; live: computed anew; price: frozen - live",
                "live KL: how far all next-token distributions move, the mean over positions, in nats",
            ]
        )  # fmt: skip

    def _row(self, named: tuple[str, Intervention]) -> Sequence[str]:
        name, found = named
        frozen, live = found.effect(self.target)
        moved = distance(self.trace.logits, found.live)
        return [
            name,
            f"{found.paths:,}",
            _signed(frozen),
            _signed(live),
            _signed(frozen - live),
            f"{moved:.4f}",
        ]

    def data(self) -> dict[str, Any]:
        """Return the report as plain data for JSON."""
        rows = []
        for name, found in self.found:
            frozen, live = found.effect(self.target)
            moved = distance(self.trace.logits, found.live)
            rows.append(
                {"name": name, "query": str(found.cut), "paths": found.paths, "sides": found.sides}
                | {"ports": dict(found.ports)}
                | {"frozen": frozen, "live": live, "price": frozen - live, "live_kl": moved}
            )
        target = {"label": self.target.label, "position": self.target.position, "value": self.target.value}
        return {"model": self.trace.model.name, "target": target, "interventions": rows}


def report_interventions(
    trace: Trace, target: Target, cut: str | Query | Cut | None, other: Trace | None, sides: str
) -> InterventionReport:
    """Intervene on the paths of a query, or on those through each component in turn."""
    chosen: list[tuple[str, str | Query | Cut]]
    chosen = [(label, through(label)) for label in freeze(trace).alphabet.components] or [("E", through("E"))]
    if cut is not None:
        chosen = [(str(cut), cut)]
    return InterventionReport(
        trace,
        target,
        tuple((name, intervene(trace, paths, other=other, sides=sides)) for name, paths in chosen),
    )


def _signed(amount: float) -> str:
    """An amount with its sign; what rounds to nothing is +0.0000."""
    return f"{round(amount, 4) + 0.0:+.4f}"
