"""Maps on one side of the stream, and the blocks of their Gram matrices, thin maps by their factors, wide ones made once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...budget import BUFFERS

Array = NDArray[np.float64]

BLOCK = 64
"""Rows and columns of the Gram matrices made at a time."""


@dataclass(frozen=True, eq=False)
class Side:
    """Maps of one kind on one side of the stream, as products outer · thin.

    thin has shape (n / shared, r, d): what is read, or the transpose of what is written; as many maps share each as heads share a
    key/value head. outer makes that of one map, (m, r): what follows a reader, or the transpose of what comes before a writer;
    None for nothing.
    """

    labels: tuple[str, ...]
    thin: Array
    outer: Callable[[int], Array] | None = None

    @property
    def width(self) -> int:
        """d, the dimension of the stream."""
        return int(self.thin.shape[-1])

    @property
    def shared(self) -> int:
        """How many maps in a row have one thin factor."""
        return len(self.labels) // max(len(self.thin), 1) or 1

    def part(self, chosen: slice) -> Side:
        """Return some of the maps in a row, with all that share a thin factor."""
        places, outer = range(len(self.labels))[chosen], self.outer
        thin = self.thin[places.start // self.shared : places.stop // self.shared]
        return Side(self.labels[chosen], thin, None if outer is None else lambda at: outer(places.start + at))

    @cached_property
    def scale(self) -> Array:
        """The largest entries of outer times those of thin, (n,): Gram matrices are taken of maps over it."""
        sizes = np.repeat(_largest(self.thin), self.shared)
        if self.outer is not None:
            sizes *= [_largest(self.outer(at)[None])[0] for at in range(len(sizes))]
        return np.where(sizes > 0, sizes, 1.0)

    @cached_property
    def inner(self) -> Array:
        """outerᵀ outer over scale², (n, r, r), of maps that have an outer."""
        assert self.outer is not None, "asked for only where there is one"
        made = np.empty((len(self.labels), self.thin.shape[1], self.thin.shape[1]))
        for at, square in enumerate(self.scale**2):
            outer = self.outer(at)
            made[at] = outer.T @ outer / square
        return made

    def prepare(self) -> None:
        """Make what several threads are going to ask for."""
        _ = self.scale if self.outer is None else self.inner

    def columns(self, start: int) -> Array:
        """Return inner · thin for one block of columns, (n / shared, shared, r, block)."""
        thin = self.thin[:, None, :, start : start + BLOCK]
        maps = len(self.thin), self.shared
        if self.outer is None:
            return np.asarray(thin / self.scale.reshape(*maps, 1, 1) ** 2)
        return np.asarray(self.inner.reshape(*maps, *self.inner.shape[1:]) @ thin)

    def block(self, start: int, columns: Array) -> Array:
        """Return one block of all Gram matrices as rows, (n, block · block)."""
        rows = np.swapaxes(self.thin[:, None, :, start : start + BLOCK], 2, 3)
        made = BUFFERS.array((*columns.shape[:2], rows.shape[2], columns.shape[3]))
        np.matmul(rows, columns, out=made)
        return made.reshape(len(self.labels), rows.shape[2] * columns.shape[3])

    def whole(self, index: int) -> Array:
        """Return a small matrix R with Rᵀ R the Gram matrix of one map, (at most r, d), accurate when small."""
        thin: Array = self.thin[index // self.shared] / self.scale[index]
        return thin if self.outer is None else np.linalg.qr(self.outer(index), mode="r") @ thin


def _largest(arrays: Array) -> Array:
    """Return the largest magnitude in each of some matrices."""
    flat = arrays.reshape(len(arrays), arrays.shape[1] * arrays.shape[2])
    return np.asarray(np.maximum(flat.max(axis=1, initial=0.0), -flat.min(axis=1, initial=0.0)))


@dataclass(frozen=True, eq=False)
class WideSide:
    """Maps of more rows than the stream is wide, by their Gram matrices: on and above the diagonal, by blocks of columns.

    panels: for each block of columns its rows from the first to the diagonal, (n, start + block, block), over scale².
    remake: makes a map, (rows, d), from its number again.
    """

    labels: tuple[str, ...]
    panels: tuple[Array, ...]
    scale: Array
    remake: Callable[[int], Array]

    @staticmethod
    def of(labels: Sequence[str], make: Callable[[str], Array]) -> WideSide:
        """Return the maps of some labels, at least one: `make` makes each, (rows, d). O(rows · d²) a map, once."""
        made, scale = [], np.ones(len(labels))
        for at, label in enumerate(labels):
            map = make(label)
            scale[at] = _largest(map[None])[0] or 1.0
            made.append(_panels(map.T @ map / scale[at] ** 2))
        panels = tuple(np.stack(some) for some in zip(*made, strict=True))
        return WideSide(tuple(labels), panels, scale, lambda at: make(labels[at]))

    @property
    def width(self) -> int:
        """d, the dimension of the stream."""
        return int(self.panels[-1].shape[1])

    def prepare(self) -> None:
        """All is made already."""

    def columns(self, start: int) -> Array:
        """Return one block of columns of the Gram matrices, down to the diagonal."""
        return self.panels[start // BLOCK]

    def block(self, start: int, columns: Array) -> Array:
        """Return one block of all Gram matrices as rows, (n, block · block)."""
        rows = columns[:, start : start + BLOCK]
        return rows.reshape(len(rows), rows.shape[1] * rows.shape[2])

    def whole(self, index: int) -> Array:
        """Return a small matrix R with Rᵀ R the Gram matrix of one map, accurate when small."""
        return np.asarray(np.linalg.qr(self.remake(index), mode="r") / self.scale[index])


def _panels(gram: Array) -> list[Array]:
    return [gram[: start + BLOCK, start : start + BLOCK].copy() for start in range(0, gram.shape[1], BLOCK)]


Maps: TypeAlias = Side | WideSide
