"""Both ends of paths, of which little is read: the columns that a start names, and the rows that a target reads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...algebra import Dense, Space
from ...graph import Array, Difference, Factor, Indices, OneHot, Operator, Part, Start, Step, Values
from .rounding import gamma, lengths
from .sizes import lost, spread, tight


def starting_lost(start: Start, operator: Operator, positions: int) -> Array:
    """Return how far what a source makes of its start is from exact, (positions,); nothing where it only gathers."""
    rest, far, off = _after_gathering(start, operator)
    made = lost(rest, far) if rest else np.zeros_like(far)
    return _broadcast(made + tight(rest, off), positions)


def starting_size(start: Start, operator: Operator, positions: int) -> Array:
    """Return how long what a source makes of its start can be, were all its numbers positive: (positions,)."""
    rest, far, _ = _after_gathering(start, operator)
    return _broadcast(spread(rest, far), positions)


def _after_gathering(start: Start, operator: Operator) -> tuple[Operator, Array, Array]:
    """What is left of an operator after the columns of a one-hot start, how long those are, and how far off."""
    match start, operator:
        case Values(array=array), _ if array is not None:
            return operator, lengths(array), np.zeros(len(array))
        case OneHot() | Difference(), (*parts, Step(position=position, feature=(*rest, factor))) if (
            columns := _columns_of(factor)
        ):
            far, off = _gathered(start, columns)
            return _simple(*parts, Step(position, tuple(rest))), far, off
        case OneHot(indices=indices) | Difference(indices=indices), _ if indices is not None:
            return operator, np.full(len(indices), 2.0), np.zeros(len(indices))
    return operator, np.ones(1), np.zeros(1)


def _columns_of(factor: Factor) -> Callable[[Indices], Array] | None:
    """What gives some columns of a table, those alone of one that is stored; None for what is no table."""
    if (picked := factor.picked) is not None:
        return lambda at: np.ascontiguousarray(picked(at).T)
    table = factor.numbers()
    return (lambda at: table.array[:, at].astype(np.float64)) if isinstance(table, Dense) else None


def _gathered(start: OneHot | Difference, columns: Callable[[Indices], Array]) -> tuple[Array, Array]:
    """How long the columns of a table that a start names are, and how far off: a difference of two rounds once."""
    assert start.indices is not None, "sizes are of graphs with numbers"
    if isinstance(start, OneHot):
        far = lengths(columns(start.indices).T)
        return far, np.zeros_like(far)
    assert start.others is not None, "a difference has two sides"
    far = lengths((columns(start.indices) - columns(start.others)).T) * (1 + gamma(1))
    return far, gamma(1) * far


def _simple(*parts: Part) -> Operator:
    """Parts without steps that do nothing."""
    return tuple(part for part in parts if part != Step())


def narrowed(operator: Operator, direction: Array) -> tuple[Operator, Array]:
    """An operator that is read along a direction alone, with the rows that the direction reads, and those of its numbers.

    What multiplies zeros is exact, so a target on one logit of many meets the roundings of one row.
    """
    match operator:
        case (Step(position=position, feature=(first, *others)), *parts):
            kept = np.flatnonzero(direction)
            map = _rows_of(first, kept)
            if map is None:
                return operator, direction
            factor = Factor(first.name, len(kept), first.columns, map)
            return (Step(position, (factor, *others)), *parts), direction[kept]
    return operator, direction


FEW = 64
"""Up to so many rows are read one by one."""


def _rows_of(factor: Factor, kept: Indices) -> Dense | None:
    """Some rows of a table, those alone where there are very many; None for what is no table."""
    read = Space("read", len(kept))
    if factor.tall is not None and 0 < len(kept) <= FEW:
        rows = np.concatenate([factor.tall.rows(at, at + 1) for at in kept.tolist()])
        return Dense(rows, read, Space("model", rows.shape[1]), factor.name)
    whole = factor.numbers()
    return Dense(whole.array[kept], read, whole.source, factor.name) if isinstance(whole, Dense) else None


def _broadcast(bounds: Array, positions: int) -> Array:
    return np.broadcast_to(bounds, (positions,)).copy()
