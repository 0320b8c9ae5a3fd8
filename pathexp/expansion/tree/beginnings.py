"""Beginnings of paths, exactly counted: what one may be lengthened by, toward the sink.

The number of paths with a beginning is the number of ways to go on from it: the walk's completions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from ...graph import Source, Walk
from .spots import Child, Choice, Choices, Group, Spot, Word, choices


@dataclass(frozen=True)
class Beginnings:
    """The beginnings of a walk's paths.

    >>> import pathexp as px
    >>> beginnings = Beginnings(px.expand(px.ResidualGraph.attention_only(layers=2, heads=2)).walk)
    >>> [(child.label, child.count) for child in beginnings.extras(beginnings.root)]
    [('E', 9)]
    """

    walk: Walk
    _kept: dict[Group, Choices] = field(default_factory=dict)

    @cached_property
    def root(self) -> Spot:
        """Nothing yet: all paths begin so."""
        return Spot((), 0, frozenset())

    @cached_property
    def count(self) -> int:
        """How many paths there are."""
        return sum(self.walk.count_by_order)

    def onward(self, depth: int, state: int) -> int:
        """How many ways there are from a depth and a state to the sink."""
        return self.walk.completions.amount(depth, state) if state >= 0 else 0

    def choices(self, group: Group) -> Choices:
        """What may stand behind a beginning in a state; the sink completes a path."""
        if group not in self._kept:
            self._kept[group] = choices([choice for state in group for choice in self._choices(state)])
        return self._kept[group]

    def _choices(self, state: int) -> Iterator[Choice]:
        graph = self.walk.graph
        for b, block in enumerate(graph.blocks):
            for c, component in enumerate(block.components):
                after = int(self.walk.steps[b][state, c])
                yield Choice(component.label, b, self.onward(b + 1, after), frozenset((after,)), (b, c))
        finishes = int(self.walk.finishes(state))
        yield Choice(graph.sink.label, len(graph.blocks), finishes, frozenset(), (-1, 0))

    def extras(self, spot: Spot) -> tuple[Child, ...]:
        """The sources, or what reads a source that never enters the stream."""
        if not spot.word:
            found = [child for source, state in self.walk.starts() for child in self._begin(source, state)]
            return tuple(child for child in found if child.count)
        source = self.source(spot)
        return () if source is None else tuple(child for child in self._read(source) if child.count)

    def source(self, spot: Spot) -> Source | None:
        """The source that a beginning is, if it never enters the stream."""
        found = self.walk.graph.by_label[spot.word[0]]
        return found if len(spot.word) == 1 and isinstance(found, Source) and found.into else None

    def _begin(self, source: Source, state: int) -> Iterator[Child]:
        if source.into:
            count = sum(child.count for child in self._read(source))
            yield Child(source.label, count, Spot((source.label,), 0, frozenset()))
        elif source.depth is not None:
            spot = Spot((source.label,), source.depth, frozenset((state,)))
            yield Child(source.label, self.onward(source.depth, state), spot)

    def _read(self, source: Source) -> Iterator[Child]:
        """What reads a source directly: components, and the sink."""
        walk = self.walk
        state = walk.next_state(walk.automaton.start, source.label)
        for labels, depth, after, _ in walk.entries(source, state):
            spot = Spot((source.label, *labels), depth, frozenset((after,)))
            yield Child(labels[0], self.onward(depth, after), spot)
        if walk.straight(source, state):
            yield Child(walk.graph.sink.label, 1, None)

    def span(self, spot: Spot) -> slice:
        """Which choices can follow a beginning."""
        return self.choices(spot.group).onward(spot.depth)

    def child(self, spot: Spot, place: int) -> Child:
        """The choice at a place, behind a beginning."""
        found = self.choices(spot.group)
        label, count, group = found.labels[place], found.counts[place], found.groups[place]
        b, _ = found.places[place]
        return Child(label, count, None if b < 0 else Spot((*spot.word, label), b + 1, group))

    def word(self, spot: Spot, label: str) -> Word:
        """A beginning with a label more."""
        return (*spot.word, label)

    def text(self, spot: Spot) -> str:
        """The query of all paths with a beginning."""
        return " ".join((*(spot.word or ("S",)), ".*", self.walk.graph.sink.label))
