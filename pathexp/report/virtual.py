"""A virtual weight as a person reads it: its formula, norms and spectrum, its largest entries, named where tokens are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..algebra import Entries, LinearMap, Progress, Space, norm, top_entries
from ..algebra import singular_values as singular_values_of
from ..algebra.top import Largest
from ..model import Model
from .text import table, visible

VOCAB = "vocab"


@dataclass(frozen=True)
class VirtualReport:
    """Everything that `pathexp virtual` shows, as values."""

    model: Model
    weight: LinearMap
    route: str
    top: int
    largest: Largest = "abs"
    progress: Progress | None = None

    @cached_property
    def entries(self) -> Entries:
        """The largest entries."""
        return top_entries(self.weight, self.top, self.largest, progress=self.progress)

    @cached_property
    def spectrum(self) -> np.ndarray:
        """The singular values, descending."""
        return np.asarray(singular_values_of(self.weight))

    def name(self, space: Space, index: int) -> str:
        """What one coordinate of a space is called: a token where it is one."""
        return visible(self.model.token_string(index)) if space.name == VOCAB else f"{space.name} {index}"

    def text(self) -> str:
        """Return the report for a terminal."""
        weight = self.weight
        shown = ", ".join(f"{value:.4g}" for value in self.spectrum[:8]) + (
            ", …" if len(self.spectrum) > 8 else ""
        )
        head = (
            f"{self.route}\n{weight!r}\n"
            f"norm {norm(weight):.4f}, singular values {shown or '(none)'}\n"
            f"the {len(self.entries.values)} largest of {weight.shape[0] * weight.shape[1]:,} entries:"
        )
        rows = [
            [self.name(weight.source, int(j)), self.name(weight.target, int(i)), f"{value:+.4f}"]
            for i, j, value in zip(*self.entries, strict=True)
        ]
        return f"{head}\n\n{table(['from', 'to', 'weight'], rows, '<<>')}"

    def data(self) -> dict[str, Any]:
        """Return the report as plain data for JSON."""
        weight = self.weight
        return {
            "route": self.route,
            "formula": weight.formula,
            "shape": list(weight.shape),
            "norm": norm(weight),
            "singular_values": self.spectrum.tolist(),
            "entries": [
                {
                    "from": int(j),
                    "to": int(i),
                    "from_name": self.name(weight.source, int(j)),
                    "to_name": self.name(weight.target, int(i)),
                    "weight": float(value),
                }
                for i, j, value in zip(*self.entries, strict=True)
            ],
        }
