"""The tensors of GGUF files, through the package ``gguf``: blocks of packed numbers that carry their own scales."""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import LoadError
from ...installation import install_command
from .checkpoint import Numbers, Shape
from .gguf_header import Damaged, Header, Place, read_header
from .gguf_packings import check_packings, name_of, row_bytes, unpacked
from .opened_file import OpenedFile

_AT_ONCE = 2**19
"""How many packed numbers are unpacked at a time: what that takes on the way fits a cache."""


@dataclass(frozen=True)
class GgufFile:
    """The keys and the places of the tensors of one file; numbers are unpacked when asked."""

    file: OpenedFile
    fields: Mapping[str, Any]
    places: Mapping[str, Place]
    package: Any
    stays: bool = True

    @property
    def where(self) -> str:
        """The path, for messages."""
        return self.file.where

    @cached_property
    def shapes(self) -> Mapping[str, Shape]:
        """The shape of every tensor, by name, rows as outputs."""
        return {name: place.shape for name, place in self.places.items()}

    def read(self, name: str) -> Numbers:
        """One tensor, unpacked. Raises LoadError for a scale that is no number."""
        shape = self.places[name].shape
        return self.rows(name, 0, shape[0] if len(shape) > 1 else 1).reshape(shape)

    def rows(self, name: str, begin: int, end: int) -> Numbers:
        """Some of one tensor along its first axis, unpacked. Raises LoadError as `read`.

        A tensor whose scale stands beside it, of one number, comes multiplied by it.
        """
        inner = self.places[name].shape[1:-1]
        each = math.prod(inner)
        found = self._rows(name, begin * each, end * each)
        found = found.reshape(end - begin, *inner, found.shape[-1]) if inner else found
        scale = scale_of(name)
        return found * self._rows(scale, 0, 1).astype(np.float64) if self._is_scale(scale) else found

    def beside(self, names: Iterable[str]) -> tuple[str, ...]:
        """The tensors that stand beside these: their scales, and scales of inputs, which only rounded inputs need."""
        found = (other for name in names for other in (scale_of(name), scale_of(name, "input_scale")))
        return tuple(other for other in found if self._is_scale(other))

    def _is_scale(self, name: str) -> bool:
        return name in self.places and math.prod(self.places[name].shape) == 1

    def _rows(self, name: str, begin: int, end: int) -> Numbers:
        place = self.places[name]
        row = row_bytes(self.package, place)
        width = place.shape[-1] if place.shape else 1
        dtype = np.float64 if name_of(self.package, place.packing) == "F64" else np.float32
        made = np.empty((end - begin, width), dtype=dtype)
        step = max(1, _AT_ONCE // max(1, width))
        for at in range(begin, end, step):
            count = min(step, end - at)
            raw = self.file.numbers(place.begin + at * row, count * row, np.uint8)
            made[at - begin : at - begin + count] = self._unpacked(name, raw, place.packing).reshape(
                count, width
            )
        return made

    def _unpacked(self, name: str, raw: NDArray[np.uint8], packing: int) -> Numbers:
        try:
            return unpacked(self.package, raw, packing)
        except ValueError as error:
            raise LoadError(f"Cannot load {self.where}: {name!r} cannot be unpacked: {error}.") from error


def scale_of(name: str, kind: str = "scale") -> str:
    """The name of the scale of a tensor.

    >>> scale_of("blk.0.attn_q.weight"), scale_of("blk.0.attn_q.weight", "input_scale")
    ('blk.0.attn_q.scale', 'blk.0.attn_q.input_scale')
    """
    return f"{name.removesuffix('.weight')}.{kind}"


def open_gguf(path: str | Path) -> GgufFile:
    """Read and check the keys and the places of the tensors; the numbers stay where they are."""
    try:
        import gguf
    except ImportError:
        raise LoadError(
            f"Cannot load {str(path)!r}: GGUF files need the package 'gguf': {install_command('gguf')}"
        ) from None
    try:
        file = OpenedFile(Path(path))
        header = _header(file)
        _check_places(path, header.places, lambda place: _bytes(gguf, place), file.size)
        check_packings(gguf, header.places, file.where)
    except (Damaged, OSError, ValueError, struct.error, OverflowError) as error:
        raise LoadError(f"Cannot load {str(path)!r}: no GGUF file, or damaged: {error!r:.200}") from error
    return GgufFile(file, header.fields, header.places, gguf)


def _header(file: OpenedFile) -> Header:
    with mmap.mmap(file.descriptor, 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as raw:
        return read_header(raw)


def _bytes(package: Any, place: Place) -> int:
    return math.prod(place.shape[:-1]) * row_bytes(package, place)


def _check_places(
    path: str | Path, places: Mapping[str, Place], bytes_of: Callable[[Place], int], size: int
) -> None:
    """No two tensors share bytes, and all are in the file."""
    ordered = sorted(places, key=lambda name: places[name].begin)
    for before, after in pairwise(ordered):
        if places[before].begin + bytes_of(places[before]) > places[after].begin:
            raise LoadError(
                f"Cannot load {str(path)!r}: tensors {before!r} and {after!r} overlap: it is damaged."
            )
    for name, place in places.items():
        if place.begin + bytes_of(place) > size:
            raise Damaged(f"it ends at byte {size:,}, before the end of {name!r}")
