"""The endings of a certificate: every one that was cut is bounded again, in double precision, as is every path that is known.

An ending that was opened is covered by the known beginnings in front of it and by its continuations into all components
of all blocks before it. So each path is either evaluated or behind an ending that was cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...graph import Array
from .beginnings import Beginnings
from .certificate import Word
from .evaluation import FLOOR, TINY, UNIT, UP, Sure, gamma, joined, long, pulled


@dataclass(frozen=True, eq=False)
class Front:
    """Endings in front of a block: their labels, the states they may be read in, covectors (m, n, d)."""

    words: tuple[Word, ...]
    states: tuple[frozenset[int], ...]
    fields: Sure


@dataclass(frozen=True, eq=False)
class Bounded:
    """What was found of one ending: the largest value of a known path into it that is not listed, and a bound on all others.

    `off` is how far the largest value may be off, `unknown` of how many values nobody can tell.
    """

    word: Word
    largest: float
    off: float
    unknown: int
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
        yield from self._judged(depth, front, self._known(depth))
        for b in reversed(range(depth)):
            known, opened, fronts = self._known(b), self.beginnings.certificate.opened, []
            for component in walk.graph.blocks[b].components:
                made = self._continued(component.label, front)
                if not made.words:
                    continue
                by = self.beginnings.stretch(b, component.label, component.operator)
                made = Front(made.words, made.states, pulled(component.operator, made.fields, by))
                yield from self._judged(b, made, known)
                fronts.append(_some(made, [at for at, word in enumerate(made.words) if word in opened]))
            skip = walk.graph.blocks[b].skip
            passed = pulled(skip, front.fields, self.beginnings.stretch(b, "", skip))
            front = _joined([Front(front.words, front.states, passed), *fronts])

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

    def _known(self, depth: int) -> tuple[list[Word], Sure | None]:
        """The known beginnings in front of a block, and their streams if there are any."""
        words = self.beginnings.known(depth)
        return words, self.beginnings.streams(depth, words) if words else None

    def _judged(self, depth: int, front: Front, known: tuple[list[Word], Sure | None]) -> Iterator[Bounded]:
        """What is in front of endings whose covectors stand in front of a block."""
        values = self._values(front, *known)
        opened = self.beginnings.certificate.opened
        reach = self._reach(depth, front)
        for at, word in enumerate(front.words):
            cut = bool(word) and word not in opened
            size, off, unknown = values[at].tolist()
            yield Bounded(word, size, off, int(unknown), float(reach[at]) if cut else 0.0, cut)

    def _values(self, front: Front, words: list[Word], streams: Sure | None) -> Array:
        """What is most surely the largest |value| of a known beginning that an ending may follow and that is not listed: (m, 3).

        The value, its rounding, and how many others there are whose rounding has no bound.
        """
        if streams is None:
            return np.zeros((len(front.words), 3))
        open, (sizes, off) = self._open(front, words), dot(front.fields, streams)
        bounded = off < np.inf
        sure = np.where(np.isnan(sizes), np.inf, sizes - np.where(bounded, off, 0.0))
        most = np.argmax(np.where(open & bounded, sure, -np.inf), axis=1)
        each = np.arange(len(front.words))
        found = np.where((open & bounded)[each, most], [sizes[each, most], off[each, most]], 0.0)
        return np.stack([*found, np.sum(open & ~bounded, axis=1)], axis=1)

    def _open(self, front: Front, words: list[Word]) -> NDArray[np.bool_]:
        """Which beginnings each ending may follow with what is not listed: (m, E)."""
        states = [self.beginnings.state(word) for word in words]
        found = np.array([[state in known for state in states] for known in front.states])
        rows, columns = ({word: at for at, word in enumerate(each)} for each in (front.words, words))
        for path in self.listed:
            for cut in range(len(path) + 1):
                if path[:cut] in columns and path[cut:] in rows:
                    found[rows[path[cut:]], columns[path[:cut]]] = False
        return found

    def _reach(self, depth: int, front: Front) -> Array:
        """How far the sets in front of a block reach into each ending: (m,)."""
        found = np.zeros(len(front.words))
        for state, triangle in self.beginnings.certificate.sets[depth].items():
            reach = _reach(front.fields, triangle)
            inside = np.array([state in states for states in front.states])
            found = np.where(inside, np.fmax(found, np.where(np.isnan(reach), np.inf, reach)), found)
        return found


def dot(fields: Sure, streams: Sure) -> tuple[Array, Array]:
    """|⟨r, x⟩| for covectors (m, n, d) and streams (E, n, d), and how far it may be off: (m, E) each."""
    size = np.abs(fields.value) + fields.off
    value = np.abs(_met(fields.value, streams.value))
    far = long(np.abs(streams.value) + streams.off)
    lost = np.fmin(_met(fields.off, np.abs(streams.value) + streams.off), _met(fields.errors, far))
    more = np.fmin(_met(size, streams.off), _met(long(size), streams.errors))
    rounding = gamma(streams.value[0].size) * _met(size, np.abs(streams.value))
    return value, (lost + more + rounding) * UP + TINY


def _met(rows: Array, columns: Array) -> Array:
    """Sums of products over all but the first axis, (m, E)."""
    return np.asarray(rows.reshape(len(rows), -1) @ columns.reshape(len(columns), -1).T)


def _reach(fields: Sure, triangle: Array) -> Array:
    """Σ over positions of ‖Lᵀ r‖, rounding included: (m,)."""
    d, rows = triangle.shape[-1], long(triangle)
    met = (fields.value.transpose(1, 0, 2) @ triangle).transpose(1, 0, 2)
    by_number, by_length = np.einsum("mnd,nd->mn", fields.off, rows), fields.errors * long(rows)
    lost = np.fmin(by_number, by_length) + gamma(d) * np.einsum("mnd,nd->mn", np.abs(fields.value), rows)
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
        joined([front.fields for front in fronts]),
    )
