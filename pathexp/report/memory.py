"""Memory management: heads and neurons that take off what was written, by weights and on runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..circuits.memory import LEAST, MARGIN, Erasure, MemoryManagement
from ..model import Model
from .text import count_of, table


@dataclass(frozen=True, eq=False)
class MemoryReport:
    """Candidates by their weights, and what runs say of them."""

    model: Model
    found: MemoryManagement

    def text(self) -> str:
        """Return the report for a terminal."""
        parts = [
            f"{self.model.name}: {self._measured()}",
            _listed("head", "its weights take off", self.found.heads),
        ]
        if self.found.neurons:
            parts.append(_listed("neuron", "-cosine of in and out", self.found.neurons))
        return "\n\n".join([*parts, self._verdict()])

    def _measured(self) -> str:
        sums = self.found.tally
        if sums is None:
            return "by the weights alone"
        return f"measured on {count_of(sums.windows, 'window')}, {sums.tokens:,} tokens"

    def _verdict(self) -> str:
        if self.found.tally is None:
            return "nothing is confirmed without runs: give a corpus"
        names = ", ".join(f"{one.component} of {one.writer}" for one in self.found.confirmed) or "none"
        return (
            f"confirmed: {names}\nthat is a share of {LEAST:g} or more, and over {MARGIN:g} times the chance, "
            "the deviation of the same outputs turned at random"
        )

    def data(self) -> dict[str, Any]:
        """Return the report as plain data for JSON."""
        sums = self.found.tally
        return {
            "model": self.model.name,
            "windows": sums.windows if sums else 0,
            "tokens": sums.tokens if sums else 0,
            "heads": [_plain(one) for one in self.found.heads],
            "neurons": [_plain(one) for one in self.found.neurons],
        }


def _listed(kind: str, weights: str, found: Sequence[Erasure]) -> str:
    rows = [[one.component, one.writer, f"{one.weights:+.3f}", *_on_runs(one)] for one in found]
    header = [kind, "of", weights]
    if found and found[0].measured is not None:
        header += ["cancelled on runs", "chance", "confirmed"]
    return table(header, rows, "<<>>><"[: len(header)])


def _on_runs(one: Erasure) -> list[str]:
    if one.measured is None or one.chance is None:
        return []
    if math.isnan(one.measured):
        return ["nothing varies", "", "no"]
    return [f"{one.measured:+.4f}", f"± {one.chance:.4f}", "yes" if one.confirmed else "no"]


def _plain(one: Erasure) -> dict[str, Any]:
    data = asdict(one) | {"confirmed": one.confirmed}
    return {name: None if value != value else value for name, value in data.items()}
