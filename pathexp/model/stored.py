"""Arrays of weights that stay as they are stored: a layer, or some rows, become float64 when they are asked for.

Raised layers are kept within the one budget of `pathexp.budget` and made again, to the bit, when they were let go.
Whether numbers are finite is checked when they are raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.mixins import NDArrayOperatorsMixin

from ..budget import BUDGET, BUFFERS
from ..errors import WeightsError

Array = npt.NDArray[np.float64]
Shape = tuple[int, ...]

BLOCK = 8192
"""How many rows of a wide matrix are multiplied at a time, stored or in memory, so that both round alike."""


class Stored(NDArrayOperatorsMixin):
    """An array as it is stored. Indexed, it gives arrays; whatever else numpy does to it, it does to the whole array."""

    dtype = np.dtype(np.float64)
    __array_priority__ = 10.0

    def __init__(self, name: str, shape: Shape) -> None:
        self.name, self.shape = name, shape

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """How many bytes it would take as float64."""
        return 8 * self.size

    def whole(self) -> Array:
        """Return all of it as float64, read-only."""
        raise NotImplementedError

    def __getitem__(self, index: Any) -> Any:
        """Return a part, as numpy would."""
        return self.whole()[index]

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        return (self[at] for at in range(len(self)))

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        whole = self.whole()
        return whole.astype(dtype or np.float64, copy=bool(copy))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **settings: Any) -> Any:
        arrays = (each.whole() if isinstance(each, Stored) else each for each in inputs)
        return getattr(ufunc, method)(*arrays, **settings)

    def __getattr__(self, name: str) -> Any:
        """Ask the whole array: `mean`, `max`, `reshape`, …"""
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(f"{type(self).__name__} has no {name!r}")
        return getattr(self.whole(), name)

    def __deepcopy__(self, memo: object) -> Stored:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _read_only, (np.array(self.whole()),)

    def __repr__(self) -> str:
        return f"<{self.name} {self.shape}, as stored>"


class StoredLayers(Stored):
    """One array a layer: `read` makes that of a layer, float64, whenever it is asked for; `finite` says to check its numbers.

    ``passing``: arrays of a long run rather than weights; few of them are kept.

    >>> stored = StoredLayers("W_in", (2, 1, 3), lambda layer: np.full((1, 3), float(layer)))
    >>> stored[1], stored[1, 0, 2], stored.mean()
    (array([[1., 1., 1.]]), np.float64(1.0), np.float64(0.5))
    """

    def __init__(
        self,
        name: str,
        shape: Shape,
        read: Callable[[int], Array],
        *,
        finite: bool = True,
        passing: bool = False,
    ) -> None:
        super().__init__(name, shape)
        self._read, self._finite, self._passing = read, finite, passing

    def whole(self) -> Array:
        """Return all layers stacked; as many bytes as `nbytes` says."""
        made = np.empty(self.shape)
        for layer in range(self.shape[0]):
            made[layer] = self.layer(layer)
        return _read_only(made)

    def layer(self, layer: int) -> Array:
        """Return the array of one layer, read-only. Raises WeightsError if a number in it is not finite."""
        return BUDGET.get(self, layer, lambda: self._raised(layer), passing=self._passing)

    def __getitem__(self, index: Any) -> Any:
        first, *rest = index if isinstance(index, tuple) and index else (index,)
        if isinstance(first, int | np.integer) and not isinstance(first, bool):
            if not -self.shape[0] <= first < self.shape[0]:
                raise IndexError(f"{self.name} has {self.shape[0]} layers; there is no layer {first}")
            found = self.layer(int(first) % self.shape[0])
            return found[None][0, *rest] if rest else found  # lists beside a number have their own rule
        if isinstance(first, slice) and not rest:
            layers = range(self.shape[0])[first]
            return np.stack([self.layer(at) for at in layers]) if layers else np.zeros((0, *self.shape[1:]))
        return self.whole()[index]

    def _raised(self, layer: int) -> Array:
        made = _side_by_side(self._read(layer))
        if self._finite:
            check_finite(self.name, made, (layer,))
        return _read_only(made)


class StoredExperts(Stored):
    """One array an expert of a layer: `read` makes that of one, float64, whenever it is asked for; `finite` says to check its numbers.

    >>> stored = StoredExperts("W_in_experts", (2, 3, 1, 1), lambda layer, expert: np.full((1, 1), 10.0 * layer + expert))
    >>> stored[1, 2], stored[1].ravel().tolist(), stored.mean()
    (array([[12.]]), [10.0, 11.0, 12.0], np.float64(6.0))
    """

    def __init__(
        self, name: str, shape: Shape, read: Callable[[int, int], Array], *, finite: bool = True
    ) -> None:
        super().__init__(name, shape)
        self._read, self._finite = read, finite

    def whole(self) -> Array:
        """Return all experts of all layers; as many bytes as `nbytes` says."""
        return _read_only(np.stack([self[layer] for layer in range(self.shape[0])]))

    def expert(self, layer: int, expert: int) -> Array:
        """Return the array of one expert, read-only. Raises WeightsError if a number in it is not finite."""
        return BUDGET.get(self, (layer, expert), lambda: self._raised(layer, expert))

    def __getitem__(self, index: Any) -> Any:
        """Return the array of one expert for a pair of numbers, of all of a layer for one; else as numpy would."""
        places = index if isinstance(index, tuple) else (index,)
        known = all(
            _is_whole(at) and -size <= at < size for at, size in zip(places, self.shape, strict=False)
        )
        if not known or not 1 <= len(places) <= 2:
            return self.whole()[index]
        layer, *rest = (int(at) % size for at, size in zip(places, self.shape, strict=False))
        if rest:
            return self.expert(layer, rest[0])
        return _read_only(np.stack([self.expert(layer, each) for each in range(self.shape[1])]))

    def _raised(self, layer: int, expert: int) -> Array:
        made = _side_by_side(self._read(layer, expert))
        if self._finite:
            check_finite(self.name, made, (layer, expert))
        return _read_only(made)


def _is_whole(at: object) -> bool:
    return isinstance(at, int | np.integer) and not isinstance(at, bool)


class StoredRows(Stored):
    """A table with a row for each token: `read(begin, end)` makes some rows, float64, whenever they are asked for.

    `finite` says to check their numbers.

    >>> table = StoredRows("W_U", (4, 2), lambda begin, end: np.arange(8.0).reshape(4, 2)[begin:end])
    >>> table[1:3].tolist(), table[np.array([3, 0])].tolist(), table.T[:, [1]].tolist(), table.T.shape
    ([[2.0, 3.0], [4.0, 5.0]], [[6.0, 7.0], [0.0, 1.0]], [[2.0], [3.0]], (2, 4))
    """

    def __init__(
        self, name: str, shape: Shape, read: Callable[[int, int], Array], *, finite: bool = True
    ) -> None:
        super().__init__(name, shape)
        self._read, self._finite = read, finite

    def whole(self) -> Array:
        """Return all rows."""
        return BUDGET.get(self, "whole", self._whole)

    @property
    def T(self) -> StoredColumns:
        """The same numbers, a column for each token."""
        return StoredColumns(self)

    def rows(self, begin: int, end: int) -> Array:
        """Return some rows, read-only. Raises WeightsError if a number in them is not finite.

        They are cut from the whole table where that takes at most half of the budget.
        """
        return self.whole()[begin:end] if 2 * self.nbytes <= BUDGET.limit else self._raised(begin, end)

    def _raised(self, begin: int, end: int) -> Array:
        made = _side_by_side(self._read(begin, end))
        if self._finite:
            check_finite(self.name, made, (), begin)
        return _read_only(made)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice) and index.step in (None, 1):
            begin, end, _ = index.indices(self.shape[0])
            return self.rows(begin, max(begin, end))
        if (
            isinstance(index, list | np.ndarray)
            and np.ndim(index) == 1
            and np.asarray(index).dtype.kind in "iu"
        ):
            return self._picked(np.asarray(index))
        if isinstance(index, int | np.integer) and -self.shape[0] <= index < self.shape[0]:
            at = int(index) % self.shape[0]
            return self.rows(at, at + 1)[0]
        return self.whole()[index]

    def _picked(self, index: npt.NDArray[np.integer[Any]]) -> Array:
        wanted, places = np.unique(index, return_inverse=True)
        if len(wanted) and not -self.shape[0] <= wanted[0] <= wanted[-1] < self.shape[0]:
            raise IndexError(f"{self.name} has {self.shape[0]} rows, asked for {wanted[0]} to {wanted[-1]}")
        found = [self[int(at)] for at in wanted]
        return np.stack(found)[places] if found else np.zeros((0, self.shape[1]))

    def _whole(self) -> Array:
        made = BUFFERS.array(self.shape)
        for begin in range(0, self.shape[0], BLOCK):
            made[begin : begin + BLOCK] = self._raised(begin, min(begin + BLOCK, self.shape[0]))
        return _read_only(made)


class StoredColumns(Stored):
    """A table of rows, read as columns."""

    def __init__(self, table: StoredRows) -> None:
        super().__init__(table.name, table.shape[::-1])
        self.table = table

    def whole(self) -> Array:
        """Return all columns: the rows, transposed, not copied."""
        return self.table.whole().T

    @property
    def T(self) -> StoredRows:
        """The table with a row for each token."""
        return self.table

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, tuple) and len(index) == 2 and index[0] == slice(None):
            return np.moveaxis(np.asarray(self.table[index[1]]), -1, 0)
        return self.whole()[index]


def check_finite(name: str, array: Array, before: tuple[int, ...] = (), offset: int = 0) -> None:
    """Raise WeightsError for numbers that are not finite, with the place of the first.

    `before` and `offset` say where the array is in what has the name: the layer, the first row.
    """
    finite = np.isfinite(array)
    if finite.all():
        return
    first = tuple(int(at) for at in np.argwhere(~finite)[0])  # () of a single number
    place = (*before, *(at + offset * (axis == 0) for axis, at in enumerate(first)))
    raise WeightsError(
        f"{name} has {int((~finite).sum())} numbers that are not finite, the first {array[first]} at {place}"
    )


def _side_by_side(array: Array) -> Array:
    """An array as float64 whose numbers lie side by side in the order of its axes: itself, or a copy."""
    if array.dtype == np.float64 and array.flags.c_contiguous:
        return array
    made = BUFFERS.array(array.shape)
    np.copyto(made, array)
    return made


def _read_only(array: Array) -> Array:
    array.setflags(write=False)
    return array
