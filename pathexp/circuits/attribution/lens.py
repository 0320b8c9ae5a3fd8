"""The logit lens: what the unembedding would make of the stream at every depth.

nostalgebraist 2020, "interpreting GPT: the logit lens". Two modes that are two things: "own" normalizes each state
by its own statistics, as if the model ended there; "frozen" uses the scale that the final norm had on this run, the
only mode in which components add up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from ...answer import Answer, Check, Figure, Note, Part, Table, columns
from ...arguments import TRUTH, expect
from ...errors import PathexpError
from ...expansion.header import run_facts
from ...expansion.targets import on_stream
from ...expansion.tolerance import ROUNDING, target_tolerance
from ...graph import Array, freeze, push
from ...model import Target, Trace
from ...model.parts import unembedded
from ...model.softmax import log_softmax
from ...model.trace import check_trace
from .decompose import Decomposition, decompose, places, stream_points, worst
from .toward_target import frozen_values, own_values, straight, target_parts

Mode = Literal["own", "frozen"]


@dataclass(frozen=True, eq=False, repr=False)
class StateLogits:
    """Logits of every state of the stream: `points` (S names) and `logits` (S, n, V), the last the run's own."""

    trace: Trace
    mode: Mode
    points: tuple[str, ...]
    logits: Array

    def __repr__(self) -> str:
        return f"<StateLogits, mode {self.mode!r}: {len(self.points)} states of {self.trace!r}>"

    def __getitem__(self, point: str) -> Array:
        """Return the logits of one state, (n, V).

        Raises PathexpError for a point that is not there.
        """
        if point not in self.points:
            raise PathexpError(f"no state {point!r} in this lens; there are {', '.join(self.points)}")
        state: Array = self.logits[self.points.index(point)]
        return state

    @cached_property
    def log_probs(self) -> Array:
        """The logarithm of the distribution at every state and position, (S, n, V), in nats."""
        return log_softmax(self.logits)

    def top_tokens(self, position: int = -1) -> tuple[int, ...]:
        """Return the most likely next token at every state.

        Raises TargetError if the run has no such position.
        """
        return tuple(int(token) for token in self.logits[:, self._place(position)].argmax(axis=-1))

    def ranks(self, token: int | str, position: int = -1) -> tuple[int, ...]:
        """Return the rank of a token at every state, 1 for the most likely.

        Raises TokenError if it is not one token, TargetError if the run has no such position.
        """
        column = self.trace.model.output_id(token)
        at = self.logits[:, self._place(position)]
        return tuple(int(rank) for rank in 1 + (at > at[:, [column]]).sum(axis=-1))

    def _place(self, position: int) -> int:
        return self.trace.logit(0, position).position


