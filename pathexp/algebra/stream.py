"""The dense form of a map in blocks of rows: walked through, or written to a file, never held whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import SizeError
from ..replaced_file import replaced_file
from .arrays import Array
from .maps import LinearMap
from .operations import is_narrow, waist, wide

ROWS_AT_ONCE = 2**22
"""Entries of a block: 32 MB in double precision."""

Progress = Callable[[int, int], None]
"""Called with the rows done and the rows in all."""


def row_blocks(map: LinearMap) -> Iterator[tuple[int, Array]]:
    """Iterate over the dense form as (first row, block of rows), about 2**22 entries at a time.

    Costs O(m n r) for an m × n map with a waist of r, and memory O((m + n) r) plus a block.

    >>> from pathexp.algebra import Diagonal, Space
    >>> [(first, block.shape) for first, block in row_blocks(Diagonal([1.0, 2.0, 3.0], Space("model", 3)))]
    [(0, (3, 3))]
    """
    rows, columns = map.shape
    step = max(1, ROWS_AT_ONCE // max(1, columns))
    left, right = waist(map) if is_narrow(map) else (wide(map), None)
    for first in range(0, rows, step):
        part = left[first : first + step]
        yield first, part if right is None else part @ right


def save_dense(
    map: LinearMap,
    path: str | os.PathLike[str],
    dtype: Literal["float16", "float32", "float64"] = "float32",
    progress: Progress | None = None,
) -> None:
    """Write the dense form to a .npy file, block by block; `np.load(path, mmap_mode="r")` reads it back.

    50,000 × 50,000 in float32 take 10 GB on disk and 32 MB in memory. The file appears under its name only
    when it is whole. Raises SizeError if the disk has no room for it or an entry does not fit the dtype, or for
    a dtype that is none of the three.
    """
    kind = np.dtype(dtype)
    if kind not in (np.float16, np.float32, np.float64):
        raise SizeError(f"a table is saved as float16, float32 or float64, not as {kind}")
    rows, columns = map.shape
    target = os.fspath(path)
    _check_room(target, rows * columns * kind.itemsize, map)
    with replaced_file(target) as file:
        header = {
            "descr": np.lib.format.dtype_to_descr(kind),
            "fortran_order": False,
            "shape": (rows, columns),
        }
        np.lib.format.write_array_header_2_0(file, header)
        for first, block in row_blocks(map):
            file.write(_rounded(block, kind, map).tobytes())
            if progress is not None:
                progress(first + len(block), rows)


def _rounded(block: Array, kind: np.dtype[Any], map: LinearMap) -> NDArray[Any]:
    with np.errstate(over="ignore"):
        rounded = block.astype(kind)
    if not np.isfinite(rounded).all():
        raise SizeError(
            f"{map.formula} has entries beyond the largest {kind}, {np.finfo(kind).max:.3g}; use a wider dtype"
        )
    return rounded


def _check_room(target: str, needed: int, map: LinearMap) -> None:
    free = shutil.disk_usage(os.path.dirname(os.path.abspath(target))).free
    if needed > free:
        rows, columns = map.shape
        raise SizeError(
            f"the dense form of {map.formula}, {rows:,} × {columns:,}, takes {needed / 1e9:,.1f} GB and "
            f"{free / 1e9:,.1f} GB are free at {target}; ask for top entries, rows or columns instead"
        )
