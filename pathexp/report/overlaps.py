"""Overlaps of what is written with what is read, as a table or one pair with its angles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ..circuits.subspaces import Overlap
from ..model import Model
from .text import count_of, table


@dataclass(frozen=True, eq=False)
class OverlapReport:
    """Pairs of writers and readers, the most surprising first, `top` of them listed; one pair with its angles."""

    model: Model
    pairs: tuple[Overlap, ...]
    top: int

    def text(self) -> str:
        """Return the report for a terminal."""
        rows = [
            [
                pair.writer,
                pair.reader,
                f"{pair.ranks[0]} × {pair.ranks[1]}",
                f"{pair.overlap:.3f}",
                f"{pair.chance:.3f} ± {pair.deviation:.3f}",
                "" if math.isnan(pair.z) else f"{pair.z:+.1f}",
            ]
            for pair in self.pairs[: self.top]
        ]
        head = f"{self.model.name}: {count_of(len(self.pairs), 'pair')} of a writer and a reader, in {self.model.config.d_model} dimensions"
        foot = "overlap: mean squared cosine of the principal angles, 0 apart to 1 inside; chance: random subspaces of these ranks; z: deviations from it"
        parts = [
            head,
            table(["writer", "reader", "ranks", "overlap", "chance", "z"], rows, "<<>>>>"),
            *self._angles(),
            foot,
        ]
        return "\n\n".join(parts)

    def _angles(self) -> list[str]:
        if len(self.pairs) != 1:
            return []
        angles = " ".join(f"{angle:.0f}°" for angle in self.pairs[0].angles)
        return [f"principal angles: {angles}"]

    def data(self) -> dict[str, Any]:
        """Return the report as plain data for JSON, all pairs."""
        return {
            "model": self.model.name,
            "d_model": self.model.config.d_model,
            "pairs": [
                {
                    "writer": pair.writer,
                    "reader": pair.reader,
                    "ranks": list(pair.ranks),
                    "overlap": pair.overlap,
                    "chance": pair.chance,
                    "deviation": pair.deviation,
                    "z": pair.z if pair.deviation > 1e-9 else None,
                    "angles": pair.angles.tolist(),
                }
                for pair in self.pairs
            ],
        }
