"""Composition scores as a person reads them: the strongest pairs beside chance, and a heat map of all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..circuits import CompositionTable, PathComposition
from .svg import heat_map
from .text import count_of, table


@dataclass(frozen=True)
class CompositionReport:
    """Everything that `pathexp compose` shows, as values."""

    scores: CompositionTable
    top: int
    path: PathComposition | None = None

    def text(self) -> str:
        """Return the report for a terminal."""
        parts = [self._asked(), self._pairs()]
        if self.path is not None:
            parts.insert(0, said(self.path))
        if self.scores.undefined:
            parts.append(f"undefined, because these maps are zero: {', '.join(self.scores.undefined)}")
        return "\n\n".join(parts)

    def data(self) -> dict[str, Any]:
        """Return the report as plain data for JSON; what is undefined is null."""
        found = self.scores
        return {
            "readers": list(found.readers),
            "writers": list(found.writers),
            "score": _nullable(found.score),
            "z": _nullable(found.z),
            "baseline": found.baseline,
            "norms": found.norms,
            "undefined": list(found.undefined),
            "top": [pair._asdict() for pair in found.top(self.top)],
            "path": None if self.path is None else {
                "path": list(self.path.path),
                "score": None if self.path.undefined else self.path.score,
                "baseline": self.path.baseline,
                "undefined": list(self.path.undefined),
            },
        }  # fmt: skip

    def _asked(self) -> str:
        found = self.scores
        pairs = int(np.isfinite(found.score).sum())
        return (
            f"{count_of(pairs, 'pair')} of {count_of(len(found.readers), 'reader')} and "
            f"{count_of(len(found.writers), 'writer')}, norms {found.norms}\n"
            f"by chance {found.baseline:.4f} (root mean square, the stream between the two turned at random)"
        )

    def _pairs(self) -> str:
        rows = [
            [
                pair.reader,
                pair.writer,
                f"{pair.score:.4f}",
                f"{pair.score / self.scores.baseline:.2f}",
                f"{pair.z:+.1f}",
            ]
            for pair in self.scores.top(self.top)
        ]
        return table(["reader", "writer", "score", "× chance", "z"], rows, "<<>>>")


def said(found: PathComposition) -> str:
    """Return the composition of a path as a sentence."""
    path = " → ".join(found.path)
    if found.undefined:
        return f"{path}: undefined, because these maps are zero: {', '.join(found.undefined)}"
    return f"{path}: {found.score:.4f}, by chance {found.baseline:.4f} ({found.score / found.baseline:.2f} ×)"


def draw_composition(scores: CompositionTable, title: str) -> str:
    """Return an SVG of how far every score is above (red) or below (blue) chance, as score / baseline - 1."""
    return heat_map(
        scores.score / scores.baseline - 1.0,
        scores.readers,
        scores.writers,
        title=title,
        row_name="reads",
        column_name="writes",
    )


def _nullable(array: np.ndarray) -> list[list[float | None]]:
    return [[float(value) if np.isfinite(value) else None for value in row] for row in array]
