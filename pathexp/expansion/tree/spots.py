"""Where a node of a tree stands, and what it can be opened into: labels and exact counts, no numbers.

A node is an ending (`L23H4 L29M U`) or a beginning (`E L0M`). Its spot is its word, the depth at which it meets the
stream, and its group: the automaton's states it may be met in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...graph import Indices

Word: TypeAlias = tuple[str, ...]
Group: TypeAlias = frozenset[int]


@dataclass(frozen=True)
class Spot:
    """A word of labels, the depth at which it meets the stream, and the states in which it may be met.

    `behind`: of an ending, the group of the word without its first label.
    """

    word: Word
    depth: int
    group: Group
    behind: Group = frozenset()


@dataclass(frozen=True)
class Child:
    """One label more: how many paths there are, and where one stands then; None where the path is complete."""

    label: str
    count: int
    spot: Spot | None


@dataclass(frozen=True, eq=False)
class Choices:
    """What may be added to the words of a group, wherever they stand, in the order of depth.

    `places` are (block, index in the block) of components and (-1, index) of sources or the sink, which complete
    a path. `groups` are those of the longer words.
    """

    labels: tuple[str, ...]
    depths: Indices
    counts: tuple[int, ...]
    groups: tuple[Group, ...]
    places: tuple[tuple[int, int], ...]

    @cached_property
    def single(self) -> NDArray[np.bool_]:
        """Whether each stands for a single path."""
        return np.array([count == 1 for count in self.counts], dtype=bool)

    def up_to(self, depth: int) -> slice:
        """The choices at a depth or before it."""
        return slice(0, int(np.searchsorted(self.depths, depth, side="right")))

    def onward(self, depth: int) -> slice:
        """The choices at a depth or behind it."""
        return slice(int(np.searchsorted(self.depths, depth)), len(self.depths))


@dataclass(frozen=True)
class Choice:
    """One of them: its label, the depth at which it meets a word, how many paths, group and place."""

    label: str
    depth: int
    count: int
    group: Group
    place: tuple[int, int]


def choices(found: Sequence[Choice]) -> Choices:
    """Return choices in the order of depth; those without paths are left out."""
    kept = sorted((each for each in found if each.count), key=lambda each: each.depth)
    return Choices(
        tuple(each.label for each in kept),
        np.array([each.depth for each in kept], dtype=np.int64),
        tuple(each.count for each in kept),
        tuple(each.group for each in kept),
        tuple(each.place for each in kept),
    )
