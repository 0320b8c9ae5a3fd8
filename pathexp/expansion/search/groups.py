"""Endings of paths that begin alike, side by side: their covectors, and how much what is before them can add."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...graph import Array, Indices
from .fields import Fields
from .reach import States

Seat = tuple[int, int, int]
"""Where a head stands: block, stack, row."""


@dataclass(frozen=True, eq=False)
class Group:
    """Suffixes that begin with one component, or the sink alone: their covectors, numbers, bounds, slacks (m,).

    With a seat the covectors are at the values of that head, else on the stream.
    """

    fields: Fields
    numbers: Indices
    bounds: Array
    slack: Array
    states: States
    seat: Seat | None = None


@dataclass(frozen=True, eq=False)
class Piece:
    """Continuations into one component that passed the sieve."""

    fields: Fields
    parents: Indices
    slack: Array


def only(group: Group, kept: NDArray[np.bool_]) -> Group:
    """Some of a group's suffixes."""
    if kept.all():
        return group
    return replace(
        group,
        fields=group.fields.chosen(kept),
        numbers=group.numbers[kept],
        bounds=group.bounds[kept],
        slack=group.slack[kept],
    )
