"""Two heads with a circuit exchanged: what the model predicts then, beside what it predicted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ...answer import Answer, Facts, Note, Part, Table, columns, visible
from ...arguments import AMOUNT, TEXT, expect, one_of
from ...expansion.header import run_facts
from ...model import Model, Trace
from ...model.trace import check_trace
from .head_edits import swap_ov, swap_qk


@dataclass(frozen=True)
class Change:
    """The largest change of a logit between two runs of the same tokens, and where it is."""

    value: float
    position: int
    token: int


def largest_change(before: Trace, after: Trace) -> Change:
    """Return the change of a logit that is largest in absolute value."""
    gap = after.logits - before.logits
    position, token = np.unravel_index(int(np.abs(gap).argmax()), gap.shape)
    return Change(float(gap[position, token]), int(position), int(token))


@dataclass(frozen=True, eq=False, repr=False)
class Swap(Answer):
    """A run before and after two heads exchanged their OV or their QK circuit; `model` is the changed model."""

    live: ClassVar[frozenset[str]] = frozenset({"before", "after"})

    heads: tuple[str, str]
    circuit: str
    before: Trace
    after: Trace
    k: int = 5

    @property
    def model(self) -> Model:
        """The model with the circuits exchanged."""
        return self.after.model

    @property
    def change(self) -> Change:
        """The largest change of a logit."""
        return largest_change(self.before, self.after)

    def headline(self) -> str:
        """Return what was exchanged."""
        return f"{self.circuit} of {self.heads[0]} and {self.heads[1]} exchanged"

    def parts(self) -> Iterator[Part]:
        """Yield the most likely next tokens of both runs, the losses, and the largest change of a logit."""
        change, losses = self.change, (_loss(self.before), _loss(self.after))
        token = self.before.model.output_string(change.token)
        yield run_facts(self.before)
        yield Facts({"head": self.heads[0], "other": self.heads[1], "circuit": self.circuit})
        yield Facts({"loss_before": losses[0], "loss_after": losses[1], "largest_change": change.value})
        yield Facts({"change_position": change.position, "change_token": change.token})
        yield self._next()
        yield Note(f"loss {_said(losses[0])} nats per token before, {_said(losses[1])} after")
        yield Note(
            f"largest change of a logit {change.value:+.4f}: {visible(token)} after token {change.position}"
        )

    def _next(self) -> Table:
        head = (
            columns.count("rank"), columns.token("before"), columns.share("before_probability", "probability"),
            columns.token("after"), columns.share("after_probability", "probability"),
            columns.hidden("before_id"), columns.hidden("after_id"),
        )  # fmt: skip
        name, sides = (
            self.before.model.output_string,
            (likeliest(self.before, self.k), likeliest(self.after, self.k)),
        )
        rows = [
            (rank, name(one), p, name(other), q, one, other)
            for rank, ((one, p), (other, q)) in enumerate(zip(*sides, strict=True), 1)
        ]
        return Table(head, rows, "next", "most likely next tokens", key=("rank",), shown=None)


def likeliest(trace: Trace, k: int) -> list[tuple[int, float]]:
    """Return the k most likely next tokens at the end with their probabilities; of equals the lowest id first."""
    order = np.argsort(-trace.logits[-1], kind="stable")[:k]
    return [(int(token), float(np.exp(trace.log_probs[-1, token]))) for token in order]


def _loss(trace: Trace) -> float | None:
    return trace.loss() if len(trace) > 1 and trace.config.predicts_tokens else None


def _said(loss: float | None) -> str:
    return "undefined" if loss is None else f"{loss:.3f}"


def swap(trace: Trace, head: str, other: str, *, circuit: Literal["OV", "QK"] = "OV", k: int = 5) -> Swap:
    """Run a text again with a circuit of two heads exchanged: what they write (OV) or where they attend (QK).

    `k` next tokens are listed. See `swap_ov` and `swap_qk` for what is exchanged and refused. Elhage et al. 2021,
    "Attention Heads as Information Movement". Costs a forward pass.

    >>> import pathexp as px
    >>> found = px.swap(px.random_model().run([1, 2, 3]), "L0H1", "L1H0")
    >>> found.model.run([1, 2, 3]).logits.shape, abs(found.change.value) > 0
    ((3, 11), True)
    """
    check_trace(trace, "swap")
    expect(
        "swap", head=(head, TEXT), other=(other, TEXT), circuit=(circuit, one_of("OV", "QK")), k=(k, AMOUNT)
    )
    changed = (swap_ov if circuit == "OV" else swap_qk)(trace.model, head, other)
    return Swap((head, other), circuit, trace, changed.run(trace.tokens), k)
