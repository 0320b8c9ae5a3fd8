"""Whether every beginning is known or in a set: sources, what goes past a block, and what passes a component of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...graph import Array, Operator, Walk
from .beginnings import Beginnings
from .certificate import Certificate, Word
from .evaluation import Sure, pushed
from .images import images
from .inclusion import Enclosure

Sets = Mapping[int, Enclosure]
"""By state."""


@dataclass(frozen=True, eq=False)
class Coverage:
    """All that may stand in front of each block, as a certificate says it: known beginnings, and sets."""

    beginnings: Beginnings

    @property
    def _walk(self) -> Walk:
        return self.beginnings.walk

    @property
    def _certificate(self) -> Certificate:
        return self.beginnings.certificate

    def failures(self) -> Iterator[str]:
        """Yield, one by one, what is checked of the beginnings: an empty text if it holds, else what does not."""
        blocks = self._walk.graph.blocks
        yield from self._starting(0, self._sets(0))
        for b, block in enumerate(blocks):
            behind = self._sets(b + 1)
            yield from self._passing(b, behind)
            for component in block.components:
                yield from self._through(b, component.label, component.operator, behind)
            yield from self._starting(b + 1, behind)

    def _sets(self, depth: int) -> Sets:
        return {state: Enclosure(axes) for state, axes in self._certificate.sets[depth].items()}

    def _live(self, depth: int, state: int) -> bool:
        return state >= 0 and self._walk.completions.leads(depth, state)

    def _starting(self, depth: int, sets: Sets) -> Iterator[str]:
        """Whatever sets out at a depth is known there, or in its set."""
        for source, state in self._walk.starts():
            for labels, at, after, _ in self._walk.entries(source, state):
                if at == depth and self._live(depth, after):
                    word = (source.label, *labels)
                    yield from self._placed(
                        depth, [word], [after], self.beginnings.streams(depth, [word]), sets
                    )

    def _passing(self, b: int, behind: Sets) -> Iterator[str]:
        """Whatever is in front of a block and goes past it is known behind it, or in the set there."""
        skip = self._walk.graph.blocks[b].skip
        yield from self._carried(b, skip, (), behind)
        for state, axes in self._certificate.sets[b].items():
            if self._live(b + 1, state):
                outer = behind.get(state)
                same = outer is not None and not skip and np.array_equal(outer.axes, axes)
                inside = same or _image_held(outer, skip, axes)
                yield "" if inside else f"the set of state {state} does not go past block {b}"

    def _through(self, b: int, label: str, operator: Operator, behind: Sets) -> Iterator[str]:
        """Whatever is in front of a block and passes one of its components is known behind it, or in the set there."""
        yield from self._carried(b, operator, (label,), behind)
        for state, axes in self._certificate.sets[b].items():
            after = self._walk.next_state(state, label)
            if self._live(b + 1, after):
                inside = _image_held(behind.get(after), operator, axes)
                yield "" if inside else f"what {label} makes of state {state} is not in the set behind it"

    def _carried(self, b: int, operator: Operator, labels: Word, behind: Sets) -> Iterator[str]:
        """The known beginnings through an operator, behind which they are called by more labels."""
        states = {word: self._after(word, labels) for word in self.beginnings.known(b)}
        words = [word for word, after in states.items() if self._live(b + 1, after)]
        if words:
            by = self.beginnings.stretch(b, "".join(labels), operator)
            made = pushed(operator, self.beginnings.streams(b, words), by)
            longer = [(*word, *labels) for word in words]
            yield from self._placed(b + 1, longer, [states[word] for word in words], made, behind)

    def _after(self, word: Word, labels: Word) -> int:
        state = self.beginnings.state(word)
        for label in labels:
            state = self._walk.next_state(state, label) if state >= 0 else -1
        return state

    def _placed(
        self, depth: int, words: Sequence[Word], states: Sequence[int], streams: Sure, sets: Sets
    ) -> Iterator[str]:
        """Whether beginnings are known in front of a block, and so kept, or in the sets of their states."""
        known = self._certificate.entries[depth]
        inside = np.zeros(len(words), dtype=bool)
        for at, word in enumerate(words):
            if word in known:
                self.beginnings.keep(depth, word, streams.at(at))
                inside[at] = True
        for state in sorted(sets):
            some = [at for at, held in enumerate(inside) if not held and states[at] == state]
            if some:
                inside[some] = sets[state].holds_points(streams.at(some))
        for word, held in zip(words, inside, strict=True):
            yield "" if held else f"{' '.join(word)} is neither known nor in a set in front of block {depth}"


def _image_held(outer: Enclosure | None, operator: Operator, axes: Array) -> bool:
    """Whether what an operator makes of sets is in sets."""
    return outer is not None and any(
        outer.holds_columns(image.columns, image.off) for image in images(operator, axes)
    )
