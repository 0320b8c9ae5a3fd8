"""The known beginnings of a certificate, each made again from its source."""

from __future__ import annotations

from collections.abc import Sequence
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
    start_value,
)
from .certificate import Certificate, Word
from .evaluation import UNIT, Sure, lost, pushed, stacked
from .stretch import stretch


@dataclass(frozen=True, eq=False)
class Beginnings:
    """The beginnings that a certificate knows one by one in front of each block."""

    walk: Walk
    certificate: Certificate

    @cached_property
    def _sources(self) -> dict[str, Source]:
        return {source.label: source for source in self.walk.graph.sources}

    @cached_property
    def _kept(self) -> dict[tuple[int, Word], Sure]:
        return {}

    @cached_property
    def _stretches(self) -> dict[tuple[int, str], Array | None]:
        return {}

    def state(self, word: Word) -> int:
        """The query's state after a beginning; -1 where nothing can be accepted any more."""
        state = self.walk.automaton.start
        for label in word:
            state = self.walk.next_state(state, label) if state >= 0 else -1
        return state

    def known(self, depth: int) -> list[Word]:
        """The known beginnings in front of a block."""
        return sorted(self.certificate.entries[depth])

    def streams(self, depth: int, words: Sequence[Word]) -> Sure:
        """The streams that beginnings bring in front of a block, (E, n, d)."""
        return stacked([self.stream(depth, word) for word in words])

    def keep(self, depth: int, word: Word, stream: Sure) -> None:
        """Take over a stream that was made of a known beginning with the others, unless it is there already."""
        if (depth, word) not in self._kept:
            self._kept[depth, word] = stream

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

    def stretch(self, b: int, label: str, operator: Operator) -> Array | None:
        """How much longer a component of a block, or its skip edge by no label, can make vectors."""
        if (b, label) not in self._stretches:
            n, d, _ = self.walk.graph.sizes
            self._stretches[b, label] = stretch(operator, n, d) if operator else None
        return self._stretches[b, label]

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
