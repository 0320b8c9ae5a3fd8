"""Only chosen paths, frozen: patterns, norm scales and gates stay as they were in the run, and everything is linear.

Where all sides read along the paths this is the exact sum of the paths, none listed. A side that does not reads the
stream of the run as it was: a head without "v", or an MLP without "m", gives what it gave in the run, as long as a
kept path goes on behind it. Queries and keys make no difference: frozen patterns cannot see them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...errors import GraphError
from ...graph import Array, Component, Source, freeze, push, start_value
from .kept_paths import Ending, KeptPaths


@dataclass(frozen=True, eq=False)
class FrozenPaths(KeptPaths):
    """The paths of a run that a walk keeps, frozen; with another run its tokens go through the maps of this one."""

    def logits(self, positions: Sequence[int] | None = None) -> Array:
        """The exact sum of what the kept paths (and those that carry the other run) bring to the logits, (n, V), or of some positions.

        Cost: the linear part of one forward pass for each set of endings that differs.
        """
        sink = self.graph.sink
        constants = self._constants_into(sink.label, self.dropped(sink.label, self.at_sink))
        whole = sum(constants, push(sink.operator, self.final))
        return whole if positions is None else whole[list(positions)]

    def arrived(self, depth: int, stream: Array, sources: list[tuple[Source, bool]]) -> Array:
        """The stream with what sources add; the other run's start, through this run's operator."""
        return sum((self._value(source, kept) for source, kept in sources), stream)

    def _value(self, source: Source, kept: bool) -> Array:
        if kept or self.other is None:
            return source.value()
        found = freeze(self.other).by_label.get(source.label)
        if not isinstance(found, Source):
            raise GraphError(f"the other run has no source {source.label}")
        return start_value(found.start, source.write)

    def crossed(self, depth: int, ending: Ending, stream: Array, outputs: Mapping[str, Array]) -> Array:
        """The stream behind a block: past it, and through its components."""
        return sum(outputs.values(), push(self.graph.blocks[depth].skip, stream))

    def output(self, component: Component, read: Ending, stream: Array, dropped: frozenset[str]) -> Array:
        """What a copy of a component gives: its frozen map of the stream, and constants inside it."""
        along = ("m" if component.head is None else "v") in self.reading.of(component.label)
        stream = stream if along else self.clean(component)
        constants = self._constants_into(component.label, dropped if along else frozenset())
        return sum(constants, push(component.operator, stream))

    def _constants_into(self, label: str, dropped: frozenset[str]) -> list[Array]:
        sources = (s for s in self.graph.sources if label in s.into and s.label not in dropped)
        return [start_value(source.start, source.into[label]) for source in sources]
