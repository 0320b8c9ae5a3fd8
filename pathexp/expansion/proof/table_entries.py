"""The check of the largest entries of a map: all of them again, in double precision, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import NamedTuple

import numpy as np

from ...algebra import Chain, Entries, LinearMap, Scaled, Sum
from ...answer import Check
from ...graph import Array
from .evaluation import TINY, absolute, from_zero, gamma, map_growth, map_roundings

BLOCK = 512
"""How many columns of a table are multiplied out at once."""


class _Block(NamedTuple):
    """Some columns of a table, from the first on: values (m, c), and how far each may be off."""

    first: int
    values: Array
    off: Array


class _Worst(NamedTuple):
    """The worst found: by how much it is wrong beyond rounding, its rounding, and where."""

    excess: float
    off: float = 0.0
    where: str = ""


def check_entries(map: LinearMap, entries: Entries, largest: str) -> tuple[Check, Check]:
    """Return whether listed entries have their values, and no other one is larger, as far as rounding lets anybody tell.

    Costs the whole table in double precision, twice, and memory for a block of its columns.
    """
    listed = {(int(i), int(j)): float(value) for i, j, value in zip(*entries, strict=True)}
    least = float(min((_key(value, largest) for value in listed.values()), default=np.inf))
    wrong, other = [_Worst(float(len(entries.values) - len(listed)))], [_Worst(0.0)]
    for block in _blocks(map):
        here = {
            (i, j - block.first): value
            for (i, j), value in listed.items()
            if 0 <= j - block.first < block.values.shape[1]
        }
        wrong += [_misquoted(block, place, value) for place, value in here.items()]
        other.append(_largest_other(block, list(here), largest, least))
    wrong.append(_Worst(float(len(listed) - (len(wrong) - 1))))
    worst, most = max(wrong), max(other, key=lambda found: found.excess - found.off)
    size = f"{map.shape[0]:,} × {map.shape[1]:,} entries; {most.where}"
    return (
        Check("listed entries have their values", worst.excess, 0.0, "rounding of both", worst.where, name="values"),
        Check("no other entry is larger", most.excess, most.off, "rounding of that entry", size, name="others"),
    )  # fmt: skip


def _blocks(map: LinearMap) -> Iterator[_Block]:
    lost, least = gamma(map_roundings(map)), TINY * map_growth(map)
    for first in range(0, map.shape[1], BLOCK):
        units = np.eye(min(BLOCK, map.shape[1] - first), map.shape[1], first)
        yield _Block(first, np.asarray(map.apply(units)).T, lost * _sized(map, units).T + least)


def _misquoted(block: _Block, place: tuple[int, int], value: float) -> _Worst:
    """By how much a listed entry is off, beyond the rounding of both."""
    found = float(block.values[place])
    excess = from_zero(abs(found - value) - 2 * float(block.off[place]))
    return _Worst(
        excess, 0.0, f"entry ({place[0]}, {block.first + place[1]}): {found:.9g}, listed as {value:.9g}"
    )


def _largest_other(block: _Block, here: list[tuple[int, int]], largest: str, least: float) -> _Worst:
    """The entry that is not listed and exceeds the least that is by most."""
    keys = _key(block.values, largest)
    sure = np.where(np.isnan(keys), np.inf, keys - block.off)
    for place in here:
        sure[place] = -np.inf
    i, j = divmod(int(np.argmax(sure)), sure.shape[1])
    if sure[i, j] == -np.inf:
        return _Worst(0.0)
    where = f"entry ({i}, {block.first + j}): {block.values[i, j]:.9g}"
    return _Worst(from_zero(float(keys[i, j]) - least), float(block.off[i, j]), where)


def _key(values: Array | float, largest: str) -> Array:
    """What is to be large."""
    array = np.asarray(values, dtype=np.float64)
    return np.abs(array) if largest == "abs" else array if largest == "positive" else -array


def _sized(map: LinearMap, x: Array) -> Array:
    """A map with absolute values for its numbers, applied to rows of numbers from 0 up."""
    match map:
        case Chain(factors=factors):
            return reduce(lambda y, factor: _sized(factor, y), reversed(factors), x)
        case Scaled(factor=factor, map=inner):
            return abs(factor) * _sized(inner, x)
        case Sum(terms=terms):
            return np.asarray(sum(_sized(term, x) for term in terms))
    return np.asarray(x @ absolute(map).T)
