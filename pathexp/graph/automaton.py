"""Queries as deterministic machines over the labels of one graph.

Labels that no part of a query tells apart become one letter, so the machine is made over a handful of letters
however large the model is; its table is then spread over all labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..errors import QueryError
from . import language
from .alphabet import Alphabet, check_names
from .derivatives import Term, Terms
from .language import Query
from .machine import Machine, UnfinishedMachine, explore, minimal

__all__ = ["Alphabet", "Automaton", "check_paths", "compile_query"]

MAX_ENTRIES = 2**24
"""The most entries that a machine's table may have."""


@dataclass(frozen=True, eq=False)
class Automaton:
    """A minimal deterministic machine: `table[state, column of the label]` is the next state.

    A next state of -1 means that nothing can be accepted any more. From every state something can be, except
    from the start of a machine that accepts nothing at all.
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
        """Return whether a word is accepted; with a label that the graph does not have, it never is."""
        state = self.start
        for label in labels:
            column = self.alphabet.columns.get(label)
            state = -1 if column is None else int(self.table[state, column])
            if state < 0:
                return False
        return state in self.accepting


@lru_cache(maxsize=256)
def compile_query(query: Query, alphabet: Alphabet) -> Automaton:
    """Compile a query into the minimal machine over a graph's labels.

    Raises QueryError for a name that the graph does not have or that stands for nothing, and for a query
    whose machine would be too large. Costs O(labels × names in the query), and the machine
    what the query asks for, independently of the model.

    >>> alphabet = Alphabet(("E",), ("L0H0", "L1H0"), ("U",), {"H": frozenset({"L0H0", "L1H0"})})
    >>> from pathexp.graph import query
    >>> machine = compile_query(query("E .* L1H0 U"), alphabet)
    >>> machine.states, machine.accepts(["E", "L1H0", "U"]), machine.accepts(["E", "L0H0", "U"])
    (4, True, False)
    """
    check_names(query, alphabet)
    letters = Letters(query, alphabet)
    try:
        machine = explore(letters.terms, letters.term(query), letters.count)
    except UnfinishedMachine as limit:
        raise _too_large(query, str(limit)) from None
    smallest = minimal(machine)
    if len(smallest.rows) * len(alphabet.labels) > MAX_ENTRIES:
        sizes = f"{len(smallest.rows):,} states × {len(alphabet.labels):,} labels"
        raise _too_large(query, f"{MAX_ENTRIES:,} table entries ({sizes})")
    return Automaton(0, _table(smallest, letters), smallest.accepting, alphabet)


def _too_large(query: Query, limit: str) -> QueryError:
    return QueryError(
        f"the query {_shortened(query)} needs a machine beyond the limit of {limit}; split it, "
        "or ask for fewer things that must all occur or that stand at a fixed distance from the end"
    )


def _shortened(query: Query) -> str:
    text = str(query)
    return repr(text if len(text) <= 80 else f"{text[:79]}…")


def _table(machine: Machine, letters: Letters) -> NDArray[np.int64]:
    """The next states over letters, spread over all labels."""
    small = np.full((len(machine.rows), letters.count), -1, dtype=np.int64)
    for state, row in enumerate(machine.rows):
        small[state, list(row)] = list(row.values())
    table = small[:, letters.of_label]
    table.flags.writeable = False
    return table


class Letters:
    """The coarsest grouping of an alphabet's labels over which a query can be told, one letter a group."""

    def __init__(self, query: Query, alphabet: Alphabet) -> None:
        self.alphabet = alphabet
        self.terms = Terms()
        choices = dict.fromkeys(_choices(query, alphabet))
        told_by: dict[str, list[int]] = {label: [] for label in alphabet.labels}
        for number, choice in enumerate(choices):
            for label in choice:
                told_by[label].append(number)
        groups: dict[tuple[int, ...], int] = {}
        self.of_label = [groups.setdefault(tuple(numbers), len(groups)) for numbers in told_by.values()]
        self.count = len(groups)
        self.of_choice = {
            choice: [letter for numbers, letter in groups.items() if number in numbers]
            for number, choice in enumerate(choices)
        }

    def term(self, query: Query) -> Term:
        """Return a query as a term over the letters."""
        terms = self.terms
        match query:
            case language.Empty():
                return terms.empty
            case language.Atom(name):
                return terms.letters(self.of_choice[self.alphabet.meaning(name)])
            case language.Complement(child):
                return terms.complement(self.term(child))
            case language.Repeat(child, sign):
                return self._repeated(self.term(child), sign)
            case language.Sequence(parts):
                return terms.sequence(map(self.term, parts))
            case language.Intersection(parts):
                return terms.intersection(map(self.term, parts))
            case language.Union(parts):
                choice, others = _split(parts, self.alphabet)
                return terms.union((terms.letters(self.of_choice.get(choice, ())), *map(self.term, others)))
        raise TypeError(f"unknown kind of query: {type(query).__name__}")

    def _repeated(self, term: Term, sign: language.Sign) -> Term:
        if sign == "?":
            return self.terms.union((term, self.terms.empty))
        star = self.terms.star(term)
        return star if sign == "*" else self.terms.then(term, star)


def _choices(query: Query, alphabet: Alphabet) -> Iterator[frozenset[str]]:
    """All sets of labels that a query chooses from; alternatives of single labels are one set."""
    match query:
        case language.Atom(name):
            yield alphabet.meaning(name)
        case language.Union(parts):
            choice, others = _split(parts, alphabet)
            yield choice
            for part in others:
                yield from _choices(part, alphabet)
        case _:
            for child in query.children:
                yield from _choices(child, alphabet)


def _split(parts: tuple[Query, ...], alphabet: Alphabet) -> tuple[frozenset[str], list[Query]]:
    """The labels that a union's atoms stand for, together, and its other parts."""
    atoms = [part.name for part in parts if isinstance(part, language.Atom)]
    others = [part for part in parts if not isinstance(part, language.Atom)]
    return frozenset().union(*map(alphabet.meaning, atoms)), others


# Paths -------------------------------------------------------------------------------------------------


def check_paths(query: Query, alphabet: Alphabet) -> None:
    """Raise QueryError if a part of a query that must match whole paths can match none, in any order.

    Parts are what the set operators combine: in `E .* U & ~(L0H0)` the part `L0H0` matches no path, as paths
    begin at a source and end at a sink, so its complement would leave nothing out.
    """
    check_names(query, alphabet)
    paths = _paths(alphabet)
    if query == language.Empty():
        raise QueryError("() is the empty word, which is no path; all paths are () | ~()")
    for part in _whole_parts(query):
        if not compile_query(part & paths, alphabet).accepting:
            source, sink = alphabet.sources[0], alphabet.sinks[0]
            raise QueryError(
                f"{_shortened(part)} matches no path: a query matches whole paths, from a source to "
                f"the sink. For paths that pass it anywhere write {source} .* … .* {sink}."
            )


def _paths(alphabet: Alphabet) -> Query:
    first, last = (language.union(map(language.Atom, ends)) for ends in (alphabet.sources, alphabet.sinks))
    return language.sequence((first, language.Repeat(language.Atom(language.ANY), "*"), last))


def _whole_parts(query: Query) -> Iterator[Query]:
    """The parts that `&`, `|` and `~` combine; the empty word, which says what it is, left out."""
    if isinstance(query, language.Intersection | language.Union | language.Complement):
        for child in query.children:
            yield from _whole_parts(child)
    elif query != language.Empty():
        yield query
