"""What a sweep has found: suffixes as a tree, and the best complete paths."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...graph import Array, Indices


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


Offer = tuple[Array, Indices, Indices, Indices]
"""Values of paths, the endings and entries they are made of, and the number of the label between."""


@dataclass(eq=False)
class Best:
    """The k complete paths of largest |value| so far, and how large anything set aside can be.

    Offers are gathered and cut down to k when enough of them are there: the work per path does not grow with k.
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

    def offer(self, label: str, values: Array, parents: Indices, entries: Indices) -> None:
        """Take paths into account: values (m, E) of endings `parents` with `label` before them and entries before that."""
        self.examined += values.size
        sizes = np.abs(values)
        rows, columns = np.nonzero(sizes >= self.threshold)
        if len(rows) < sizes.size:
            outside = sizes[sizes < self.threshold]
            self.missed = max(self.missed, float(outside.max(initial=0.0)))
        if not len(rows):
            return
        self.labels.append(label)
        named = np.full(len(rows), len(self.labels) - 1)
        self._offers.append((values[rows, columns], parents[rows], entries[columns], named))
        self._waiting += len(rows)
        if self._kept + self._waiting > self.k and _ENOUGH * self._waiting >= self.k:
            self._cut()

    def _all(self) -> Offer:
        if not self._offers:
            empty = np.zeros(0, dtype=np.int64)
            return np.zeros(0), empty, empty, empty
        values, parents, entries, labels = (
            np.concatenate(parts) for parts in zip(*self._offers, strict=True)
        )
        return values, parents, entries, labels

    def _cut(self) -> None:
        """Keep the k largest, the earlier of equals, and raise the threshold to the least of them."""
        offers = self._all()
        sizes = np.abs(offers[0])
        order = np.argsort(-sizes, kind="stable")
        kept = np.sort(order[: self.k])
        if len(sizes) > self.k:
            self.missed = max(self.missed, float(sizes[order[self.k]]))
        if len(kept) == self.k:
            self.threshold = max(self.floor, float(sizes[order[self.k - 1]]))
        values, parents, entries, labels = offers
        self._offers = [(values[kept], parents[kept], entries[kept], labels[kept])]
        self._kept, self._waiting = len(kept), 0

    def set_aside(self, bounds: Array) -> None:
        """Remember how large the paths that are given up can be."""
        self.missed = max(self.missed, float(bounds.max(initial=0.0)))

    def words(self) -> list[tuple[float, tuple[str, ...]]]:
        """The paths found, the largest first, equals in the order of their labels."""
        self._cut()
        found = [
            (float(value), self._word(int(parent), int(entry), self.labels[label]))
            for value, parent, entry, label in zip(*self._all(), strict=True)
        ]
        return sorted(found, key=lambda pair: (-abs(pair[0]), pair[1]))

    def _word(self, ending: int, entry: int, label: str) -> tuple[str, ...]:
        middle = (label,) if label else ()
        return (*self.beginnings[entry], *middle, *self.suffixes.word(ending), self.sink)


_ENOUGH = 8
"""Offers wait until they are an eighth of k."""
