"""Trees grow best first: the largest leaf is opened next, strictly; the leaves behind it are opened ahead.

Opening many nodes at once costs much less than one by one, as their fields meet the same rows in one product. So
whenever the next leaf is not ready, the largest leaves are made ready together; which of them enter the tree, and in
which order, is decided one by one. A tree of 100 nodes is the beginning of the tree of 1,000.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .frontier import ROOT, Frontier, Leaf
from .numbers import Numbers
from .opening import Opening, opened
from .spots import Spot

AHEAD = 32
"""How many leaves are made ready together at most; fewer while the tree is small."""


@dataclass
class Growth:
    """Openings in the order in which they were made, where each belongs, and the frontier."""

    numbers: Numbers
    openings: list[Opening] = field(default_factory=list)
    at: dict[Leaf, int] = field(default_factory=dict)
    frontier: Frontier = field(default_factory=Frontier)
    ready: dict[Leaf, Opening] = field(default_factory=dict)

    def copy(self) -> Growth:
        """Another growth from here, so that trees already made stay as they are."""
        return Growth(
            self.numbers, list(self.openings), dict(self.at), self.frontier.copy(), dict(self.ready)
        )

    def grow(self) -> bool:
        """Open the largest leaf; False if there is none."""
        leaf = self.frontier.pop(self.openings, self.at) if self.openings else self._root()
        if leaf is not None:
            self.open(leaf)
        return leaf is not None

    def _root(self) -> Leaf | None:
        return ROOT if self.numbers.words.count > 1 else None

    def open(self, leaf: Leaf) -> None:
        """Open a leaf, whichever it is."""
        if leaf not in self.ready:
            self._prepare(leaf)
        opening = self.ready.pop(leaf)
        self.at[leaf] = len(self.openings)
        self.frontier.add(len(self.openings), opening)
        self.openings.append(opening)

    def _prepare(self, leaf: Leaf) -> None:
        """Make a leaf ready, and with it the largest others."""
        taken = self.at.keys() | self.ready.keys() | {leaf}
        amount = min(AHEAD - 1, len(self.openings))
        leaves = [leaf, *self.frontier.largest(amount, self.openings, taken)]
        made = opened(self.numbers, [self.spot(each) for each in leaves])
        self.ready.update(zip(leaves, made, strict=True))

    def spot(self, leaf: Leaf) -> Spot:
        """Where a leaf stands."""
        return spot_of(leaf, self.openings, self.numbers)


def spot_of(leaf: Leaf, openings: Sequence[Opening], numbers: Numbers) -> Spot:
    """Return where a leaf stands."""
    number, rank = leaf
    if leaf == ROOT:
        return numbers.words.root
    opening = openings[number]
    spot = opening.child(int(opening.order[rank])).spot
    assert spot is not None, "complete paths are not opened"
    return spot
