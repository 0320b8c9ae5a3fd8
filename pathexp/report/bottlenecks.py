"""The bottleneck table: dimensions written before and read after each depth, beside those the stream has."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..circuits.bottleneck import Bottlenecks
from ..model import Model
from .text import count_of, table


@dataclass(frozen=True, eq=False)
class BottleneckReport:
    """A bottleneck table, with effective ranks if they were measured."""

    model: Model
    found: Bottlenecks

    def text(self) -> str:
        """Return the report for a terminal."""
        rows = [
            [row.point, f"{row.written:,}", f"{row.read:,}", str(row.width), f"{row.load:.1f}"]
            + ([f"{row.effective_rank:.1f}"] if row.effective_rank is not None else [])
            for row in self.found
        ]
        measured = self.found.tally is not None
        header = ["depth", "written before", "read after", "d_model", "load", *["effective rank"] * measured]
        parts = [self.model.name, table(header, rows, "<" + ">" * (len(header) - 1))]
        parts.append("load: the smaller of written and read, for each dimension there is")
        if self.found.tally is not None:
            windows, tokens = self.found.tally.windows, self.found.tally.tokens
            parts[-1] += (
                f"\neffective rank: exp of the entropy of the stream's variances, {count_of(windows, 'window')}, {tokens:,} tokens"
            )
        return "\n\n".join(parts)

    def data(self) -> dict[str, Any]:
        """Return the report as plain data for JSON."""
        sums = self.found.tally
        return {
            "model": self.model.name,
            "windows": sums.windows if sums else 0,
            "tokens": sums.tokens if sums else 0,
            "rows": [asdict(row) | {"load": row.load} for row in self.found],
        }
