"""Exact numbers of paths by order, as whole numbers of any size.

The numbers of all orders are digits of one whole number, in a base that is larger than any of them: to add two lists of
numbers is then one addition, and to go on through one more component is a shift by a digit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from .stack import Indices

Counts = tuple[int, ...]
"""How many paths, by order: entry k counts those through k components."""


@dataclass(frozen=True, eq=False)
class Completions:
    """The ways from every depth and state to the sink, by how many components they pass.

    `packed[depth][state]` has so many `bits` for each order, the lowest for order 0.

    >>> import numpy as np
    >>> found = completions([np.array([[0, 0, 0]]), np.array([[0, -1]])], [True])
    >>> [found.by_order(depth, 0) for depth in range(len(found))], found.amount(0, 0)
    ([(1, 4, 3), (1, 1), (1,)], 8)
    """

    packed: tuple[tuple[int, ...], ...]
    bits: int
    _unpacked: dict[int, Counts] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.packed)

    def leads(self, depth: int, state: int) -> bool:
        """Whether the sink can be reached from a state at a depth."""
        return self.packed[depth][state] > 0

    def by_order(self, depth: int, state: int) -> Counts:
        """Return how many ways there are through 0, 1, 2, … components, up to the largest order that there is."""
        packed = self.packed[depth][state]
        if packed not in self._unpacked:
            self._unpacked[packed] = unpacked(packed, self.bits)
        return self._unpacked[packed]

    def amount(self, depth: int, state: int) -> int:
        """Return how many ways there are in all."""
        return sum(self.by_order(depth, state))


def completions(steps: Sequence[Indices], finishing: Sequence[bool]) -> Completions:
    """Return the ways to the sink from every depth and state: O(depths · states · components) additions.

    `steps`: per block the next state, (state, component), negative where there is none; `finishing`: the states in which the
    sink may be read.
    """
    most = 1
    for block in steps:
        most *= 1 + block.shape[1]
    bits = most.bit_length()  # no more paths than all choices of at most one component a block
    tables, onward = [tuple(map(int, finishing))], dict[bytes, list[Onward]]()
    for block in reversed(steps):
        after, key = tables[-1], block.tobytes()
        if key not in onward:  # most blocks are alike
            onward[key] = [_onward(row) for row in block.tolist()]
        through = (sum(ways * after[state] for state, ways in row) for row in onward[key])
        tables.append(tuple(own + (more << bits) for own, more in zip(after, through, strict=True)))
    return Completions(tuple(reversed(tables)), bits)


Onward = list[tuple[int, int]]
"""The states behind one component of a block, whichever, and how many components lead into each."""


def _onward(row: Sequence[int]) -> Onward:
    return [(state, ways) for state, ways in Counter(row).items() if state >= 0]


def unpacked(packed: int, bits: int) -> Counts:
    """Return the numbers that one whole number holds, so many bits for each, the lowest first.

    >>> unpacked(3 + (5 << 8) + (1 << 24), 8)
    (3, 5, 0, 1)
    """
    mask, found = (1 << bits) - 1, []
    while packed:
        found.append(packed & mask)
        packed >>= bits
    return tuple(found)
