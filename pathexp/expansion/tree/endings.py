"""Endings of paths, exactly counted: what one may be lengthened by, toward the sources.

The number of paths with an ending is the number of beginnings that reach it: one recurrence over blocks and states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from ...graph import Walk
from .spots import Child, Choice, Choices, Group, Spot, Word, choices


@dataclass(frozen=True)
class Endings:
    """The endings of a walk's paths.

    >>> import pathexp as px
    >>> endings = Endings(px.expand(px.ResidualGraph.attention_only(layers=2, heads=2)).walk)
    >>> found = endings.choices(endings.root.group)
    >>> found.labels, found.counts
    (('E', 'L0H0', 'L0H1', 'L1H0', 'L1H1'), (1, 1, 1, 3, 3))
    """

    walk: Walk
    _kept: dict[Group, Choices] = field(default_factory=dict)

    @cached_property
    def root(self) -> Spot:
        """The sink alone: all paths end so."""
        walk = self.walk
        finals = frozenset(state for state in self._states if walk.finishes(state))
        return Spot((walk.graph.sink.label,), len(walk.graph.blocks), finals)

    @cached_property
    def count(self) -> int:
        """How many paths there are."""
        return sum(self.walk.count_by_order)

    @cached_property
    def _states(self) -> frozenset[int]:
        """All states in which some beginning is met."""
        return frozenset[int]().union(*self.walk.live)

    @cached_property
    def _through(self) -> tuple[tuple[Counter[int], ...], ...]:
        """By block and component, how many beginnings leave it, by the state they are in then."""
        walk, found = self.walk, []
        stream = self._entering(0)
        for b, block in enumerate(walk.graph.blocks):
            leaving = [
                self._leaving(b, c, component.label, stream) for c, component in enumerate(block.components)
            ]
            found.append(tuple(leaving))
            for each in (*leaving, self._entering(b + 1)):
                stream = stream + each
        return tuple(found)

    def _entering(self, depth: int) -> Counter[int]:
        """How many sources enter the stream at a depth, by state."""
        entering = (state for source, state in self.walk.starts() if source.depth == depth)
        return Counter(state for state in entering if state in self._states)

    def _leaving(self, b: int, c: int, label: str, stream: Counter[int]) -> Counter[int]:
        steps, found = self.walk.steps[b], Counter[int]()
        for state, ways in stream.items():
            if (after := int(steps[state, c])) in self._states:
                found[after] += ways
        return found + Counter(after for _, after in self.into(label))

    def into(self, label: str) -> Iterator[tuple[str, int]]:
        """Sources that are read by a component directly, and the state behind it."""
        for source, state in self.walk.starts():
            if label in source.into:
                after = self.walk.next_state(state, label)
                if after in self._states:
                    yield source.label, after

    def choices(self, group: Group) -> Choices:
        """What may stand before an ending that is met in some states; sources complete a path."""
        if group not in self._kept:
            self._kept[group] = choices([*self._sources(group), *self._components(group)])
        return self._kept[group]

    def _sources(self, group: Group) -> Iterator[Choice]:
        for index, source in enumerate(self.walk.graph.sources):
            state = self.walk.next_state(self.walk.automaton.start, source.label)
            if source.depth is not None and state in group:
                yield Choice(source.label, source.depth, 1, frozenset(), (-1, index))

    def _components(self, group: Group) -> Iterator[Choice]:
        for b, (block, leaving) in enumerate(zip(self.walk.graph.blocks, self._through, strict=True)):
            for c, (component, ways) in enumerate(zip(block.components, leaving, strict=True)):
                count = sum(ways[state] for state in group)
                if count:
                    steps = self.walk.steps[b][:, c]
                    met = frozenset(s for s in self._states if int(steps[s]) in group)
                    yield Choice(component.label, b + 1, count, met, (b, c))

    def extras(self, spot: Spot) -> tuple[Child, ...]:
        """Paths that begin right there: constants that enter inside the ending's first component, or the sink."""
        if spot == self.root:
            fed = (source.label for source, state in self.walk.starts() if self.walk.straight(source, state))
        else:
            fed = (label for label, after in self.into(spot.word[0]) if after in spot.behind)
        return tuple(Child(label, 1, None) for label in fed)

    def span(self, spot: Spot) -> slice:
        """Which choices can be met before an ending."""
        return self.choices(spot.group).up_to(spot.depth)

    def child(self, spot: Spot, place: int) -> Child:
        """The choice at a place, before an ending."""
        found = self.choices(spot.group)
        label, count, group = found.labels[place], found.counts[place], found.groups[place]
        b, _ = found.places[place]
        return Child(label, count, None if b < 0 else Spot((label, *spot.word), b, group, spot.group))

    def word(self, spot: Spot, label: str) -> Word:
        """An ending with a label more."""
        return (label, *spot.word)

    def text(self, spot: Spot) -> str:
        """The query of all paths with an ending."""
        return " ".join(("S", ".*", *spot.word))
