"""Interference of directions: the cosines of all pairs beside random ones, and the pairs that meet most."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..circuits.superposition import Interference
from ..model import Model
from .text import table, visible


@dataclass(frozen=True, eq=False)
class InterferenceReport:
    """The directions of one node of a model, and its `top` pairs by the size of their cosine."""

    model: Model
    label: str
    found: Interference
    top: int

    def text(self) -> str:
        """Return the report for a terminal."""
        found, name = self.found, self._name()
        rows = [[name(a), name(b), f"{cosine:+.3f}"] for a, b, cosine in self._pairs()]
        head = f"{self.model.name} {self.label}: {len(found.gram):,} directions in {found.width} dimensions"
        sizes = f"cosines of pairs: rms {found.rms:.4f}; random directions {found.chance:.4f}; the least there can be {found.least:.4f}"
        return "\n\n".join([f"{head}\n{sizes}", table(["one", "other", "cosine"], rows, "<<>")])

    def data(self) -> dict[str, Any]:
        """Return the report as plain data for JSON; the pairs are the `top` ones."""
        found = self.found
        return {
            "model": self.model.name,
            "label": self.label,
            "directions": len(found.gram),
            "d_model": found.width,
            "rms": found.rms,
            "chance": found.chance,
            "least": found.least,
            "pairs": [{"one": a, "other": b, "cosine": cosine} for a, b, cosine in self._pairs()],
        }

    def _pairs(self) -> tuple[tuple[int, int, float], ...]:
        return self.found.pairs(self.top) if self.top else ()

    def _name(self) -> Callable[[int], str]:
        if self.label in ("E", "U"):
            name = self.model.token_string if self.label == "E" else self.model.output_string
            return lambda token: visible(name(token))
        return str
