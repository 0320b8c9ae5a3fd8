"""The numbers of a tree of endings: covectors pulled back, met with what every component wrote in all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain

import numpy as np

from ...graph import Array, Indices, Source, start_value
from .endings import Endings
from .noise import outputs, rounding
from .numbers import Numbers, product, written
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
        if (found := self._summed.get((depth, group))) is not None:
            return found
        streams = self._streams[depth]
        met = (streams[state] for state in sorted(group) if state in streams)
        return np.asarray(sum(met, np.zeros(self.reading.shape)))

    def _made(self, group: Group, choices: Choices, values: Array) -> Iterator[tuple[Sequence[int], Array]]:
        parts: dict[tuple[int, Group], list[int]] = {}
        for where, (b, index) in enumerate(choices.places):
            if b < 0:
                value = self.graph.sources[index].value()[None, : self.positions]
                values[where] = value[0]
                yield [where], rounding(value)
            else:
                parts.setdefault((b, choices.groups[where]), []).append(where)
        follows = self._is_one_stream(parts)
        for (b, before), places in parts.items():
            components = np.array([choices.places[where][1] for where in places])
            made = written(values, places, partial(self._outputs, b, before, group, components))
            yield places, outputs(self.graph.kernels[b], self.stream(b, before), components, made)
            if follows:
                self._sum(b, before, made)

    def _is_one_stream(self, parts: Mapping[tuple[int, Group], Sequence[int]]) -> bool:
        """Whether the components of every block are all met in one state: what they write is what the next block reads."""
        groups = {before for _, before in parts}
        blocks = self.graph.blocks
        whole = all(len(places) == len(blocks[b].components) for (b, _), places in parts.items())
        one = len(groups) == 1 and all(len(states) == 1 for states in self.walk.live)
        if not (whole and one and len(parts) == len(blocks)):
            return False
        (group,) = groups
        self._summed[0, group] = self._entered(0, group, np.zeros(self.reading.shape))
        return True

    def _sum(self, b: int, group: Group, made: Array) -> None:
        """Put the stream behind a block, of what its components make of the stream before it."""
        before = self._summed[b, group]
        if len({*chain.from_iterable(self.walk.live)}) == 1:  # no other group will ask for it
            del self._summed[b, group]
        skipped = self.graph.kernels[b].through_skip(before[None])[0]
        self._summed[b + 1, group] = self._entered(b + 1, group, skipped + made.sum(axis=0))

    def _entered(self, depth: int, group: Group, stream: Array) -> Array:
        """A stream with what accepted sources bring to it at a depth."""
        found = (s for s, state in self.walk.starts() if s.depth == depth and state in group)
        return np.asarray(sum((source.value()[: self.positions] for source in found), stream))

    @cached_property
    def _summed(self) -> dict[tuple[int, Group], Array]:
        """Streams where one state is met, by depth, as sums of the rows before."""
        return {}

    def _outputs(self, b: int, before: Group, after: Group, components: Indices, out: Array) -> Array:
        """Put what components of a block write, from the stream in some states and from constants inside, to `out` (C, 1, n, d)."""
        self.graph.kernels[b].each(self.stream(b, before)[None], components, out)
        for output, c in zip(out[:, 0], components, strict=True):
            label = self.graph.blocks[b].components[c].label
            for source, state in self.words.into(label):
                if state in after:
                    output += self.inside(source, label)
        return out

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

    def _last(self, word: Word) -> str:
        return word[0]

    def _rest(self, word: Word) -> Word:
        return word[1:]

    def _given(self, word: Word) -> Array | None:
        return self.reading if len(word) == 1 else None
