"""Which edges some accepted path takes: reachable from a source and leading to the sink, state by state."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .wires import Flags, Indices, Wires


@dataclass(frozen=True, eq=False)
class Mask:
    """The open edges: on the stream, (writers · copies, readers); past it, (directs, copies)."""

    stream: Flags
    direct: Flags


def open_edges(wires: Wires, opened: Mask | None = None) -> Mask:
    """Return the edges that lie on an accepted path, all of whose edges are open."""
    return _Opening(wires, opened).mask()


@dataclass(frozen=True, eq=False)
class _Opening:
    """A sweep there and a sweep back, over flags instead of streams."""

    wires: Wires
    opened: Mask | None

    @cached_property
    def _shape(self) -> tuple[int, int, int]:
        return len(self.wires.writers), self.wires.copies, len(self.wires.states)

    @cached_property
    def _stream(self) -> Flags:
        """Open edges (writers, copies, readers), order of depths respected."""
        wires, blocks = self.wires, len(self.wires.ports)
        opened = np.ones((len(wires.writers), wires.copies, wires.columns), dtype=bool)
        if self.opened is not None:
            opened = self.opened.stream.reshape(opened.shape).copy()
        for label, row in wires.rows.items():
            node = wires.graph.by_label[label]
            depth = (
                wires.graph.places[label] + 1 if label in wires.graph.places else getattr(node, "depth", 0)
            )
            for b in range(min(depth, blocks)):
                opened[row][:, wires.ports[b]] = False
        return opened

    @cached_property
    def _direct(self) -> Flags:
        mask, shape = self.opened, (len(self.wires.directs), self.wires.copies)
        return np.ones(shape, dtype=bool) if mask is None else mask.direct

    @cached_property
    def written(self) -> Flags:
        """In which states a node can have written, from a source on: (writers, copies, states)."""
        wires, found = self.wires, np.zeros(self._shape, dtype=bool)
        for depth in range(len(wires.ports) + 1):
            for row, state, _ in wires.entering(depth):
                found[row, :, state] = True
            if depth < len(wires.ports):
                self._write(depth, found)
        return found

    def _write(self, b: int, found: Flags) -> None:
        wires = self.wires
        opened = self._stream[:, :, wires.ports[b]]
        ready = np.einsum("wkp,wks->ps", opened.astype(np.int64), found.astype(np.int64)) > 0
        ready = ready.reshape(len(wires.members[b]), wires.copies, self._shape[2])
        for state, after, components in self.wires.crossings(b):
            found[wires.members[b][components], :, after] |= ready[components, :, state]
        for number, direct in enumerate(wires.directs):
            row = wires.rows.get(direct.reader, -1)
            if row in wires.members[b]:
                found[row, :, direct.state] |= self._direct[number]

    @cached_property
    def useful(self) -> Flags:
        """In which states a reader leads to the sink: (readers, states before reading)."""
        wires, found = self.wires, np.zeros((self.wires.columns, self._shape[2]), dtype=bool)
        found[-1] = wires.finishes
        for b in reversed(range(len(wires.ports))):
            asked = self.asked(wires.members[b], found)
            taken = np.zeros((len(wires.members[b]), wires.copies, self._shape[2]), dtype=bool)
            for state, after, components in self.wires.crossings(b):
                taken[components, :, state] |= asked[components, :, after]
            found[wires.ports[b]] = taken.reshape(len(taken) * wires.copies, self._shape[2])
        return found

    def asked(self, rows: Indices, useful: Flags) -> Flags:
        """In which states what some writers write leads to the sink: (rows, copies, states)."""
        opened = self._stream[rows].astype(np.int64)
        return np.einsum("wkp,ps->wks", opened, useful.astype(np.int64)) > 0  # type: ignore[no-any-return]

    def mask(self) -> Mask:
        both = np.einsum("wks,ps->wkp", self.written.astype(np.int64), self.useful.astype(np.int64)) > 0
        stream = (both & self._stream).reshape(-1, self.wires.columns)
        return Mask(stream, self._direct & self._directs_useful())

    def _directs_useful(self) -> Flags:
        wires = self.wires
        rows = [
            np.ones(wires.copies, dtype=bool)
            if direct.reader not in wires.rows
            else self.asked(np.array([wires.rows[direct.reader]]), self.useful)[0, :, direct.state]
            for direct in wires.directs
        ]
        return np.array(rows, dtype=bool).reshape(len(wires.directs), wires.copies)
