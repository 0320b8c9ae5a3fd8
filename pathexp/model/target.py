"""What a contribution is measured toward: one direction at one position and one point of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..errors import TargetError
from ..read_only import restore

Space = Literal["logits", "residual"]


@dataclass(frozen=True, eq=False)
class Target:
    """A direction at one position of a run: (d_out) of logits, or of a stream, a query or a key, as wide as that.

    ``value`` is the run's own number in that direction, in the direction's units. Made by ``Trace.logit``,
    ``Trace.logit_difference`` and ``Trace.direction``; targets of one point and position can be added,
    subtracted, multiplied by numbers and averaged.

    ``at``: the point that is read, "logits" or a name of ``Trace.residuals``; "L3H2.Q" for a head's query.

    >>> import pathexp as px
    >>> trace = px.random_model(seed=0).run([1, 2, 3])
    >>> trace.logit(5)
    Target(logit of 5 at position 2: ...)
    >>> mean = Target.mean([trace.logit(5), trace.logit(7)]) - 0.5 * trace.logit(3)
    >>> bool(abs(mean.value - (trace.logits[2, [5, 7]].mean() - 0.5 * trace.logits[2, 3])) < 1e-12)
    True
    """

    position: int
    direction: npt.NDArray[np.float64]
    space: Space
    label: str
    value: float
    at: str = ""

    def __post_init__(self) -> None:
        if not self.at:
            object.__setattr__(self, "at", "logits" if self.space == "logits" else "final_in")

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Take over what a copy or a pickle holds, its direction read-only as it was."""
        restore(self, state)

    def __repr__(self) -> str:
        return f"Target({self.label} at position {self.position}: {self.value:.6g})"

    def __add__(self, other: Target) -> Target:
        """Return the sum of two targets of one point and position. Raises TargetError for others."""
        return self._with(other, 1.0, "plus")

    def __radd__(self, other: object) -> Target:
        """Return the target itself for 0, so that `sum` adds targets up."""
        if isinstance(other, Real) and other == 0:
            return self
        return NotImplemented

    def __sub__(self, other: Target) -> Target:
        """Return the difference of two targets of one point and position. Raises TargetError for others."""
        return self._with(other, -1.0, "minus")

    def __mul__(self, factor: float) -> Target:
        """Return the target times a number."""
        if not isinstance(factor, Real) or isinstance(factor, bool) or not np.isfinite(float(factor)):
            raise TargetError(f"a target is multiplied by a finite number, not by {factor!r:.40}")
        scaled = _frozen(float(factor) * self.direction)
        label = f"{float(factor):g} × {_grouped(self.label)}"
        return replace(self, direction=scaled, label=label, value=float(factor) * self.value)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Target:
        """Return the target divided by a number. Raises TargetError for zero."""
        if not isinstance(divisor, Real) or not divisor:
            raise TargetError(f"a target is divided by a number that is not zero, not by {divisor!r:.40}")
        return self * (1.0 / float(divisor))

    def __neg__(self) -> Target:
        """Return the target in the other direction."""
        return self * -1.0

    @staticmethod
    def mean(targets: Iterable[Target]) -> Target:
        """Return the mean of targets of one point and position, such as the logits of several right answers.

        Raises TargetError if there are none, or if they are of different points or positions.
        """
        found = list(targets)
        if not found:
            raise TargetError("the mean of no targets is not defined; give at least one")
        total = sum(found[1:], start=found[0])
        label = found[0].label if len(found) == 1 else f"mean of {', '.join(each.label for each in found)}"
        direction = _frozen(total.direction / len(found))
        return replace(total, direction=direction, label=label, value=total.value / len(found))

    def _with(self, other: object, factor: float, word: str) -> Target:
        if not isinstance(other, Target):
            raise TargetError(f"a target is added to or subtracted from another target, not {other!r:.40}")
        if (self.at, self.position) != (
            other.at,
            other.position,
        ) or self.direction.shape != other.direction.shape:
            raise TargetError(
                f"{self.label!r} reads {self.at} at position {self.position} and {other.label!r} reads {other.at} at "
                f"position {other.position}; targets are combined at one point and position. Sums over paths are "
                "linear: ask for each and combine the values"
            )
        direction = _frozen(self.direction + factor * other.direction)
        label = f"{self.label} {word} {_grouped(other.label) if word == 'minus' else other.label}"
        return replace(self, direction=direction, label=label, value=self.value + factor * other.value)


def _grouped(label: str) -> str:
    """A label in parentheses where it is made of several."""
    return (
        f"({label})"
        if any(f" {word} " in label for word in ("plus", "minus")) or "mean of" in label
        else label
    )


def _frozen(array: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    array.setflags(write=False)
    return array
