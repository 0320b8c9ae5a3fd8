"""The numbers of a tree: the field of every word, and the rows it is met with. One kept table a group.

A field is what a word makes of what stands at its other end: of an ending, the target's covector pulled back
through it; of a beginning, its source pushed through it. A row is what all longer words together make of the same
place, so that field · row is the exact sum over them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ...graph import Array, Component, Operator, ResidualGraph, Walk, lengths
from ...graph.along_positions import stays
from ...graph.operators import act_at
from .beginnings import Beginnings
from .endings import Endings
from .ladder import Ladder, Rows
from .noise import rounding
from .spots import Choices, Group, Spot, Word

MEMORY = 2**28
"""Bytes of fields that are kept for words that were opened; the others are made again when needed."""


NOTHING: Iterator[object] = iter(())
"""No other pass."""


@dataclass(frozen=True)
class Numbers(ABC):
    """Fields and rows of one tree: target's covector `reading` (n, d) on the final stream, `straight` by source."""

    walk: Walk
    reading: Array
    straight: Mapping[str, float]
    _fields: OrderedDict[Word, Array] = field(default_factory=OrderedDict)
    _rows: dict[Group, Rows] = field(default_factory=dict)

    @property
    @abstractmethod
    def words(self) -> Endings | Beginnings:
        """The words whose numbers these are."""

    @property
    def graph(self) -> ResidualGraph:
        """The graph of the walk."""
        return self.walk.graph

    @cached_property
    def ladder(self) -> Ladder:
        """The skip edges, read in the direction of the fields."""
        return Ladder(self.graph, isinstance(self.words, Endings))

    @property
    def positions(self) -> int:
        """How many first positions the target depends on."""
        return len(self.reading)

    # Rows ----------------------------------------------------------------------------------------------

    def rows(self, group: Group, beside: Iterator[object] = NOTHING) -> Rows:
        """What the choices of a group bring, in their order; kept. A step of another pass over the blocks is taken `beside` each."""
        if group not in self._rows:
            choices = self.words.choices(group)
            values = np.zeros((len(choices.labels), *self.reading.shape))
            noise = np.zeros(values.shape[:2])
            for where, found in self._made(group, choices, values):
                noise[where] = found
                if choices.places[where[0]][0] >= 0:
                    next(beside, None)
            self._rows[group] = Rows(values.reshape(len(values), self.reading.size), noise)
        return self._rows[group]

    @abstractmethod
    def _made(self, group: Group, choices: Choices, values: Array) -> Iterable[tuple[Sequence[int], Array]]:
        """Put rows to their places among `values` (choices, n, d), and yield these and their deviations, (places, n)."""

    @abstractmethod
    def extras(self, spot: Spot) -> list[tuple[float, float]]:
        """The values of what is added to a word beside its choices, and their deviations."""

    # Fields --------------------------------------------------------------------------------------------

    def field(self, spot: Spot) -> Array:
        """The field of a word, (n, d), at its depth; from what is kept, or made again."""
        (found,) = self.fields([spot.word])
        return found

    def fields(self, words: Sequence[Word]) -> list[Array]:
        """The fields of words, (n, d) each; those that pass the same component last are made at once."""
        together: dict[str, list[int]] = {}
        found: list[Array | None] = [self._remembered(word) for word in words]
        for index, word in enumerate(words):
            if found[index] is None:
                together.setdefault(self._last(word), []).append(index)
        for label, which in together.items():
            for index, made in zip(which, self._step(label, [words[i] for i in which]), strict=True):
                found[index] = self._remember(words[index], made)
        return [made for made in found if made is not None]

    def _step(self, label: str, words: Sequence[Word]) -> Array:
        """Fields of words that all pass a component last, (words, n, d)."""
        before = np.stack([self.arriving(word) for word in words])
        component = self.graph.by_label[label]
        assert isinstance(component, Component), "what is passed is a component"
        b = self.graph.places[label]
        index = self.graph.blocks[b].components.index(component)
        found = self.graph.kernels.of_head(b, index)
        if found is None and stays(component.operator):
            return self._in_place(component.operator, before)
        block, number = found or (self.graph.kernels[b], index)
        read = block.transposed if self.ladder.backward else block
        return np.asarray(read.each(before, np.array([number]))[0])

    def _in_place(self, operator: Operator, before: Array) -> Array:
        """Fields (K, n, d) through what moves nothing between positions; where they are zero, they stay so."""
        which, positions = np.nonzero(before.any(axis=-1))
        after = np.zeros_like(before)
        rows = before[which, positions]
        after[which, positions] = act_at(operator, positions, rows, self.ladder.backward)
        return after

    def arriving(self, word: Word) -> Array:
        """The field of a word's rest where its last label takes it up, (n, d)."""
        rest, b = self._rest(word), self.graph.places[self._last(word)]
        (field,) = self.fields([rest])
        return self.ladder.carry(field, self.depth(rest), b + 1 if self.ladder.backward else b)

    @abstractmethod
    def depth(self, word: Word) -> int:
        """The depth at which a word meets the stream."""

    @abstractmethod
    def _last(self, word: Word) -> str:
        """The label that was added last."""

    @abstractmethod
    def _rest(self, word: Word) -> Word:
        """The word without that label."""

    @abstractmethod
    def _given(self, word: Word) -> Array | None:
        """The field of a word that has no rest: the target's, or a source's."""

    def _remembered(self, word: Word) -> Array | None:
        if word in self._fields:
            self._fields.move_to_end(word)
            return self._fields[word]
        given = self._given(word)
        return None if given is None else self._remember(word, given)

    def _remember(self, word: Word, made: Array) -> Array:
        self._fields[word] = made
        while len(self._fields) * self.reading.nbytes > MEMORY and len(self._fields) > 1:
            self._fields.popitem(last=False)
        return made


def written(values: Array, places: Sequence[int], make: Callable[[Array], Array]) -> Array:
    """Return what `make` puts to an array (places, 1, n, d), kept at some places of `values`: straight there, if they are neighbors."""
    first, last = places[0], places[-1] + 1
    if list(places) == list(range(first, last)):
        return make(values[first:last, None])[:, 0]
    made = make(np.empty((len(places), 1, *values.shape[1:])))[:, 0]
    values[list(places)] = made
    return made


def product(field: Array, value: Array) -> tuple[float, float]:
    """Return the inner product of two fields (n, d) and the deviation of its rounding."""
    return float(np.vdot(field, value)), float(lengths(lengths(field) * rounding(value)))
