"""Virtual heads as a person reads them: how many, which are strong, what they are worth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..circuits.virtual_heads import VirtualHead, VirtualShare
from .heads import score_text, spectrum_data
from .text import count_of, table


@dataclass(frozen=True)
class VirtualHeadsReport:
    """Everything that `pathexp virtual-heads` shows."""

    heads: tuple[VirtualHead, ...]
    top: int
    share: VirtualShare | None

    def text(self) -> str:
        """Return the report for a terminal."""
        header = ["virtual head", "V-composition", "norm of OV", "rank at most", "copies"]
        rows = [
            [
                head.label,
                "undefined" if head.composition is None else f"{head.composition:.4f}",
                f"{head.OV.norm():.4f}",
                str(head.OV.rank_bound),
                score_text(head.copying.score),
            ]
            for head in self._strongest()
        ]
        title = f"{count_of(len(self.heads), 'virtual head')}; the {len(rows)} that compose most:"
        return "\n\n".join([f"{title}\n{table(header, rows, '<>>>>')}", *self._worth()])

    def _strongest(self) -> list[VirtualHead]:
        return sorted(self.heads, key=lambda head: -(head.composition or 0.0))[: self.top]

    def _worth(self) -> Iterator[str]:
        if self.share is None:
            return
        found = self.share
        orders = ", ".join(f"{count:,} of order {order}" for order, count in enumerate(found.counts))
        rows = [
            ["the direct path and constants", f"{found.direct:.4f}"],
            ["paths through one head at most", f"{found.without:.4f}"],
            ["all paths", f"{found.whole:.4f}"],
        ]
        share = "an undefined share" if found.share is None else f"{found.share:.1%}"
        yield (
            f"loss over {found.tokens:,} tokens, patterns frozen (paths: {orders})\n"
            f"{table(['kept', 'nats a token'], rows, '<>')}\n"
            f"virtual heads save {found.worth:.4f}, {share} of what all heads save over the direct path"
        )

    def data(self) -> dict[str, Any]:
        """Return the report as plain data for JSON."""
        names = ("whole", "without", "direct", "counts", "tokens", "worth", "share")
        share = self.share and {name: getattr(self.share, name) for name in names}
        rows = [
            {
                "head": head.label,
                "composition": head.composition,
                "norm": head.OV.norm(),
                "copying": spectrum_data(head.copying),
            }
            for head in self._strongest()
        ]
        return {"count": len(self.heads), "top": rows, "loss": share}
