"""What things are worth, as tables: what units add to a target, what orders and terms save of the loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..circuits.importance import OrderImportance
from .text import table


@dataclass(frozen=True)
class OrderReport:
    """Importance by order, and the `top` single terms."""

    found: OrderImportance
    top: int

    def text(self) -> str:
        """Return the report for a terminal."""
        found = self.found
        saved = ["", *(f"{value:+.4f}" for value in found.marginal)]
        orders = [
            [str(order), f"{count:,}", f"{up_to:.4f}", saving, f"{worth:+.4f}"]
            for order, (count, up_to, saving, worth) in enumerate(
                zip(found.counts, found.up_to, saved, found.worth, strict=True)
            )
        ]
        head = f"loss in nats a token over {found.tally.windows:,} windows, {found.tally.tokens:,} tokens; patterns frozen"
        header = ["order", "paths", "loss up to it", "it saves", "saves beside all others"]
        parts = [head, table(header, orders, ">>>>>")]
        if found.terms:
            terms = [[path, f"{worth:+.4f}"] for path, worth in found.term_worth()[: self.top]]
            parts.append(table(["term", "saves beside all others"], terms, "<>"))
        return "\n\n".join(parts)

    def data(self) -> dict[str, Any]:
        """Return the report as plain data for JSON, all terms."""
        found = self.found
        return {
            "windows": found.tally.windows,
            "tokens": found.tally.tokens,
            "counts": list(found.counts),
            "loss_up_to": found.up_to.tolist(),
            "marginal": found.marginal.tolist(),
            "worth": found.worth.tolist(),
            "terms": [{"path": path, "worth": worth} for path, worth in found.term_worth()],
        }
