"""The check of a list of the largest pairs of paths in a score: every pair again, by pushing forward."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...answer import Check
from ...graph import Array, Walk
from .beginnings import Beginnings
from .certificate import Certificate, Word
from .evaluation import TINY, Sure, from_zero, gamma, pushed

TILE = 512
"""How many query paths are met with all key paths at once."""


@dataclass(frozen=True, eq=False)
class Side:
    """One side of a score: its paths, where they arrive, and what turns what they bring (d, d), or None."""

    walk: Walk
    position: int
    turn: Array | None = None

    def vectors(self) -> tuple[list[Word], Sure]:
        """Every path, and what it brings: (paths, d), each made again from its source."""
        words = list(self.walk.words())
        depth = len(self.walk.graph.blocks)
        beginnings = Beginnings(self.walk, Certificate((), (), frozenset()))
        found = [_brought(beginnings, word, depth, self.position) for word in words]
        value, off = (np.stack([getattr(x, name) for x in found]) for name in ("value", "off"))
        if self.turn is None:
            return words, Sure(value, off)
        size = np.abs(self.turn).T
        lost = off @ size + gamma(len(size)) * (np.abs(value) @ size) + TINY
        return words, Sure(value @ self.turn.T, lost)


def _brought(beginnings: Beginnings, word: Word, depth: int, position: int) -> Sure:
    """What a path brings to its sink at one position, (d_out,)."""
    if len(word) == 2 and (straight := beginnings.straight(word[0])) is not None:
        return straight.at(position)
    sink = beginnings.walk.graph.sink.operator
    return pushed(sink, beginnings.stream(depth, word[:-1])).at(position)


@dataclass(frozen=True)
class Listed:
    """What a list says: pairs of paths with values, and a bound on all others."""

    values: dict[tuple[Word, Word], float]
    bound: float


def check_pairs(
    queries: Side, keys: Side, scale: float, listed: Listed, skipped: Sequence[tuple[int, int]]
) -> list[Check]:
    """Return whether listed pairs have their values, and no other exceeds the bound, as far as rounding lets anybody tell.

    `skipped` are the orders (query, key) of pairs that the list leaves out. Costs all paths of both sides, and their products.
    """
    start = time.perf_counter()
    (left, query), (right, key) = queries.vectors(), keys.vectors()
    places = {word: at for at, word in enumerate(right)}
    worst, unlisted, seen = (0.0, ""), (0.0, 0.0, ""), 0
    for at in range(0, len(left), TILE):
        rows = slice(at, at + TILE)
        values, off = _met(query.at(list(range(len(left))[rows])), key, scale)
        for i, word in enumerate(left[rows]):
            for (first, second), value in listed.values.items():
                if first == word:
                    j = places[second]
                    excess = abs(values[i, j] - value) - 2 * off[i, j]
                    worst = max(worst, (from_zero(float(excess)), f"{' '.join(first)} × {' '.join(second)}"))
                    values[i, j], seen = 0.0, seen + 1
        _leave_out(values, left[rows], right, skipped)
        excess = np.abs(values) - listed.bound - off
        i, j = divmod(int(np.argmax(np.where(np.isnan(excess), np.inf, excess))), len(right))
        most = (
            float(abs(values[i, j])),
            float(off[i, j]),
            f"{' '.join(left[at + i])} × {' '.join(right[j])}",
        )
        unlisted = max(unlisted, most, key=lambda found: found[0] - found[1])
    return list(_checks(listed, worst, unlisted, seen, len(left) * len(right), time.perf_counter() - start))


def _met(query: Sure, key: Sure, scale: float) -> tuple[Array, Array]:
    """scale · ⟨q, k⟩ for every pair, and how far each may be off."""
    values = scale * (query.value @ key.value.T)
    most = np.abs(query.value) @ np.abs(key.value).T
    lost = query.off @ (np.abs(key.value) + key.off).T + np.abs(query.value) @ key.off.T
    return values, abs(scale) * (lost + gamma(query.value.shape[1] + 2) * most) + TINY * (1 + abs(scale))


def _leave_out(
    values: Array, left: Sequence[Word], right: Sequence[Word], skipped: Sequence[tuple[int, int]]
) -> None:
    """Take out of a table the pairs of orders that a list is not about."""
    if not skipped:
        return
    rows, columns = (np.array([len(word) - 2 for word in words]) for words in (left, right))
    for a, b in skipped:
        values[np.ix_(rows == a, columns == b)] = 0.0


def _checks(
    listed: Listed,
    worst: tuple[float, str],
    unlisted: tuple[float, float, str],
    seen: int,
    pairs: int,
    seconds: float,
) -> Iterator[Check]:
    yield Check(
        "listed pairs are there, each with its value", max(worst[0], float(len(listed.values) - seen)), 0.0,
        "rounding of both, pair by pair", worst[1], name="values",
    )  # fmt: skip
    size, off, where = unlisted
    yield Check(
        "pairs that are not listed stay below the bound", from_zero(size - listed.bound), off,
        "rounding of the worst one's value", f"{pairs:,} pairs in {seconds:.2f} s; {where}: {size:.6g}", name="bound",
    )  # fmt: skip
