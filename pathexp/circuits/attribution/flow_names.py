"""What the nodes of a flow are called: by label, or by label and position, such as `L0H1@3`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from .wires import Wires


@dataclass(frozen=True, eq=False)
class FlowNames:
    """The names of the writers and readers of a flow, in the order of its rows and columns."""

    wires: Wires
    position: int
    """The target's position, at which alone the sink is read."""

    @cached_property
    def writers(self) -> tuple[str, ...]:
        """The names of all writers · copies."""
        return tuple(self.name(label, k) for label in self.wires.writers for k in range(self.wires.copies))

    @cached_property
    def readers(self) -> tuple[str, ...]:
        """The names of all readers, the sink last."""
        components = self.wires.graph.alphabet.components
        names = [self.name(label, k) for label in components for k in range(self.wires.copies)]
        return (*names, self.name(self.wires.graph.sink.label, self.position))

    def direct(self, number: int, k: int) -> tuple[str, str]:
        """Return the names of a direct edge's ends."""
        edge = self.wires.directs[number]
        return self.name(edge.source, k), self.name(edge.reader, k)

    def name(self, label: str, k: int) -> str:
        """Return the name of one copy of a node."""
        return f"{label}@{k}" if self.wires.by_position else label
