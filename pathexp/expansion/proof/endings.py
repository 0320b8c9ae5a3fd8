"""The endings of a certificate: every one that was cut is bounded again, in double precision, as is every path that is known.

An ending that was opened is covered by the known beginnings in front of it and by its continuations into all components
of all blocks before it. So each path is either evaluated or behind an ending that was cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...graph import Array
from .beginnings import Beginnings
from .certificate import Word
from .evaluation import TINY, UNIT, Sure, gamma, pulled

FLOOR = 1e-150
"""More than what is lost at a position where squares underflow."""


@dataclass(frozen=True, eq=False)
class Front:
    """Endings in front of a block: their labels, the states they may be read in, covectors (m, n, d)."""

    words: tuple[Word, ...]
    states: tuple[frozenset[int], ...]
    fields: Sure


@dataclass(frozen=True, eq=False)
class Bounded:
    """What was found of one ending: the largest value of a known path into it that is not listed, and a bound on all others.

    `off` is how far the largest value may be off.
    """

    word: Word
    largest: float
    off: float
    bound: float
    cut: bool


@dataclass(frozen=True, eq=False)
class Endings:
    """All endings that a certificate opens or cuts, toward a target on the final stream."""

    beginnings: Beginnings
    field: Sure
    listed: frozenset[Word]

    @cached_property
    def _states(self) -> range:
        return range(len(self.beginnings.walk.automaton.table))

    def bounded(self) -> Iterator[Bounded]:
        """Yield what is found of every ending, block by block from the sink."""
        walk = self.beginnings.walk
        final = frozenset(state for state in self._states if walk.finishes(state))
        depth = len(walk.graph.blocks)
        front = Front(((),), (final,), Sure(self.field.value[None], self.field.off[None]))
        yield from self._judged(depth, front)
        for b in reversed(range(depth)):
            opened, fronts = self.beginnings.certificate.opened, []
            for component in walk.graph.blocks[b].components:
                made = self._continued(component.label, front)
                if not made.words:
                    continue
                made = Front(made.words, made.states, pulled(component.operator, made.fields))
                yield from self._judged(b, made)
                fronts.append(_some(made, [at for at, word in enumerate(made.words) if word in opened]))
            skip = walk.graph.blocks[b].skip
            front = _joined([Front(front.words, front.states, pulled(skip, front.fields)), *fronts])

    def _continued(self, label: str, front: Front) -> Front:
        """The endings with a component put before them, where a query lets that be."""
        step = {state: self.beginnings.walk.next_state(state, label) for state in self._states}
        states = [frozenset(q for q, after in step.items() if after in known) for known in front.states]
        chosen = [at for at, known in enumerate(states) if known]
        return Front(
            tuple((label, *front.words[at]) for at in chosen),
            tuple(states[at] for at in chosen),
            front.fields.at(chosen),
        )

    def _judged(self, depth: int, front: Front) -> Iterator[Bounded]:
        """What is in front of endings whose covectors stand in front of a block."""
        values = self._values(depth, front)
        opened = self.beginnings.certificate.opened
        reach = self._reach(depth, front)
        for at, word in enumerate(front.words):
            cut = bool(word) and word not in opened
            size, off = values[at].tolist()
            yield Bounded(word, size, off, float(reach[at]) if cut else 0.0, cut)

    def _values(self, depth: int, front: Front) -> Array:
        """The largest |value| of a known beginning that an ending may follow and that is not listed, and its rounding: (m, 2)."""
        found = np.zeros((len(front.words), 2))
        for word, stream in self.beginnings.known(depth).items():
            state = self.beginnings.state(word)
            sizes, off = dot(front.fields, stream)
            for at, (ending, states) in enumerate(zip(front.words, front.states, strict=True)):
                if state in states and (*word, *ending) not in self.listed and not sizes[at] <= found[at, 0]:
                    found[at] = sizes[at], off[at]
        return found

    def _reach(self, depth: int, front: Front) -> Array:
        """How far the sets in front of a block reach into each ending: (m,)."""
        found = np.zeros(len(front.words))
        for state, triangle in self.beginnings.certificate.sets[depth].items():
            reach = _reach(front.fields, triangle)
            inside = np.array([state in states for states in front.states])
            found = np.where(inside, np.fmax(found, np.where(np.isnan(reach), np.inf, reach)), found)
        return found


def dot(fields: Sure, stream: Sure) -> tuple[Array, Array]:
    """|⟨r, x⟩| for covectors (m, n, d) and a stream (n, d), and how far it may be off: (m,) each."""
    size = np.abs(fields.value) + fields.off
    value = np.abs(np.tensordot(fields.value, stream.value, axes=2))
    lost = np.tensordot(fields.off, np.abs(stream.value) + stream.off, axes=2)
    more = np.tensordot(size, stream.off, axes=2)
    rounding = gamma(stream.value.size) * np.tensordot(size, np.abs(stream.value), axes=2)
    return np.asarray(value), np.asarray(lost + more + rounding + TINY)


def _reach(fields: Sure, triangle: Array) -> Array:
    """Σ over positions of ‖Lᵀ r‖, rounding included: (m,)."""
    d = triangle.shape[-1]
    met = np.einsum("mnd,nde->mne", fields.value, triangle)
    rows = np.sqrt(np.einsum("nde,nde->nd", triangle, triangle))
    lost = np.einsum("mnd,nd->mn", fields.off + gamma(d) * np.abs(fields.value), rows)
    there = fields.value.any(axis=-1) | fields.off.any(axis=-1)
    found = np.sqrt(np.einsum("mne,mne->mn", met, met)) + lost + FLOOR * there
    return np.asarray(found.sum(axis=1) * (1 + 16 * (d + len(triangle)) * UNIT))


def _some(front: Front, chosen: list[int]) -> Front:
    return Front(
        tuple(front.words[at] for at in chosen),
        tuple(front.states[at] for at in chosen),
        front.fields.at(chosen),
    )


def _joined(fronts: list[Front]) -> Front:
    return Front(
        tuple(word for front in fronts for word in front.words),
        tuple(states for front in fronts for states in front.states),
        Sure(
            np.concatenate([front.fields.value for front in fronts]),
            np.concatenate([front.fields.off for front in fronts]),
        ),
    )
