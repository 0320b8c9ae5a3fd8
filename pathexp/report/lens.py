"""A run read at every depth: the logit lens in both modes, and what each component adds to one target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..circuits.attribution.decompose import Decomposition, decompose
from ..circuits.lens import Lens, logit_lens
from ..graph import Array
from ..model import Target, Trace
from .text import table, visible


@dataclass(frozen=True, eq=False)
class LensReport:
    """Everything that `pathexp lens` shows, as values."""

    trace: Trace
    target: Target
    own: Lens
    frozen: Lens
    parts: Decomposition
    added: dict[str, float]
    """What each entry of the stream adds to the target in mode frozen, in the order in which they are written."""
    top: int

    @property
    def ok(self) -> bool:
        """Whether the entries add up to the stream at every depth, and to the target."""
        return self.parts.ok and self.error <= self.tolerance

    @property
    def error(self) -> float:
        """How far the entries are from the target."""
        return abs(sum(self.added.values()) - self.target.value)

    @property
    def tolerance(self) -> float:
        """1e-11 of the sum of the entries' sizes."""
        return 1e-11 * sum(map(abs, self.added.values()))

    def values(self, lens: Lens) -> Array:
        """The target at every state of a lens."""
        return np.asarray(lens.logits[:, self.target.position] @ self.target.direction)

    def text(self) -> str:
        """Return the report for a terminal."""
        parts = (_asked(self), _states(self), _entries(self), _balance(self))
        return "\n\n".join("\n".join(part) for part in parts)

    def data(self) -> dict[str, Any]:
        """Return the report as plain data for JSON."""
        states = zip(
            self.own.points, _tops(self), self.values(self.own), self.values(self.frozen), strict=True
        )
        return {
            "model": self.trace.model.name,
            "history": list(self.trace.model.history),
            "tokens": [int(token) for token in self.trace.tokens],
            "target": {
                "label": self.target.label,
                "position": self.target.position,
                "value": self.target.value,
            },
            "states": [
                {
                    "point": point,
                    "top_token": token,
                    "probability": share,
                    "own": float(own),
                    "frozen": float(frozen),
                }
                for point, (token, share), own, frozen in states
            ],
            "entries": self.added,
            "balances": [asdict(balance) | {"ok": balance.ok} for balance in self.parts.balances()],
            "error": self.error,
            "tolerance": self.tolerance,
            "ok": self.ok,
        }


def report_lens(trace: Trace, target: Target, top: int, between: bool) -> LensReport:
    """Read a run at every depth and take a target apart by what was written."""
    parts = decompose(trace)
    added = {
        label: float(logits[target.position] @ target.direction) for label, logits in parts.logits().items()
    }
    own, frozen = (logit_lens(trace, mode, between=between) for mode in ("own", "frozen"))
    return LensReport(trace, target, own, frozen, parts, added, top)


def _asked(report: LensReport) -> Iterator[str]:
    trace, place = report.trace, report.target.position
    yield f"{trace.model.name} after {visible(trace.token_strings[place])} (position {place})"
    yield f"{report.target.label}: {report.target.value:+.4f}"
    if trace.model.history:
        yield f"rewritten: {', '.join(trace.model.history)}"


def _tops(report: LensReport) -> list[tuple[int, float]]:
    """The most likely token of every state and its probability, mode own."""
    place = report.target.position
    tokens = report.own.top_tokens(place)
    shares = np.exp(report.own.log_probs[range(len(tokens)), place, tokens])
    return [(token, float(share)) for token, share in zip(tokens, shares, strict=True)]


def _states(report: LensReport) -> Iterator[str]:
    name = report.trace.model.output_string
    rows = [
        [point, visible(name(token)), f"{share:.3f}", f"{own:+.4f}", f"{frozen:+.4f}"]
        for point, (token, share), own, frozen in zip(
            report.own.points, _tops(report), report.values(report.own), report.values(report.frozen), strict=True
        )
    ]  # fmt: skip
    yield table(["state", "says", "probability", "target, own", "target, frozen"], rows, "<<>>>")
    if report.trace.config.final_norm:
        yield "own: each state normalized by its own statistics; frozen: by the scale of the last, so that parts add up"
    else:
        yield "this model has no final norm: own and frozen are one"


def _entries(report: LensReport) -> Iterator[str]:
    largest = sorted(report.added, key=lambda label: -abs(report.added[label]))[: report.top]
    rest = [value for label, value in report.added.items() if label not in largest]
    rows = [[label, f"{report.added[label]:+.4f}"] for label in largest]
    if rest:
        rows.append([f"{len(rest)} others", f"{sum(rest):+.4f}"])
    rows.append(["all", f"{sum(report.added.values()):+.4f}"])
    amount = len(report.added)
    yield f"{amount} {'entry' if amount == 1 else 'entries'} of the stream; those that add most, mode frozen:"
    yield ""
    yield table(["entry", "adds"], rows, "<>")


def _balance(report: LensReport) -> Iterator[str]:
    balances = report.parts.balances()
    worst = max(balances, key=lambda balance: balance.error / (balance.tolerance or 1.0))
    verdict = "is" if report.parts.ok else "IS NOT"
    sign = "≤" if worst.ok else ">"
    yield (
        f"the stream {verdict} the sum of what was written, at every one of {len(balances)} depths: "
        f"error {worst.error:.2e} {sign} tolerance {worst.tolerance:.2e}"
    )
    met, sign = ("add", "≤") if report.error <= report.tolerance else ("DO NOT add", ">")
    yield f"entries {met} up to the target: error {report.error:.2e} {sign} tolerance {report.tolerance:.2e}"
