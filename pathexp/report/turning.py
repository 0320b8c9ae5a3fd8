"""A model in two bases of its stream: coordinates that were largest and are not, maps and outputs that stay."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..circuits.turning import TurnedBasis
from ..model import Model
from .text import count_of, table


@dataclass(frozen=True, eq=False)
class TurningReport:
    """What a turn of the stream changed."""

    model: Model
    found: TurnedBasis

    @property
    def ok(self) -> bool:
        """Whether what should stay stayed."""
        return self.found.ok

    def text(self) -> str:
        """Return the report for a terminal."""
        found = self.found
        rows = [
            [story.writer, " ".join(map(str, story.before)), " ".join(map(str, story.after)), str(story.kept)]
            for story in found.stories
        ]
        stayed = "stayed" if found.ok else "DID NOT STAY"
        foot = (
            f"of the largest coordinates {found.kept:.1%} are so still; by chance {found.chance:.1%}\n"
            f"{count_of(found.pairs, 'virtual weight')} and the logits {stayed}: "
            f"error {found.weights:.1e} ≤ tolerance 1.0e-10, error {found.logits:.1e} ≤ tolerance {found.tolerance:.1e}"
        )
        head = f"{self.model.name}, its stream turned at random: in which coordinates writers are largest"
        return "\n\n".join([head, table(["writer", "before", "after", "kept"], rows, "<<<>"), foot])

    def data(self) -> dict[str, Any]:
        """Return the report as plain data for JSON."""
        found = self.found
        return {
            "model": self.model.name,
            "writers": [asdict(story) | {"kept": story.kept} for story in found.stories],
            "kept": found.kept,
            "chance": found.chance,
            "pairs": found.pairs,
            "virtual_weights_change": found.weights,
            "logits_change": found.logits,
            "tolerance": found.tolerance,
            "ok": found.ok,
        }
