"""The numbers of a tree of beginnings: streams pushed forward, met with the target pulled back through all endings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from ...graph import Array, Source, lengths, start_value
from .beginnings import Beginnings
from .noise import outputs, rounding
from .numbers import Numbers, product, written
from .spots import Child, Choices, Group, Spot, Word
from .states import ByState, fields_by_depth


@dataclass(frozen=True)
class PushedForward(Numbers):
    """Fields are what a beginning brings to the stream; rows are the target pulled back through all endings."""

    @cached_property
    def words(self) -> Beginnings:
        """All beginnings."""
        return Beginnings(self.walk)

    @cached_property
    def _pulled(self) -> tuple[ByState, ...]:
        return fields_by_depth(self.walk, self.reading)

    def covector(self, depth: int, group: Group) -> Array:
        """The target pulled back to a depth through all endings from a state, (n, d)."""
        pulled = self._pulled[depth]
        return np.asarray(
            sum((pulled[state] for state in group if state in pulled), np.zeros(self.reading.shape))
        )

    def _made(self, group: Group, choices: Choices, values: Array) -> Iterator[tuple[Sequence[int], Array]]:
        parts: dict[tuple[int, Group], list[int]] = {}
        for where, (b, _) in enumerate(choices.places):
            if b < 0:
                values[where] = self.reading
                yield [where], rounding(self.reading)
            else:
                parts.setdefault((b, choices.groups[where]), []).append(where)
        for (b, after), places in parts.items():
            components = np.array([choices.places[where][1] for where in places])
            block, covector = self.graph.kernels[b].transposed, self.covector(b + 1, after)
            made = written(values, places, partial(block.each, covector[None], components))
            yield places, outputs(block, covector, components, made)

    def extras(self, spot: Spot) -> list[tuple[float, float]]:
        return [self._value(spot.word, child) for child in self.words.extras(spot)]

    def _value(self, word: Word, child: Child) -> tuple[float, float]:
        """The value of a source, or of what reads one directly, and its deviation."""
        if child.spot is None:
            return self.straight[word[0]], 0.0
        if not child.spot.group:
            values, noise = np.array(self.extras(child.spot)).T
            return float(values.sum()), float(lengths(noise))
        covector = self.covector(child.spot.depth, child.spot.group)
        return product(covector, self.field(child.spot))

    # Words ---------------------------------------------------------------------------------------------

    def depth(self, word: Word) -> int:
        if len(word) > 1:
            return self.graph.places[word[-1]] + 1
        source = self.graph.by_label[word[0]] if word else None
        return (source.depth or 0) if isinstance(source, Source) else 0

    def _last(self, word: Word) -> str:
        return word[-1]

    def _rest(self, word: Word) -> Word:
        return word[:-1]

    def _given(self, word: Word) -> Array | None:
        if not word:
            return np.zeros_like(self.reading)
        source = self.graph.by_label[word[0]]
        assert isinstance(source, Source), "a word begins with a source"
        if len(word) == 1:
            return np.zeros_like(self.reading) if source.into else source.value()[: self.positions]
        inside = len(word) == 2 and word[1] in source.into
        return start_value(source.start, source.into[word[1]])[: self.positions] if inside else None
