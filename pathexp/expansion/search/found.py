"""What a sweep has found: suffixes as a tree, and the best complete paths."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...graph import Array, Indices
from .layout import Layout


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


@dataclass(eq=False)
class Best:
    """The k + 1 complete paths of largest |value| so far, and how large anything set aside can be."""

    k: int
    layout: Layout
    suffixes: Suffixes
    floor: float = 0.0
    examined: int = 0
    missed: float = 0.0
    values: Array = field(default_factory=lambda: np.zeros(0))
    keys: Indices = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))
    labels: list[str] = field(default_factory=list)

    @property
    def threshold(self) -> float:
        """Paths below this cannot be among the k best: the k-th best value, or what was known before."""
        if len(self.values) < self.k:
            return self.floor
        return max(self.floor, float(np.sort(np.abs(self.values))[-self.k]))

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
        self.values = np.concatenate([self.values, values[rows, columns]])
        self.keys = np.concatenate([self.keys, np.stack([parents[rows], entries[columns]], axis=1)])
        self.labels.extend([label] * len(rows))
        self._cut()

    def _cut(self) -> None:
        if len(self.values) <= self.k:
            return
        order = np.argsort(-np.abs(self.values), kind="stable")
        self.missed = max(self.missed, float(abs(self.values[order[self.k]])))
        kept = np.sort(order[: self.k])
        self.values, self.keys = self.values[kept], self.keys[kept]
        self.labels = [self.labels[place] for place in kept]

    def set_aside(self, bounds: Array) -> None:
        """Remember how large the paths that are given up can be."""
        self.missed = max(self.missed, float(bounds.max(initial=0.0)))

    def words(self) -> list[tuple[float, tuple[str, ...]]]:
        """The paths found, the largest first, equals in the order of their labels."""
        words = self.layout.entries[-1].words
        sink = self.layout.walk.graph.sink.label
        found = [
            (
                float(value),
                (*words[entry], *((label,) if label else ()), *self.suffixes.word(int(parent)), sink),
            )
            for value, (parent, entry), label in zip(self.values, self.keys, self.labels, strict=True)
        ]
        return sorted(found, key=lambda pair: (-abs(pair[0]), pair[1]))
