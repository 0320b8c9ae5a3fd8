"""A model before and after its heads were exchanged or re-based: what it predicts, its loss, what changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..circuits.heads.head import Head, head
from ..graph import Array
from ..model import Trace
from ..model.rewrite import compare
from .text import table, visible


@dataclass(frozen=True, eq=False)
class SwapReport:
    """Everything that `pathexp swap` shows: one text in a model, and in the one with a circuit of two heads exchanged."""

    heads: tuple[str, str]
    circuit: str
    before: Trace
    after: Trace
    top: int

    def text(self) -> str:
        """Return the report for a terminal."""
        first, second = self.heads
        head = f"{self.before.model.name}: {self.circuit} of {first} and {second} exchanged"
        said = "text  " + " ".join(map(visible, self.before.token_strings))
        return "\n\n".join([f"{head}\n{said}", self._predictions(), self._changes()])

    def _predictions(self) -> str:
        name = self.before.model.token_string
        sides = [_likeliest(trace, self.top) for trace in (self.before, self.after)]
        rows = [
            [text for token, p in pair for text in (visible(name(token)), f"{p:.3f}")]
            for pair in zip(*sides, strict=True)
        ]
        return "most likely next\n" + table(["before", "probability", "after", "probability"], rows, "<><>")

    def _changes(self) -> str:
        change = _change(self.before, self.after)
        losses = f"loss {_loss_text(self.before)} before, {_loss_text(self.after)} after (nats a token)"
        token = visible(self.before.model.token_string(change["token"]))
        return (
            f"{losses}\nlargest change of a logit {change['change']:+.4f}: "
            f"{token} after token {change['position']}"
        )

    def data(self) -> dict[str, Any]:
        """Return the report as plain data for JSON."""
        return {
            "model": self.before.model.name,
            "heads": list(self.heads),
            "circuit": self.circuit,
            "tokens": self.before.tokens.tolist(),
            "before": self._side(self.before),
            "after": self._side(self.after),
            "largest_change": _change(self.before, self.after),
        }

    def _side(self, trace: Trace) -> dict[str, Any]:
        name = trace.model.output_string
        likeliest = [
            {"token": token, "text": name(token), "probability": p}
            for token, p in _likeliest(trace, self.top)
        ]
        return {"loss": _loss(trace), "next": likeliest}


def _likeliest(trace: Trace, top: int) -> list[tuple[int, float]]:
    """The most likely next tokens at the end with their probabilities; of equals the lowest id first."""
    order = np.argsort(-trace.logits[-1], kind="stable")[:top]
    return [(int(token), float(np.exp(trace.log_probs[-1, token]))) for token in order]


def _loss(trace: Trace) -> float | None:
    return trace.loss() if len(trace) > 1 else None


def _loss_text(trace: Trace) -> str:
    found = _loss(trace)
    return "undefined" if found is None else f"{found:.3f}"


def _change(before: Trace, after: Trace) -> dict[str, Any]:
    gap = after.logits - before.logits
    position, token = np.unravel_index(int(np.abs(gap).argmax()), gap.shape)
    return {"change": float(gap[position, token]), "position": int(position), "token": int(token)}


@dataclass(frozen=True, eq=False)
class RebaseReport:
    """Everything that `pathexp rebase` shows: what another basis of a head's inner space changes, and what it does not."""

    head: str
    circuits: tuple[str, ...]
    before: Trace
    after: Trace

    @property
    def ok(self) -> bool:
        """Whether the logits stayed, to rounding."""
        return self._logits <= self._tolerance

    @property
    def _logits(self) -> float:
        return abs(float(_change(self.before, self.after)["change"]))

    @property
    def _tolerance(self) -> float:
        return compare(self.before.model, self.after.model, self.before.tokens.tolist()).tolerance

    @property
    def _maps(self) -> dict[str, tuple[float, float]]:
        """The largest entry of each map of the head, and its largest change."""
        names = [name for circuit in self.circuits for name in _MAPS[circuit]]
        one, other = (head(trace.model, self.head) for trace in (self.before, self.after))
        pairs = {name: (_dense(one, name), _dense(other, name)) for name in names}
        return {name: (_size(first), _size(second - first)) for name, (first, second) in pairs.items()}

    def text(self) -> str:
        """Return the report for a terminal."""
        rows = [[name, f"{largest:.3f}", f"{change:.1e}"] for name, (largest, change) in self._maps.items()]
        stayed = "stayed" if self.ok else "DID NOT STAY"
        return "\n\n".join(
            [
                f"{self.before.model.name}: {' and '.join(self.circuits)} of {self.head} in a random basis",
                table(["map", "largest entry", "largest change"], rows, "<>>"),
                f"the logits {stayed}: error {self._logits:.1e} ≤ tolerance {self._tolerance:.1e}",
            ]
        )

    def data(self) -> dict[str, Any]:
        """Return the report as plain data for JSON."""
        maps = {name: {"largest": size, "change": change} for name, (size, change) in self._maps.items()}
        return {
            "model": self.before.model.name, "head": self.head, "circuits": list(self.circuits), "maps": maps,
            "tokens": self.before.tokens.tolist(), "logits_change": self._logits, "tolerance": self._tolerance,
            "ok": self.ok,
        }  # fmt: skip


_MAPS = {"OV": ("W_V", "W_O", "OV"), "QK": ("W_Q", "W_K", "QK")}


def _dense(owner: Head, name: str) -> Array:
    return np.asarray(getattr(owner, name).dense(), dtype=np.float64)


def _size(array: Array) -> float:
    return float(np.abs(array).max(initial=0.0))
