"""Order blindness: a text, a permutation of it, and whether the output was permuted alike."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..circuits.order import OrderBlind
from ..model import Model
from .text import visible


@dataclass(frozen=True, eq=False)
class OrderBlindReport:
    """What the permutation check found."""

    model: Model
    found: OrderBlind

    def text(self) -> str:
        """Return the report for a terminal."""
        tokens = [visible(self.model.token_string(token)) for token in self.found.tokens]
        permuted = [tokens[place] for place in self.found.permutation]
        lines = (
            self.model.name,
            f"text      {' '.join(tokens)}",
            f"permuted  {' '.join(permuted)}",
            str(self.found),
        )
        return "\n".join(lines)

    def data(self) -> dict[str, Any]:
        """Return the report as plain data for JSON."""
        return {"model": self.model.name, "change": self.found.change} | asdict(self.found)
