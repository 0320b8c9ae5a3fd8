"""Which spaces have a basis of their own: what the weights allow, and what activations show."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ..circuits.basis import MARGIN, STRONG, BasisKurtoses, BasisKurtosis
from ..circuits.privilege import Privilege
from ..model import Model
from .text import count_of, table


@dataclass(frozen=True, eq=False)
class BasisReport:
    """Both answers: of the weights, and, if there is a corpus, of data."""

    model: Model
    weights: tuple[Privilege, ...]
    data_found: BasisKurtoses | None

    def text(self) -> str:
        """Return the report for a terminal."""
        rows = [
            [
                found.space,
                "yes" if found.privileged else "no",
                f"{found.change:.1e}",
                found.reason * found.privileged,
            ]
            for found in self.weights
        ]
        parts = [
            f"{self.model.name}, by the weights: does turning a space change the logits?",
            table(["space", "own basis", "change", "because of"], rows, "<<><"),
        ]
        return "\n\n".join([*parts, *self._on_data()])

    def _on_data(self) -> list[str]:
        if self.data_found is None:
            return ["by activations: give a corpus"]
        sums = self.data_found.tally
        head = f"by activations, {count_of(sums.windows, 'window')}, {sums.tokens:,} tokens: kurtosis over coordinates"
        header = ["space", "kurtosis", "turned at random", "ratio", "carried by", "own basis"]
        foot = (
            f"none: within {MARGIN:g} deviations of turned ones; strong: {STRONG:g} times theirs or more, carried by many "
            "coordinates; mild: less, or a few outlier coordinates alone"
        )
        return [head, table(header, map(_row, self.data_found), "<>>>><"), foot, *self._compared()]

    def _compared(self) -> list[str]:
        """The stream beside the neurons, in one line."""
        assert self.data_found is not None
        sides: dict[bool, list[float]] = {True: [], False: []}
        for row in self.data_found:
            sides[row.space.endswith("neurons")].append(row.ratio)
        if not sides[True]:
            return []
        stream, neurons = (f"{min(sides[side]):.2f} to {max(sides[side]):.2f}" for side in (False, True))
        return [f"ratio to turned ones: stream {stream}, neurons {neurons}"]

    def data(self) -> dict[str, Any]:
        """Return the report as plain data for JSON."""
        found = self.data_found
        return {
            "model": self.model.name,
            "weights": [
                {
                    "space": one.space,
                    "privileged": one.privileged,
                    "change": one.change,
                    "tolerance": one.tolerance,
                }
                for one in self.weights
            ],
            "windows": found.tally.windows if found else 0,
            "tokens": found.tally.tokens if found else 0,
            "activations": [_plain(row) for row in found] if found else [],
        }


def _row(row: BasisKurtosis) -> list[str]:
    if math.isnan(row.kurtosis):
        return [row.space, "all zero", "", "", "", "none"]
    carried = count_of(round(row.carriers), "coordinate") if row.verdict != "none" else ""
    turned = f"{row.turned:.2f} ± {row.deviation:.2f}"
    return [row.space, f"{row.kurtosis:.2f}", turned, f"{row.ratio:.2f}", carried, row.verdict]


def _plain(row: BasisKurtosis) -> dict[str, Any]:
    numbers = {
        name: getattr(row, name) for name in ("kurtosis", "turned", "deviation", "ratio", "z", "carriers")
    }
    plain = {name: None if math.isnan(value) else float(value) for name, value in numbers.items()}
    outliers = [] if math.isnan(row.kurtosis) else row.outliers()
    listed = [{"coordinate": place, "adds": value} for place, value in outliers]
    return {"space": row.space, "verdict": row.verdict, **plain, "outliers": listed}
