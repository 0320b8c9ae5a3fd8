"""Deterministic machines over a small alphabet of integers: made from a term's derivatives, then minimal.

Per state, a row holds the next state by letter; after a letter that is missing, nothing is accepted any more.
State 0 is the start.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from .derivatives import Term, Terms

MAX_STEPS = 100_000
"""The most transitions that a machine may have before it is made minimal."""

MAX_WORK = 3_000_000
"""The most parts of sets that are handled on the way: about a second, however few states there are."""


@dataclass(frozen=True)
class Machine:
    """Rows of next states by letter, and the accepting states; state 0 is the start."""

    rows: tuple[dict[int, int], ...]
    accepting: frozenset[int]

    def before(self) -> list[dict[int, list[int]]]:
        """Per state, the states that lead to it by letter."""
        found: list[dict[int, list[int]]] = [defaultdict(list) for _ in self.rows]
        for state, row in enumerate(self.rows):
            for letter, target in row.items():
                found[target][letter].append(state)
        return found


class UnfinishedMachine(Exception):
    """Raised where a machine passes a limit; its text says how far it got, and which limit that is."""


def explore(terms: Terms, start: Term, letters: int) -> Machine:
    """Return the machine whose states are a term's derivatives.

    Raises UnfinishedMachine if it passes MAX_STEPS transitions or MAX_WORK. Counted in steps, not in seconds, so that
    the same queries are refused everywhere.
    """
    numbers = {start: 0}
    rows = []
    for term in (queue := [start]):
        row = {}
        for letter in range(letters):
            target = terms.derivative(term, letter)
            if target == terms.nothing:
                continue
            if target not in numbers:
                numbers[target] = len(numbers)
                queue.append(target)
            row[letter] = numbers[target]
        rows.append(row)
        if len(queue) * letters > MAX_STEPS:
            raise UnfinishedMachine(
                f"{MAX_STEPS:,} transitions over {letters} kinds of labels ({len(queue):,} states so far)"
            )
        if terms.work > MAX_WORK:
            raise UnfinishedMachine(f"{MAX_WORK:,} steps to make it ({len(queue):,} states so far)")
    return Machine(
        tuple(rows), frozenset(number for term, number in numbers.items() if terms.accepts_empty[term])
    )


def minimal(machine: Machine) -> Machine:
    """Return the one smallest machine of the same words, its states numbered in the order they are reached.

    Hopcroft 1971, on the live part only (Valmari and Lehtinen 2008). O(steps × log states).
    """
    live = trimmed(machine)
    return merged(live, coarsest(live))


def trimmed(machine: Machine) -> Machine:
    """Drop the steps to states from which nothing is accepted."""
    before, live = machine.before(), set(machine.accepting)
    for state in (queue := list(live)):
        fresh = {source for sources in before[state].values() for source in sources} - live
        live |= fresh
        queue.extend(fresh)
    rows = ({letter: target for letter, target in row.items() if target in live} for row in machine.rows)
    return Machine(tuple(rows), machine.accepting)


def coarsest(machine: Machine) -> list[int]:
    """Return, per state, its class among states that accept the same rests."""
    rejecting = set(range(len(machine.rows))) - machine.accepting
    classes = [states for states in (set(machine.accepting), rejecting) if states]
    class_of = [int(bool(machine.accepting) and state in rejecting) for state in range(len(machine.rows))]
    before, pending = machine.before(), set(range(len(classes)))
    while pending:
        for sources in _sources(before, classes[pending.pop()]).values():
            pending |= _split(classes, class_of, sources)
    return class_of


def _sources(before: list[dict[int, list[int]]], targets: set[int]) -> dict[int, set[int]]:
    """The states that lead into some targets, by letter."""
    found: dict[int, set[int]] = defaultdict(set)
    for target in targets:
        for letter, sources in before[target].items():
            found[letter].update(sources)
    return found


def _split(classes: list[set[int]], class_of: list[int], sources: set[int]) -> set[int]:
    """Split every class into members inside and outside a set; return the new classes, the smaller parts."""
    inside: dict[int, set[int]] = defaultdict(set)
    for state in sources:
        inside[class_of[state]].add(state)
    new = set()
    for number, members in inside.items():
        outside = classes[number] - members
        if outside:
            smaller, classes[number] = sorted((members, outside), key=len)
            for state in smaller:
                class_of[state] = len(classes)
            new.add(len(classes))
            classes.append(smaller)
    return new


def merged(machine: Machine, class_of: list[int]) -> Machine:
    """Make one state of every class that the start reaches."""
    numbers = {class_of[0]: 0}
    rows = []
    for state in (queue := [0]):
        row = {}
        for letter, target in sorted(machine.rows[state].items()):
            if class_of[target] not in numbers:
                numbers[class_of[target]] = len(numbers)
                queue.append(target)
            row[letter] = numbers[class_of[target]]
        rows.append(row)
    accepting = {numbers[class_of[state]] for state in machine.accepting if class_of[state] in numbers}
    return Machine(tuple(rows), frozenset(accepting))
