"""The beginnings of a certificate: each known one made again from its source, and every other one shown to be in a set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...graph import (
    Array,
    Difference,
    Indices,
    One,
    OneHot,
    Operator,
    Source,
    Step,
    Values,
    Walk,
    is_local,
    start_value,
)
from .certificate import Certificate, Word
from .evaluation import UNIT, Sure, lost, pushed
from .inclusion import held, sizes_of, sum_held


@dataclass(frozen=True, eq=False)
class Beginnings:
    """All that may stand in front of each block, as a certificate says it: known beginnings, and sets."""

    walk: Walk
    certificate: Certificate

    @cached_property
    def _sources(self) -> dict[str, Source]:
        return {source.label: source for source in self.walk.graph.sources}

    @cached_property
    def _kept(self) -> dict[tuple[int, Word], Sure]:
        return {}

    def state(self, word: Word) -> int:
        """The query's state after a beginning; -1 where nothing can be accepted any more."""
        state = self.walk.automaton.start
        for label in word:
            state = self.walk.next_state(state, label) if state >= 0 else -1
        return state

    def known(self, depth: int) -> dict[Word, Sure]:
        """The known beginnings in front of a block and the streams they bring, (n, d)."""
        return {word: self.stream(depth, word) for word in sorted(self.certificate.entries[depth])}

    def stream(self, depth: int, word: Word) -> Sure:
        """What a beginning brings in front of a block, made from its source. Raises KeyError if there is none such."""
        if (depth, word) not in self._kept:
            born = self._born(word)
            if born > depth:
                raise KeyError(word)
            self._kept[depth, word] = (
                self._made(word)
                if born == depth
                else pushed(self.walk.graph.blocks[depth - 1].skip, self.stream(depth - 1, word))
            )
        return self._kept[depth, word]

    def _born(self, word: Word) -> int:
        """The depth at which a beginning is on the stream first."""
        if len(word) > 1:
            return self.walk.graph.places[word[-1]] + 1
        depth = self._sources[word[0]].depth
        if depth is None:
            raise KeyError(word)
        return depth

    def _made(self, word: Word) -> Sure:
        source, graph = self._sources[word[0]], self.walk.graph
        if len(word) == 1:
            return _started(source, source.write, int(graph.sizes[0]))
        if len(word) == 2 and word[1] in source.into:
            return _started(source, source.into[word[1]], int(graph.sizes[0]))
        b = graph.places[word[-1]]
        component = next(c for c in graph.blocks[b].components if c.label == word[-1])
        return pushed(component.operator, self.stream(b, word[:-1]))

    def straight(self, label: str) -> Sure | None:
        """What a constant brings straight to the sink, (n, d_out); None if it goes over the stream or nowhere."""
        source, graph = self._sources[label], self.walk.graph
        if graph.sink.label not in source.into:
            return None
        return _started(source, source.into[graph.sink.label], int(graph.sizes[0]))

    # Inclusions ------------------------------------------------------------------------------------------

    def failures(self) -> Iterator[str]:
        """Yield, one by one, what is checked of the beginnings: an empty text if it holds, else what does not."""
        for depth in range(len(self.walk.graph.blocks) + 1):
            yield from self._starting(depth)
            if depth < len(self.walk.graph.blocks):
                yield from self._passing(depth)
                yield from self._through(depth)

    def _live(self, depth: int, state: int) -> bool:
        return state >= 0 and self.walk.completions.leads(depth, state)

    def _starting(self, depth: int) -> Iterator[str]:
        """Whatever sets out at a depth is known there, or in its set."""
        for source, state in self.walk.starts():
            for labels, at, after, _ in self.walk.entries(source, state):
                if at == depth and self._live(depth, after):
                    yield self._placed(depth, (source.label, *labels), after)

    def _placed(self, depth: int, word: Word, state: int) -> str:
        if word in self.certificate.entries[depth]:
            return ""
        outer = self.certificate.sets[depth].get(state)
        inside = outer is not None and held(outer, _alone(self.stream(depth, word)))
        return "" if inside else f"{' '.join(word)} is neither known nor in a set in front of block {depth}"

    def _passing(self, b: int) -> Iterator[str]:
        """Whatever is in front of a block and goes past it is known behind it, or in the set there."""
        skip = self.walk.graph.blocks[b].skip
        for word in sorted(self.certificate.entries[b]):
            if self._live(b + 1, state := self.state(word)):
                yield self._placed(b + 1, word, state)
        for state, triangle in self.certificate.sets[b].items():
            if self._live(b + 1, state):
                outer = self.certificate.sets[b + 1].get(state)
                columns = pushed(skip, _columns(triangle))
                same = outer is not None and not skip and np.array_equal(outer, triangle)
                inside = same or (outer is not None and held(outer, columns))
                yield "" if inside else f"the set of state {state} does not go past block {b}"

    def _through(self, b: int) -> Iterator[str]:
        """Whatever is in front of a block and passes one of its components is known behind it, or in the set there."""
        for component in self.walk.graph.blocks[b].components:
            for word in sorted(self.certificate.entries[b]):
                after = self.walk.next_state(self.state(word), component.label)
                if self._live(b + 1, after):
                    yield self._placed(b + 1, (*word, component.label), after)
            for state, triangle in self.certificate.sets[b].items():
                after = self.walk.next_state(state, component.label)
                if self._live(b + 1, after):
                    outer = self.certificate.sets[b + 1].get(after)
                    inside = outer is not None and _image_held(component.operator, triangle, outer)
                    yield (
                        ""
                        if inside
                        else f"what {component.label} makes of state {state} is not in the set behind it"
                    )


