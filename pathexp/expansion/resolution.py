"""What rounding leaves of a ranking: how far it blurs the list's end, and whether there is a list to speak of."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

_LITTLE = 2.0**-20
"""The share of the largest value up to which rounding may blur the last ones of a ranking that is called proven."""


def margin(values: Sequence[float], errors: Sequence[float], bound: float) -> float:
    """Return how far rounding can blur the end of a list, beside a bound on what is not listed.

    >>> margin([5.0, 2.0], [0.5, 0.1], 1.0), margin([5.0, 2.0], [0.5, 0.1], 2.25)
    (0.1, 0.25)
    """
    least = min(map(abs, values), default=0.0)
    near = (error for value, error in zip(values, errors, strict=True) if abs(value) <= 2 * least)
    return max([0.0, bound - least, *near])


def is_resolved(values: Sequence[float], margin: float) -> bool:
    """Return whether values are numbers that rounding blurs less than the last of them, or by little of the first.

    >>> is_resolved([5.0, 2.0], 0.25), is_resolved([5.0, 2.0], 3.0), is_resolved([5.0, 0.0], 1e-9)
    (True, False, True)
    """
    sizes = list(map(abs, values))
    return all(map(isfinite, values)) and margin <= max(
        [0.0, min(sizes, default=0.0), _LITTLE * max(sizes, default=0.0)]
    )


def ties(values: Sequence[float], margin: float, bound: float) -> int:
    """Return how many values at the end of a list differ from what is not listed by less than rounding."""
    return sum(abs(value) - margin <= bound for value in values) if bound else 0


def tied_places(values: Sequence[float], ties: int) -> str:
    """Return the places that are tied, in words.

    >>> tied_places([3.0, 2.0, 1.0], 1), tied_places([3.0, 2.0, 1.0], 2)
    ('place 3', 'places 2 to 3')
    """
    last = len(values)
    return f"place {last}" if ties == 1 else f"places {last - ties + 1} to {last}"
