"""How much better the second copy of repeated tokens is predicted than the first."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt


@dataclass(frozen=True)
class CopyLosses:
    """Losses of both copies of `length` tokens, means over `runs` texts in nats per token.

    `square` is the mean square of the difference, for the standard error.

    >>> found = CopyLosses(9, first=5.0, second=3.0, square=4.25, runs=5)
    >>> found.fall, found.standard_error
    (2.0, 0.25)
    """

    length: int
    first: float
    second: float
    square: float
    runs: int

    @property
    def fall(self) -> float:
        """By how much the loss falls from the first copy to the second."""
        return self.first - self.second

    @property
    def standard_error(self) -> float | None:
        """The standard error of the fall over texts; None for one text."""
        if self.runs < 2:
            return None
        return sqrt(max(self.square - self.fall**2, 0.0) / (self.runs - 1))

    def said(self) -> str:
        """Return the losses in words."""
        error = "" if self.standard_error is None else f" ± {self.standard_error:.3f}"
        return (
            f"loss {self.first:.3f} nats per token in the first copy of {self.length} tokens, "
            f"{self.second:.3f} in the second: it falls by {self.fall:.3f}{error}"
        )
