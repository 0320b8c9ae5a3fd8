"""Regular sets of words over a small alphabet of integers, as numbered terms with derivatives.

The derivative of a set by a letter holds what is left of its words that begin with the letter. If terms of
the same form are one term, a set has finitely many derivatives, and they are the states of its machine
(Brzozowski 1964, 'Derivatives of Regular Expressions'). Complement and intersection are terms like any other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

Term: TypeAlias = int
Kind = Literal["letters", "empty", "sequence", "star", "union", "intersection", "complement"]


class Terms:
    """A store of terms: the same form has the same number, so that comparing states is comparing integers."""

    def __init__(self) -> None:
        self._forms: list[tuple[Kind, tuple[int, ...]]] = []
        self._numbers: dict[tuple[Kind, tuple[int, ...]], Term] = {}
        self._derivatives: dict[tuple[Term, int], Term] = {}
        self.accepts_empty: list[bool] = []
        self.work = 0  # how many parts of sets were handled so far: what time is spent on
        self.nothing = self._term("union", (), False)
        self.everything = self._term("complement", (self.nothing,), True)
        self.empty = self._term("empty", (), True)

    def _term(self, kind: Kind, arguments: tuple[int, ...], accepts_empty: bool) -> Term:
        form = (kind, arguments)
        if form not in self._numbers:
            self._numbers[form] = len(self._forms)
            self._forms.append(form)
            self.accepts_empty.append(accepts_empty)
        return self._numbers[form]

    # Making terms --------------------------------------------------------------------------------------

    def letters(self, letters: Iterable[int]) -> Term:
        """Words of one letter out of the given ones."""
        found = tuple(sorted(set(letters)))
        return self._term("letters", found, False) if found else self.nothing

    def complement(self, term: Term) -> Term:
        """All words that are not in the set."""
        kind, arguments = self._forms[term]
        if kind == "complement":
            return arguments[0]
        return self._term("complement", (term,), not self.accepts_empty[term])

    def star(self, term: Term) -> Term:
        """Words of the set, any number of them one after the other."""
        if term in (self.nothing, self.empty):
            return self.empty
        return term if self._forms[term][0] == "star" else self._term("star", (term,), True)

    def sequence(self, terms: Iterable[Term]) -> Term:
        """A word of each set, one after the other."""
        found = self.empty
        for term in reversed(tuple(terms)):
            found = self.then(term, found)
        return found

    def then(self, first: Term, second: Term) -> Term:
        """A word of one set and then one of another; sequences nest to the right."""
        if first == self.empty or second == self.nothing:
            return second
        if second == self.empty or first == self.nothing:
            return first
        kind, arguments = self._forms[first]
        if kind == "sequence":
            return self.then(arguments[0], self.then(arguments[1], second))
        return self._term(
            "sequence", (first, second), self.accepts_empty[first] and self.accepts_empty[second]
        )

    def union(self, terms: Iterable[Term]) -> Term:
        """Words of any of the sets: flat, sorted, each once, single letters gathered."""
        parts = set(self._opened("union", terms))
        if self.everything in parts:
            return self.everything
        sets = self._of_kind("letters", parts)
        if len(sets) > 1:
            parts = parts - sets | {self.letters(letter for part in sets for letter in self._forms[part][1])}
        if len(parts) == 1:
            return parts.pop()
        return self._term("union", tuple(sorted(parts)), any(self.accepts_empty[part] for part in parts))

    def intersection(self, terms: Iterable[Term]) -> Term:
        """Words of all of the sets: flat, sorted, each once, complements gathered into one of a union.

        Gathered, because a machine that avoids k components then has a handful of states, and else 2^k.
        """
        parts = set(self._opened("intersection", terms)) - {self.everything}
        if self.nothing in parts:
            return self.nothing
        negated = self._of_kind("complement", parts)
        if len(negated) > 1:
            avoided = self.union(self._forms[part][1][0] for part in negated)
            return self.intersection((*(parts - negated), self.complement(avoided)))
        if len(parts) < 2:
            return parts.pop() if parts else self.everything
        return self._term("intersection", tuple(sorted(parts)), all(self.accepts_empty[p] for p in parts))

    def _opened(self, kind: Kind, terms: Iterable[Term]) -> list[Term]:
        opened: list[Term] = []
        for term in terms:
            found, arguments = self._forms[term]
            if found == kind:
                opened += arguments
            else:
                opened.append(term)
        self.work += len(opened)
        return opened

    def _of_kind(self, kind: Kind, terms: Iterable[Term]) -> set[Term]:
        return {term for term in terms if self._forms[term][0] == kind}

    # Derivatives ---------------------------------------------------------------------------------------

    def derivative(self, term: Term, letter: int) -> Term:
        """What is left of the words of a set that begin with a letter. Each is computed once."""
        known = self._derivatives.get((term, letter))
        if known is not None:
            return known
        for pending in reversed(self._spine(term, letter)):
            self._derivatives[pending, letter] = self._derived(pending, letter)
        return self._derivatives[term, letter]

    def _spine(self, term: Term, letter: int) -> list[Term]:
        """The term, and the rests of a sequence that its derivative asks for, which may be thousands."""
        found: list[Term] = []
        while (term, letter) not in self._derivatives:
            found.append(term)
            kind, arguments = self._forms[term]
            if kind != "sequence" or not self.accepts_empty[arguments[0]]:
                break
            term = arguments[1]
        return found

    def _derived(self, term: Term, letter: int) -> Term:
        kind, arguments = self._forms[term]
        match kind:
            case "empty":
                return self.nothing
            case "letters":
                return self.empty if letter in arguments else self.nothing
            case "star":
                return self._distributed(self.derivative(arguments[0], letter), term)
            case "sequence":
                return self._derived_sequence(arguments[0], arguments[1], letter)
            case "complement":
                return self.complement(self.derivative(arguments[0], letter))
            case "union":
                return self.union(self.derivative(part, letter) for part in arguments)
            case "intersection":
                return self.intersection(self.derivative(part, letter) for part in arguments)

    def _derived_sequence(self, first: Term, second: Term, letter: int) -> Term:
        through_first = self._distributed(self.derivative(first, letter), second)
        if not self.accepts_empty[first]:
            return through_first
        return self.union((through_first, self.derivative(second, letter)))

    def _distributed(self, first: Term, second: Term) -> Term:
        """(a | b) c as a c | b c, so that the states of a plain query are sets of places in it."""
        return self.union(self.then(part, second) for part in self._opened("union", (first,)))