def _started(source: Source, operator: Operator, positions: int) -> Sure:
    """What a source writes, with the rounding of its own operator."""
    value = np.broadcast_to(start_value(source.start, operator), (positions, _width(source, operator)))
    off = _taken_off(source, operator, value)
    return Sure(np.array(value), np.broadcast_to(off, value.shape).copy())


def _taken_off(source: Source, operator: Operator, value: Array) -> Array:
    """How far what a source writes is off: columns of a table are what they are, and the difference of two rounds once."""
    match operator, source.start:
        case (Step(position=(), feature=(_,)),), OneHot():
            return np.zeros_like(value)
        case (Step(position=(), feature=(_,)),), Difference():
            return 2 * UNIT * np.abs(value)
    return lost(operator, _largest_start(source, operator))


def _width(source: Source, operator: Operator) -> int:
    return int(start_value(source.start, operator).shape[-1])


def _largest_start(source: Source, operator: Operator) -> Array:
    """What a source's operator is applied to, were all numbers positive."""
    match source.start:
        case Values(array=array) if array is not None:
            return np.abs(array)
        case One():
            return np.ones((1, 1))
        case OneHot(indices=indices) if indices is not None:
            return _one_hot(operator, indices)
        case Difference(indices=indices, others=others):
            rows = _one_hot(operator, indices) + _one_hot(operator, others)
            return np.asarray(rows * (indices != others)[:, None])
    raise ValueError(f"{source.label} has no numbers")


def _one_hot(operator: Operator, indices: Indices) -> Array:
    last = operator[-1]
    assert isinstance(last, Step), "one-hot sources start with a table"
    return np.asarray(np.eye(int(last.feature[-1].columns))[indices])


def _alone(point: Sure) -> Sure:
    return Sure(point.value[None], point.off[None])


def _columns(triangle: Array) -> Sure:
    """The columns of triangles (n, d, d) as streams (d, n, d)."""
    return Sure.exactly(np.ascontiguousarray(triangle.transpose(2, 0, 1)))


def _image_held(operator: Operator, triangle: Array, outer: Array) -> bool:
    """Whether what an operator makes of sets is in sets: position by position, or as a sum over positions.

    A sum may weigh its parts by what they are anywhere on the way through the operator; the search does so where they are mixed.
    """
    columns = _columns(triangle)
    if is_local(operator):
        return held(outer, pushed(operator, columns))
    alone = np.eye(len(triangle))[:, :, None]
    apart = [Sure.exactly(columns.value * here) for here in alone]
    parts = [pushed(operator, part) for part in apart]
    return any(
        sum_held(outer, parts, sizes_of([pushed(operator[at:], part) for part in apart]))
        for at in range(len(operator))
    )
