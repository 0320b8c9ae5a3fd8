"""The logit lens: what the unembedding would make of the stream at every depth.

nostalgebraist 2020, "interpreting GPT: the logit lens". Two modes that are two things: "own" normalizes each state
by its own statistics, as if the model ended there; "frozen" uses the scale that the final norm had on this run, the
only mode in which components add up.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from ..arguments import TRUTH, expect
from ..errors import PathexpError
from ..graph import Array, freeze, push, start_value
from ..model import Trace
from ..model.parts import unembedded
from ..model.softmax import log_softmax
from ..model.trace import check_trace
from .attribution.decompose import stream_points

Mode = Literal["own", "frozen"]
MODES = ("own", "frozen")


@dataclass(frozen=True, eq=False, repr=False)
class Lens:
    """Logits of every state of the stream: ``points`` (S names) and ``logits`` (S, n, V), the last the run's own."""

    trace: Trace
    mode: Mode
    points: tuple[str, ...]
    logits: Array

    def __repr__(self) -> str:
        return f"<Lens, mode {self.mode!r}: {len(self.points)} states of {self.trace!r}>"

    def __getitem__(self, point: str) -> Array:
        """The logits of one state, (n, V).

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
        """The most likely next token at every state.

        Raises TargetError if the run has no such position.
        """
        return tuple(int(token) for token in self.logits[:, self._place(position)].argmax(axis=-1))

    def ranks(self, token: int | str, position: int = -1) -> tuple[int, ...]:
        """The rank of a token at every state, 1 for the most likely.

        Raises TokenError if it is not one token, TargetError if the run has no such position.
        """
        column = self.trace.model.output_id(token)
        at = self.logits[:, self._place(position)]
        return tuple(int(rank) for rank in 1 + (at > at[:, [column]]).sum(axis=-1))

    def _place(self, position: int) -> int:
        return self.trace.logit(0, position).position


def logit_lens(trace: Trace, mode: Mode = "own", *, between: bool = False) -> Lens:
    """Read the stream of a run at every depth, the embedding included, as if the model ended there.

    L layers give L intermediate states and the last, whose logits (in nats) are the run's. nostalgebraist 2020,
    "interpreting GPT: the logit lens". Soft-caps apply in mode "own", and are frozen as the ratio they left at the
    end in mode "frozen". Without a final norm both modes are one.

    Parameters
    ----------
    mode: "own" normalizes each state by its own statistics; "frozen" by the scale of the last state.
    between: also the states between attention and MLP.

    Raises PathexpError for another mode.

    >>> import pathexp as px
    >>> lens = px.logit_lens(px.load("attn-2l").run("To be, or not to be"))
    >>> lens.points, bool(abs(lens["L1.out"] - lens.trace.logits).max() < 1e-9)
    (('embed', 'L0.out', 'L1.out'), True)
    """
    expect("logit_lens", between=(between, TRUTH))
    if not isinstance(mode, str) or mode not in MODES:
        raise PathexpError(
            f"mode={mode!r} is not known: 'own' normalizes each state by its own statistics, 'frozen' by the scale "
            "of the last"
        )
    check_trace(trace, "logit_lens")
    after = stream_points(trace.config)
    points = ("embed", *(point for point in after if between or point.endswith(".out")))
    read = _own if mode == "own" else _frozen
    states = np.stack([trace.residuals[point] for point in points])
    return Lens(trace, mode, points, read(trace, states))


def _own(trace: Trace, states: Array) -> Array:
    return np.stack([unembedded(trace.model, state) for state in states])


def _frozen(trace: Trace, states: Array) -> Array:
    sink = freeze(trace).sink
    constants = [
        start_value(source.start, source.into[sink.label])
        for source in freeze(trace).sources
        if sink.label in source.into
    ]
    logits: Array = push(sink.operator, states) + sum(constants, np.zeros(trace.logits.shape))
    return logits
