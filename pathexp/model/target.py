"""What a contribution is measured toward: one direction at one position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Space = Literal["logits", "residual"]


@dataclass(frozen=True, eq=False)
class Target:
    """A direction, (d_vocab) of logits or (d_model) of the final stream, at one position of a run.

    ``value`` is the run's own number in that direction, in the direction's units (nats for a logit);
    the final stream is the one before the final norm. Made by ``Trace.logit``, ``Trace.logit_difference``
    and ``Trace.direction``.

    >>> import pathexp as px
    >>> px.random_model(seed=0).run([1, 2, 3]).logit(5)
    Target(logit of 5 at position 2: ...)
    """

    position: int
    direction: npt.NDArray[np.float64]
    space: Space
    label: str
    value: float

    def __repr__(self) -> str:
        return f"Target({self.label} at position {self.position}: {self.value:.6g})"
