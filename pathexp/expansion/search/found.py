"""What a sweep has found: suffixes as a tree, and the best complete paths."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ...graph import Array, Indices
from .rounding import finite


@dataclass(eq=False)
class Suffixes:
    """Endings of paths as a tree: each is a component put before an ending that is known already."""

    parents: list[int] = field(default_factory=lambda: [-1])
    labels: list[str] = field(default_factory=lambda: [""])

    def __len__(self) -> int:
        return len(self.parents)

    def add(self, label: str, parents: Indices) -> Indices:
        """Put a component before each of some endings; return the new endings' numbers."""
        first = len(self.parents)
        self.parents.extend(parents.tolist())
        self.labels.extend([label] * len(parents))
        return np.arange(first, len(self.parents))

    def word(self, ending: int) -> tuple[str, ...]:
        """The labels of an ending, the sink left out."""
        labels = []
        while ending > 0:
            labels.append(self.labels[ending])
            ending = self.parents[ending]
        return tuple(labels)


class Valued(NamedTuple):
    """A path, its value, and how far that may be off."""

    value: float
    word: tuple[str, ...]
    error: float


def by_size(path: Valued) -> tuple[float, tuple[str, ...]]:
    """The key that sorts the largest first, equals in the order of their labels."""
    return -abs(path.value), path.word


CONTENDERS = 256
"""How many paths beyond the k largest are kept because of what all of them may be off by."""

Offer = tuple[Array, Array, Indices, Indices, Indices]
"""Values of paths, how far each may be off, the endings and entries they are made of, and the number of the label between."""


@dataclass(eq=False)
class Best:
    """The k complete paths of largest |value| so far, and how large anything set aside can be.

    What is set aside stays below the threshold, rounding included: the k-th largest of what |values| are at least. Offers are gathered and cut down to k when enough of them are there: the work per path does not grow with k.
    """

    k: int
    beginnings: tuple[tuple[str, ...], ...]
    sink: str
    suffixes: Suffixes
    floor: float = 0.0
    examined: int = 0
    missed: float = 0.0
    threshold: float = 0.0
    labels: list[str] = field(default_factory=list)
    _offers: list[Offer] = field(default_factory=list)
    _waiting: int = 0
    _kept: int = 0

    def __post_init__(self) -> None:
        self.threshold = self.floor

    def offer(self, label: str, values: Array, errors: Array, parents: Indices, entries: Indices) -> None:
        """Take paths into account: values (m, E) of endings `parents` with `label` before them and entries before that.

        errors (m,) say how far they may be off.
        """
        self.examined += values.size
        errors = finite(errors)
        most = finite(np.abs(values) + errors[:, None])
        inside = (most >= self.threshold) & np.isfinite(values)
        rows, columns = np.nonzero(inside)
        if len(rows) < most.size:
            self.missed = max(self.missed, float(most[~inside].max(initial=0.0)))
        if not len(rows):
            return
        self.labels.append(label)
        named = np.full(len(rows), len(self.labels) - 1)
        self._offers.append((values[rows, columns], errors[rows], parents[rows], entries[columns], named))
        self._waiting += len(rows)
        if self._kept + self._waiting > self.k and _ENOUGH * self._waiting >= self.k:
            self._cut()

    def _all(self) -> Offer:
        if not self._offers:
            empty = np.zeros(0, dtype=np.int64)
            return np.zeros(0), np.zeros(0), empty, empty, empty
        values, errors, parents, entries, labels = (
            np.concatenate(parts) for parts in zip(*self._offers, strict=True)
        )
        return values, errors, parents, entries, labels

    def _cut(self) -> None:
        """Keep the k largest, the earlier of equals, raise the threshold to what k are at least, and keep who may belong to them."""
        offers = self._all()
        sizes, errors = np.abs(offers[0]), offers[1]
        order = np.argsort(-sizes, kind="stable")
        first, others = order[: self.k], order[self.k :]
        if len(first) == self.k > 0:
            self.threshold = max(self.floor, self.threshold, float(np.sort(sizes - errors)[-self.k]))
        close = others[(sizes + errors)[others] > self.threshold][:CONTENDERS]
        kept, left = np.sort(np.concatenate([first, close])), np.setdiff1d(others, close)
        self.missed = max(self.missed, float(np.max((sizes + errors)[left], initial=0.0)))
        values, errors, parents, entries, labels = offers
        self._offers = [(values[kept], errors[kept], parents[kept], entries[kept], labels[kept])]
        self._kept, self._waiting = len(kept), 0

    def set_aside(self, bounds: Array) -> None:
        """Remember how large the paths that are given up can be; what is no number bounds nothing."""
        self.missed = max(self.missed, float(finite(bounds).max(initial=0.0)))

    def words(self) -> list[Valued]:
        """The k paths found and who may belong to them, the largest first, equals in the order of their labels."""
        self._cut()
        found = [
            Valued(float(value), self._word(int(parent), int(entry), self.labels[label]), float(error))
            for value, error, parent, entry, label in zip(*self._all(), strict=True)
        ]
        return sorted(found, key=by_size)

    def _word(self, ending: int, entry: int, label: str) -> tuple[str, ...]:
        middle = (label,) if label else ()
        return (*self.beginnings[entry], *middle, *self.suffixes.word(ending), self.sink)


_ENOUGH = 8
"""Offers wait until they are an eighth of k."""
