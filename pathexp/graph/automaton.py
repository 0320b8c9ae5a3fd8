"""Queries as deterministic machines over the labels of one graph.

Labels that no part of a query tells apart become one letter, so that the machine is made over a handful of
letters however large the model is; its table is then spread over all labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property, lru_cache

import numpy as np
from greenery.fsm import EPSILON, NULL, Charclass, Fsm, from_charclass
from numpy.typing import NDArray

from ..errors import QueryError
from . import query as language
from .query import Query, pointer


@dataclass(frozen=True, eq=True)
class Alphabet:
    """The labels of a graph, and the names of classes of components (`L0`, `H`, `M`)."""

    sources: tuple[str, ...]
    components: tuple[str, ...]
    sinks: tuple[str, ...]
    classes: Mapping[str, frozenset[str]]

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels: sources, components, sinks."""
        return self.sources + self.components + self.sinks

    @cached_property
    def columns(self) -> Mapping[str, int]:
        """The index of each label in `labels`."""
        return {label: column for column, label in enumerate(self.labels)}

    @cached_property
    def _hash(self) -> int:
        return hash((self.sources, self.components, self.sinks, frozenset(self.classes.items())))

    def __hash__(self) -> int:
        return self._hash

    def meaning(self, atom: str) -> frozenset[str]:
        """Return the labels that a label, a class name or `.` stands for; empty if it is not known."""
        if atom in self.columns:
            return frozenset((atom,))
        return frozenset(self.components) if atom == language.ANY else self.classes.get(atom, frozenset())


@dataclass(frozen=True, eq=False)
class Automaton:
    """A minimal deterministic machine: `table[state, column of the label]` is the next state.

    A next state of -1 means that nothing can be accepted any more; from every other state something can,
    except that the start is kept when nothing is accepted at all.
    """

    start: int
    table: NDArray[np.int64]
    accepting: frozenset[int]
    alphabet: Alphabet

    @property
    def states(self) -> int:
        """How many states there are."""
        return len(self.table)

    def accepts(self, labels: Sequence[str]) -> bool:
        """Return whether a word is in the query's set; a label that the graph does not have never is."""
        state = self.start
        for label in labels:
            column = self.alphabet.columns.get(label)
            state = -1 if column is None else int(self.table[state, column])
            if state < 0:
                return False
        return state in self.accepting


@lru_cache(maxsize=256)
def compile_query(query: Query, alphabet: Alphabet) -> Automaton:
    """Compile a query into a minimal machine over a graph's labels.

    Raises QueryError for a name that the graph does not have, or that names nothing in it. Costs
    O(labels × distinct names), and for the machine what the query asks for, independently of the model.
    """
    check_names(query, alphabet)
    letters = Letters(query, alphabet)
    machine = (letters.machine(query) & letters.words()).reduce()
    return _automaton(machine, letters)


class Letters:
    """The coarsest grouping of labels that a query can be told over: one character a group."""

    def __init__(self, query: Query, alphabet: Alphabet) -> None:
        self.alphabet = alphabet
        atoms = {
            node.name: alphabet.meaning(node.name)
            for node in _nodes(query)
            if isinstance(node, language.Atom)
        }
        memberships: dict[str, list[str]] = {label: [] for label in alphabet.labels}
        for atom, members in atoms.items():
            for label in members:
                memberships[label].append(atom)
        groups: dict[tuple[str, ...], int] = {}
        self.group = [groups.setdefault(tuple(atoms), len(groups)) for atoms in memberships.values()]
        self.atoms = {atom: [g for signature, g in groups.items() if atom in signature] for atom in atoms}
        self.characters = [chr(_FIRST + g) for g in range(len(groups))]

    def charclass(self, groups: Sequence[int]) -> Charclass:
        return Charclass("".join(self.characters[g] for g in groups))

    def words(self) -> Fsm:
        """The machine of all words over the alphabet."""
        return from_charclass(self.charclass(range(len(self.characters)))).star().reduce()

    def machine(self, query: Query) -> Fsm:
        """The machine of a query; what it does with foreign characters is left open."""
        match query:
            case language.Empty():
                return EPSILON
            case language.Atom(name):
                return from_charclass(self.charclass(self.atoms[name])) if self.atoms[name] else NULL
            case language.Complement(child):
                return self.machine(child).everythingbut()
            case language.Repeat(child, sign):
                return _repeated(self.machine(child), sign)
            case language.Sequence(parts):
                return Fsm.concatenate(*map(self.machine, parts))
            case language.Intersection(parts):
                return Fsm.intersection(*map(self.machine, parts))
            case language.Union(parts):
                return Fsm.union(*map(self.machine, parts))
        raise TypeError(f"unknown kind of query: {type(query).__name__}")


_FIRST = 0xF0000  # two private-use planes, 131,000 characters


def _repeated(machine: Fsm, sign: language.Sign) -> Fsm:
    if sign == "?":
        return machine | EPSILON
    star = machine.star().reduce()
    return star if sign == "*" else machine + star


def _nodes(query: Query) -> Iterator[Query]:
    yield query
    for child in query.children:
        yield from _nodes(child)


def _automaton(machine: Fsm, letters: Letters) -> Automaton:
    """Number the live states in the order in which they are reached, and spread the table over all labels."""
    live = {state for state in machine.states if machine.islive(state)}
    classes = [next(c for c in machine.alphabet if c.accepts(char)) for char in letters.characters]
    order = {machine.initial: 0}
    for state in (queue := [machine.initial]):
        for target in (machine.map[state][c] for c in classes):
            if target in live and target not in order:
                order[target] = len(order)
                queue.append(target)
    small = np.array(
        [[order.get(machine.map[state][c], -1) for c in classes] for state in order], dtype=np.int64
    )
    if machine.initial not in live:
        small[:] = -1
    table = small.reshape(len(order), len(classes))[:, letters.group]
    table.flags.writeable = False
    accepting = frozenset(order[state] for state in machine.finals if state in order)
    return Automaton(0, table, accepting, letters.alphabet)


# Names -------------------------------------------------------------------------------------------------


def check_names(query: Query, alphabet: Alphabet) -> None:
    """Raise QueryError at the first name in a query that the graph does not have, or that names nothing."""
    for name in query.names():
        if not alphabet.meaning(name):
            place = re.search(rf"\b{name}\b", text := str(query))
            assert place is not None
            problem = _why_empty(name) if name in alphabet.classes else _why_unknown(name, alphabet)
            raise QueryError(f"{problem[0]}\n{pointer(text, place.start())}\n{problem[1]}")


def _why_empty(name: str) -> tuple[str, str]:
    kind = {"H": "attention heads", "M": "MLPs"}.get(name, "components")
    return f"{name} names nothing: this graph has no {kind}", f"Leave {name} out, or use . for any component."


def _why_unknown(name: str, alphabet: Alphabet) -> tuple[str, str]:
    near = nearest(name, alphabet)
    layers = sorted(int(c[1:]) for c in alphabet.classes if re.fullmatch(r"L\d+", c))
    sizes = f"layers 0 to {layers[-1]}" if layers else "no layers"
    return (
        f"no node and no class of nodes is called {name}: this graph has {sizes}",
        f"Nearest: {', '.join(near)}." if near else f"Sources: {', '.join(alphabet.sources[:5])}.",
    )


def nearest(name: str, alphabet: Alphabet, most: int = 3) -> list[str]:
    """Return the labels and class names that look most like a name."""
    known = {known.casefold(): known for known in (*alphabet.classes, *alphabet.labels)}
    return [known[match] for match in get_close_matches(name.casefold(), known, most, 0.5)]
