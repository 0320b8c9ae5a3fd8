"""What operators do along positions: whether they look ahead, whether each position keeps to itself, and their first ones."""

from __future__ import annotations

import numpy as np

from ..algebra import Dense, Diagonal, LinearMap, Space
from .operators import Action, Array, Factor, Gate, Operator, Parallel, Part, Step, is_lower, word_map


def looks_ahead(operator: Operator) -> bool:
    """Return whether a position may take something from a later one."""
    return any(map(_looks_ahead, operator))


def _looks_ahead(part: Part) -> bool:
    match part:
        case Step():
            if is_lower(part.position):
                return False
            word = word_map(part.position)
            return word is not None and bool(np.triu(word.dense(), 1).any())
        case Parallel():
            return any(map(looks_ahead, part.terms))
        case Action():
            return part.looks_ahead
    return False


def is_local(operator: Operator) -> bool:
    """Return whether every position keeps to itself, whatever form its factors have."""
    return all(map(_is_local, operator))


def _is_local(part: Part) -> bool:
    match part:
        case Step():
            word = word_map(part.position)
            return word is None or isinstance(word, Diagonal) or _is_diagonal(word.dense())
        case Parallel():
            return all(map(is_local, part.terms))
        case Action():
            return part.local
    return True


def _is_diagonal(amounts: Array) -> bool:
    return not np.any(amounts - np.diag(np.diag(amounts)))


def first(operator: Operator, positions: int) -> Operator:
    """Return an operator on the first positions alone; exact where it does not look ahead."""
    return tuple(_first_of(part, positions) for part in operator)


def _first_of(part: Part, positions: int) -> Part:
    if isinstance(part, Action):
        return part.first(positions)
    if isinstance(part, Parallel):
        return Parallel(part.name, tuple(first(term, positions) for term in part.terms))
    if isinstance(part, Gate):
        return Gate(part.name, positions, part.features, part.numbers()[:positions])
    return Step(tuple(_first(factor, positions) for factor in part.position), part.feature)


def _first(factor: Factor, positions: int) -> Factor:
    map, space = factor.numbers(), Space("position", positions)
    kept: LinearMap = (
        Diagonal(map.values[:positions], space)
        if isinstance(map, Diagonal)
        else Dense(map.dense()[:positions, :positions], space, space)
    )
    return Factor(factor.name, positions, positions, kept, lower=factor.lower)


def stays(operator: Operator) -> bool:
    """Return whether nothing moves between positions, as far as the form of the factors says."""
    return all(map(_stays, operator))


def _stays(part: Part) -> bool:
    match part:
        case Step():
            word = word_map(part.position)
            return word is None or isinstance(word, Diagonal)
        case Parallel():
            return all(map(stays, part.terms))
        case Action():
            return part.local
    return True
