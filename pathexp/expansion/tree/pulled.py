"""The numbers of a tree of endings: covectors pulled back, met with what every component wrote in all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...graph import Array, BlockKernel, Indices, Source, start_value
from .endings import Endings
from .noise import outputs, rounding
from .numbers import Numbers, product
from .spots import Choices, Group, Spot, Word
from .states import ByState, streams_by_depth


@dataclass(frozen=True)
class PulledBack(Numbers):
    """Fields are the target's covector at the input of an ending; rows are outputs summed over all beginnings."""

    @cached_property
    def words(self) -> Endings:
        """All endings."""
        return Endings(self.walk)

    @cached_property
    def _streams(self) -> tuple[ByState, ...]:
        return streams_by_depth(self.walk, self.positions)

    def stream(self, depth: int, group: Group) -> Array:
        """What beginnings in some states bring to a depth, (n, d)."""
        streams = self._streams[depth]
        met = (streams[state] for state in sorted(group) if state in streams)
        return np.asarray(sum(met, np.zeros(self.reading.shape)))

    def _made(self, group: Group, choices: Choices) -> Iterator[tuple[Sequence[int], Array, Array]]:
        parts: dict[tuple[int, Group], list[int]] = {}
        for where, (b, index) in enumerate(choices.places):
            if b < 0:
                value = self.graph.sources[index].value()[None, : self.positions]
                yield [where], value, rounding(value)
            else:
                parts.setdefault((b, choices.groups[where]), []).append(where)
        for (b, before), places in parts.items():
            components = np.array([choices.places[where][1] for where in places])
            made = self._outputs(b, before, group, components)
            yield places, made, outputs(self.graph.kernels[b], self.stream(b, before), components, made)

    def _outputs(self, b: int, before: Group, after: Group, components: Indices) -> Array:
        """What components of a block write, from the stream in some states and from constants inside: (C, n, d)."""
        made = self.graph.kernels[b].each(self.stream(b, before)[None], components)[:, 0]
        for output, c in zip(made, components, strict=True):
            label = self.graph.blocks[b].components[c].label
            for source, state in self.words.into(label):
                if state in after:
                    output += self.inside(source, label)
        return made

    def inside(self, source: str, label: str) -> Array:
        """What a constant brings to the output of the component that reads it, (n, d)."""
        node = self.graph.by_label[source]
        assert isinstance(node, Source), "what is read directly is a source"
        return start_value(node.start, node.into[label])[: self.positions]

    def extras(self, spot: Spot) -> list[tuple[float, float]]:
        found = self.words.extras(spot)
        if spot == self.words.root:
            return [(self.straight[child.label], 0.0) for child in found]
        arriving = self.arriving(spot.word) if found else self.reading
        return [product(arriving, self.inside(child.label, spot.word[0])) for child in found]

    # Words ---------------------------------------------------------------------------------------------

    def depth(self, word: Word) -> int:
        return self.graph.places[word[0]] if len(word) > 1 else len(self.graph.blocks)

    def _kernel(self, b: int) -> BlockKernel:
        return self.graph.kernels[b].transposed

    def _last(self, word: Word) -> str:
        return word[0]

    def _rest(self, word: Word) -> Word:
        return word[1:]

    def _given(self, word: Word) -> Array | None:
        return self.reading if len(word) == 1 else None
