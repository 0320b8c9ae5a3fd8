"""A node that was opened: the values of its children, and which of them is how large. Arrays, not objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...graph import Array, Indices
from .beginnings import Beginnings
from .endings import Endings
from .numbers import Numbers
from .spots import Child, Choices, Group, Spot


@dataclass(frozen=True, eq=False)
class Opening:
    """Children are numbered: first the extras of the spot, then the choices of its group that it reaches.

    `noise` are the deviations of the values' rounding.
    """

    words: Endings | Beginnings
    spot: Spot
    extras: tuple[Child, ...]
    values: Array
    noise: Array

    @cached_property
    def order(self) -> Indices:
        """The children, the largest |value| first; of equals, the one that is numbered first."""
        return np.argsort(-np.abs(self.values), kind="stable").astype(np.int32)

    @cached_property
    def ranks(self) -> Indices:
        """The ranks by |value| of the children that hold more than one path."""
        return np.flatnonzero(~self._single[self.order]).astype(np.int32)

    @property
    def single_ranks(self) -> Indices:
        """The ranks by |value| of the children that are single paths."""
        return np.flatnonzero(self._single[self.order]).astype(np.int32)

    @cached_property
    def finished(self) -> float:
        """What the children that are single paths add together."""
        return float(self.values[self._single].sum())

    def singles(self) -> int:
        """How many children are single paths."""
        return int(self._single.sum())

    @property
    def _single(self) -> NDArray[np.bool_]:
        """Whether each child is a single path, as they are numbered."""
        extras = np.array([child.count == 1 for child in self.extras], dtype=bool)
        return np.concatenate([extras, self._choices.single[self._span]])

    @property
    def _choices(self) -> Choices:
        return self.words.choices(self.spot.group)

    @cached_property
    def _span(self) -> slice:
        return self.words.span(self.spot)

    def __len__(self) -> int:
        return len(self.values)

    def child(self, number: int) -> Child:
        """The child of a number."""
        if number < len(self.extras):
            return self.extras[number]
        return self.words.child(self.spot, self._span.start + number - len(self.extras))

    def counts(self) -> Iterator[int]:
        """Iterate over the numbers of paths of the children, as they are numbered."""
        yield from (child.count for child in self.extras)
        yield from self._choices.counts[self._span]


def opened(numbers: Numbers, spots: Sequence[Spot]) -> list[Opening]:
    """Open nodes together: pull their fields, and meet those of one group with its rows in one product."""
    fields = numbers.fields([spot.word for spot in spots])
    together: dict[Group, list[int]] = {}
    for index, spot in enumerate(spots):
        together.setdefault(spot.group, []).append(index)
    found: dict[int, Opening] = {}
    for group, which in together.items():
        met = _met(numbers, group, [spots[i] for i in which], np.stack([fields[i] for i in which]))
        found |= {i: _opening(numbers, spots[i], *row) for i, row in zip(which, met, strict=True)}
    return [found[index] for index in range(len(spots))]


def _met(
    numbers: Numbers, group: Group, spots: Sequence[Spot], fields: Array
) -> Iterator[tuple[Array, Array]]:
    """Values and deviations of all choices, by spot."""
    depths = np.array([spot.depth for spot in spots])
    return zip(
        *numbers.ladder.met(fields, depths, numbers.words.choices(group), numbers.rows(group)), strict=True
    )


def _opening(numbers: Numbers, spot: Spot, values: Array, noise: Array) -> Opening:
    words = numbers.words
    extras, span = np.array(numbers.extras(spot)).reshape(-1, 2), words.span(spot)
    return Opening(
        words,
        spot,
        words.extras(spot),
        np.concatenate([extras[:, 0], values[span]]),
        np.concatenate([extras[:, 1], noise[span]]),
    )
