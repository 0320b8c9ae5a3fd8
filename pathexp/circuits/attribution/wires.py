"""Who writes and who reads on the stream: the rows and columns of a flow.

A path query multiplies every place by the states of its automaton. Kept apart by position, a component is
as many nodes as there are positions: node i is what it writes at position i.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...errors import GraphError
from ...graph import Array, ResidualGraph, Source, Walk, is_local, start_value

Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Direct:
    """A constant that is read inside one component (or the sink), past the stream."""

    source: str
    reader: str
    state: int
    """The state after the reader; after the source if the reader is the sink."""
    value: Array


@dataclass(frozen=True, eq=False)
class Wires:
    """The writers, the readers and the live states of a walk, numbered."""

    walk: Walk
    by_position: bool

    @property
    def graph(self) -> ResidualGraph:
        return self.walk.graph

    @property
    def copies(self) -> int:
        """How many nodes a component is: one, or one per position."""
        return self.graph.sizes[0] if self.by_position else 1

    @cached_property
    def selectors(self) -> Array:
        """Which positions belong to which copy, (copies, positions) of zeros and ones."""
        n = self.graph.sizes[0]
        return np.eye(n) if self.by_position else np.ones((1, n))

    @cached_property
    def states(self) -> tuple[int, ...]:
        """The states in which something can be on the stream."""
        found = {state for _, state in self.walk.starts()}
        for steps in self._tables:
            found |= {int(after) for state in found for after in steps[state] if after >= 0}
        return tuple(sorted(found))

    @cached_property
    def _tables(self) -> tuple[Indices, ...]:
        """Per block, the next state (state of the automaton, component)."""
        columns = self.graph.alphabet.columns
        return tuple(
            self.walk.automaton.table[:, [columns[c.label] for c in block.components]]
            for block in self.graph.blocks
        )

    @cached_property
    def steps(self) -> tuple[Indices, ...]:
        """Per block, the next live state (live state, component); -1 where nothing can be accepted."""
        place = np.full(len(self.walk.automaton.table) + 1, -1)
        place[list(self.states)] = np.arange(len(self.states))
        return tuple(place[table[list(self.states)]] for table in self._tables)

    @cached_property
    def finishes(self) -> Flags:
        """In which live states the sink may be read."""
        return np.array([self.walk.finishes(state) for state in self.states], dtype=bool)

    @cached_property
    def writers(self) -> tuple[str, ...]:
        """Sources that enter the stream, then components in block order."""
        sources = (source.label for source in self.graph.sources if source.depth is not None)
        return (*sources, *self.graph.alphabet.components)

    @cached_property
    def rows(self) -> dict[str, int]:
        """The number of each writer."""
        return {label: row for row, label in enumerate(self.writers)}

    @cached_property
    def members(self) -> tuple[Indices, ...]:
        """Per block, the rows of its components."""
        return tuple(
            np.array([self.rows[c.label] for c in block.components], dtype=np.int64)
            for block in self.graph.blocks
        )

    @cached_property
    def ports(self) -> tuple[Indices, ...]:
        """Per block, the columns of its components: `copies` in a row for each; the sink has the last column."""
        sizes = [len(block.components) * self.copies for block in self.graph.blocks]
        ends = np.cumsum([0, *sizes])
        return tuple(np.arange(a, b) for a, b in pairwise(ends))

    @property
    def columns(self) -> int:
        """How many readers there are, the sink included."""
        return sum(map(len, self.ports)) + 1

    def crossings(self, b: int) -> Iterator[tuple[int, int, Indices]]:
        """How components of a block lead from state to state: (before, after, components)."""
        for state, row in enumerate(self.steps[b]):
            for after in np.unique(row[row >= 0]):
                yield state, int(after), np.flatnonzero(row == after)

    def entering(self, depth: int) -> Iterator[tuple[int, int, Array]]:
        """The sources that enter the stream at a depth and may start a path: (row, live state, value)."""
        for source, state in self.walk.starts():
            if source.depth == depth:
                yield self.rows[source.label], self.states.index(state), source.value()

    @cached_property
    def directs(self) -> tuple[Direct, ...]:
        """The constants read past the stream that may start a path."""
        return tuple(
            direct for source, state in self.walk.starts() for direct in self._directs(source, state)
        )

    def reads_constants(self, b: int) -> bool:
        """Whether a component of a block reads a constant past the stream."""
        return any(self.graph.places.get(direct.reader) == b for direct in self.directs)

    def _directs(self, source: Source, state: int) -> Iterator[Direct]:
        for reader, operator in source.into.items():
            sink = reader == self.graph.sink.label
            after = state if sink else self.walk.next_state(state, reader)
            if self.walk.finishes(state) if sink else after >= 0:
                yield Direct(
                    source.label, reader, self.states.index(after), start_value(source.start, operator)
                )

    def check_skips(self) -> None:
        """Raise GraphError if a skip edge moves between positions, so that positions cannot be kept apart."""
        for b, block in enumerate(self.graph.blocks):
            if self.by_position and not is_local(block.skip):
                raise GraphError(
                    f"the skip edge past block {b} moves between positions, so that a flow cannot be kept apart "
                    "by position; leave out per_position"
                )
