"""Means and standard errors from exact sums: no order of adding, and no division of the work, changes a digit.

Every double is an integer multiple of 2⁻¹⁰⁷⁴, and its square one of 2⁻²¹⁴⁸: both are summed as integers, and rounded once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

_SMALLEST = 1074


@dataclass
class Moments:
    """How many numbers there were, their sum and the sum of their squares, exactly.

    >>> both = Moments()
    >>> for number in (1e300, 1.0, -1e300, 3.0):
    ...     both.add(number)
    >>> both.mean, Moments().mean
    (1.0, None)
    """

    count: int = 0
    total: int = 0
    squares: int = 0

    def add(self, number: float) -> None:
        """Add a finite number."""
        above, below = float(number).as_integer_ratio()
        whole = above << (_SMALLEST + 1 - below.bit_length())
        self.count += 1
        self.total += whole
        self.squares += whole * whole

    def with_zeros(self, count: int) -> Moments:
        """Return the same with so many numbers in all, those that are missing being zero."""
        return Moments(count, self.total, self.squares)

    @property
    def mean(self) -> float | None:
        """The mean, rounded once; None of no numbers."""
        return self.total / (self.count << _SMALLEST) if self.count else None

    @property
    def error(self) -> float | None:
        """The standard error of the mean, √(s² / n) with s² over n − 1; None of fewer than two numbers."""
        if self.count < 2:
            return None
        spread = self.count * self.squares - self.total * self.total
        return _root(spread, self.count * self.count * (self.count - 1) << 2 * _SMALLEST)


def _root(above: int, below: int) -> float:
    """The square root of a ratio of integers of any size."""
    shift = (above.bit_length() - below.bit_length()) // 2
    ratio = above / (below << 2 * shift) if shift >= 0 else (above << -2 * shift) / below
    return math.ldexp(math.sqrt(ratio), shift)