@dataclass(frozen=True, eq=False, repr=False)
class Lens(Answer):
    """A run read at every depth: the logits of its states in both modes, and what each entry adds to a target.

    `own` and `frozen` are the logits of all states; `added` is what each entry of the stream adds to the target through
    the frozen final norm, in the order in which entries are written.
    """

    live: ClassVar[frozenset[str]] = frozenset({"trace", "own", "frozen", "stream"})

    trace: Trace
    target: Target
    points: tuple[str, ...]
    added: dict[str, float]

    @cached_property
    def own(self) -> StateLogits:
        """The logits of every state, each normalized by its own statistics."""
        return StateLogits(self.trace, "own", self.points, _own(self.trace, self._states()))

    @cached_property
    def frozen(self) -> StateLogits:
        """The logits of every state, normalized by the scale of the last."""
        return StateLogits(self.trace, "frozen", self.points, _frozen(self.trace, self._states()))

    @cached_property
    def stream(self) -> Decomposition:
        """The account of the stream."""
        return decompose(self.trace)

    def _states(self) -> Array:
        return np.stack([self.trace.residuals[point] for point in self.points])

    def values(self, mode: Mode = "own") -> Array:
        """Return the target at every state, (S,). Raises PathexpError for another mode."""
        if mode not in ("own", "frozen"):
            raise PathexpError(f"expected the mode 'own' or 'frozen', got {mode!r:.40}")
        found: Array = (self._own_values if mode == "own" else self._frozen_values)[:, self.target.position]
        return found

    @cached_property
    def _own_values(self) -> Array:
        """The target at every state and position, (S, n), in mode "own"."""
        return own_values(self.trace, self._states(), self.target.direction)

    @cached_property
    def _frozen_values(self) -> Array:
        """The same in mode "frozen"."""
        return frozen_values(freeze(self.trace), self._states(), self.target.direction)

    # The answer ----------------------------------------------------------------------------------------

    def headline(self) -> str:
        """Return the target that is read at every depth."""
        return (
            f"logit lens on {self.target.label} at position {self.target.position}: {self.target.value:+.4f}"
        )

    def parts(self) -> Iterator[Part]:
        """Yield the states, the entries, the checks that they add up, and the target by state and position."""
        yield run_facts(self.trace, self.target)
        if self.trace.model.history:
            yield Note(f"rewritten: {', '.join(self.trace.model.history)}")
        yield self._table_of_states()
        yield Note(
            "own: each state normalized by its own statistics; frozen: by the scale of the last, so that entries add up"
            if self.trace.config.final_norm
            else "this model has no final norm: own and frozen are the same"
        )
        yield self._table_of_entries()
        yield worst(self.stream.balances())
        yield self.check()
        yield Figure(
            "heatmap", "lens",
            {"rows": list(self.points), "columns": places(self.trace),
             "values": self._own_values},
            f"{self.target.label}, by state and position, mode own", "logits",
        )  # fmt: skip

    def _table_of_states(self) -> Table:
        place, name = self.target.position, self.trace.model.output_string
        logits = unembedded(self.trace.model, self._states()[:, place])
        tops = logits.argmax(axis=-1)
        chances = np.exp(log_softmax(logits)[range(len(tops)), tops])
        states = zip(
            self.points,
            map(name, map(int, tops)),
            chances,
            self.values("own"),
            self.values("frozen"),
            strict=True,
        )
        return Table(
            (columns.text("state"), columns.token("top_token"), columns.number("probability", digits=3, signed=False),
             columns.number("own", "target, own", "logits"), columns.number("frozen", "target, frozen", "logits")),
            states, name="states", key=("state",), value="own", shown=None,
        )  # fmt: skip

    def _table_of_entries(self) -> Table:
        return Table(
            (columns.text("entry"), columns.number("adds", "contribution, frozen", "logits")),
            sorted(self.added.items(), key=lambda entry: -abs(entry[1])), name="entries", shown=8,
            key=("entry",), value="adds", additive=True, absent="zero", rest=[("all", sum(self.added.values()))],
        )  # fmt: skip

    def check(self) -> Check:
        """Return whether the entries add up to the target."""
        return Check(
            "the entries add up to the target", abs(sum(self.added.values()) - self.target.value),
            target_tolerance(freeze(self.trace), self.target, [*self.added.values()]), ROUNDING, name="target",
        )  # fmt: skip


def lens(trace: Trace, target: Target, *, mid: bool = False) -> Lens:
    """Read the stream of a run at every depth, the embedding included, as if the model ended there.

    L layers give L intermediate states and the last, whose logits are the run's. nostalgebraist 2020,
    "interpreting GPT: the logit lens". Soft-caps apply in mode "own", and are frozen as the ratio they left at the
    end in mode "frozen". Without a final norm both modes are the same.

    Parameters
    ----------
    mid: also read the states between attention and MLP.

    Raises TargetError for a target of another run, PathexpError for one that is no direction of logits. Costs one
    unembedding of every state at the target's position; `own` and `frozen`, when asked for, one per state.

    >>> import pathexp as px
    >>> trace = px.load("attn-2l").run("To be, or not to be")
    >>> found = px.lens(trace, trace.logit(" the"))
    >>> found.points, bool(abs(found.own["L1.out"] - trace.logits).max() < 1e-9)
    (('embed', 'L0.out', 'L1.out'), True)
    """
    check_trace(trace, "lens")
    expect("lens", mid=(mid, TRUTH))
    on_stream(target, freeze(trace))  # refuses a target of another run
    if target.space != "logits":
        raise PathexpError(f"a lens reads logits; got a target in space {target.space!r}")
    after = stream_points(trace.config)
    points = ("embed", *(point for point in after if mid or point.endswith(".out")))
    stream = decompose(trace)
    added = target_parts(freeze(trace), target, ((label, stream[label]) for label in stream.labels))
    return Lens(trace, target, points, added)


def _own(trace: Trace, states: Array) -> Array:
    return np.stack([unembedded(trace.model, state) for state in states])


def _frozen(trace: Trace, states: Array) -> Array:
    graph = freeze(trace)
    constants = sum((value for _, value in straight(graph)), np.zeros(trace.logits.shape))
    logits: Array = push(graph.sink.operator, states) + constants
    return logits
