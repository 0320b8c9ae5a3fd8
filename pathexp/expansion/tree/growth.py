"""Trees grow best first, in waves: each wave opens the largest leaves that there are when it begins.

Opening many nodes at once costs much less than one by one, as their fields meet the same rows in one product. A wave
is an eighth as large as the tree by then (one node at first, 256 at most), so the order is strictly best first in the
beginning and nearly so later on. It does not depend on limits: a tree of 100 nodes is the beginning of one of 1,000.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from .frontier import ROOT, Frontier, Leaf
from .numbers import Numbers
from .opening import Opening, opened
from .spots import Spot

WAVE = 256
"""How many leaves are opened together at most."""


@dataclass
class Growth:
    """Openings in the order in which they were made, where each belongs, and what comes next."""

    numbers: Numbers
    openings: list[Opening] = field(default_factory=list)
    at: dict[Leaf, int] = field(default_factory=dict)
    frontier: Frontier = field(default_factory=Frontier)
    wave: deque[Leaf] = field(default_factory=deque)
    ready: dict[Leaf, Opening] = field(default_factory=dict)

    def copy(self) -> Growth:
        """Another growth from here, so that trees already made stay as they are."""
        return Growth(
            self.numbers,
            list(self.openings),
            dict(self.at),
            self.frontier.copy(),
            deque(self.wave),
            dict(self.ready),
        )

    def grow(self, room: int) -> bool:
        """Open the next leaf of the wave; False if there is none. `room` nodes, no more, will be asked for."""
        if not (self.wave or self._next_wave()):
            return False
        if self.wave[0] not in self.ready:
            self._prepare([leaf for leaf in self.wave if leaf not in self.at][:room])
        self.open(self.wave.popleft())
        return True

    def open(self, leaf: Leaf) -> None:
        """Open a leaf, whichever it is; nothing happens if it is open."""
        if leaf in self.at:
            return
        if leaf not in self.ready:
            self._prepare([leaf])
        opening = self.ready.pop(leaf)
        self.at[leaf] = len(self.openings)
        self.frontier.add(len(self.openings), opening)
        self.openings.append(opening)

    def _next_wave(self) -> bool:
        """Take the largest leaves; False if there are none."""
        if not self.openings:
            self.wave.extend([ROOT] if self.numbers.words.count > 1 else [])
        amount = min(WAVE, max(1, len(self.openings) // 8))
        while len(self.wave) < amount and (leaf := self.frontier.pop(self.openings, self.at)) is not None:
            self.wave.append(leaf)
        return bool(self.wave)

    def _prepare(self, leaves: Sequence[Leaf]) -> None:
        made = opened(self.numbers, [spot_of(leaf, self.openings, self.numbers) for leaf in leaves])
        self.ready.update(zip(leaves, made, strict=True))


def spot_of(leaf: Leaf, openings: Sequence[Opening], numbers: Numbers) -> Spot:
    """Return where a leaf stands."""
    number, rank = leaf
    if leaf == ROOT:
        return numbers.words.root
    opening = openings[number]
    spot = opening.child(int(opening.order[rank])).spot
    assert spot is not None, "complete paths are not opened"
    return spot
