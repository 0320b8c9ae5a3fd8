"""The tensors of GGUF files, through the package ``gguf``: blocks of packed numbers that carry their own scales."""

from __future__ import annotations

import math
import mmap
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import LoadError
from ...installation import install_command
from .checkpoint import Numbers, Shape, not_numbers
from .gguf_header import Damaged, Header, Place, read_header
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
        """One tensor, unpacked. Raises LoadError for a packing that the package does not know."""
        shape = self.places[name].shape
        return self.rows(name, 0, math.prod(shape[:-1])).reshape(shape)

    def rows(self, name: str, begin: int, end: int) -> Numbers:
        """Some rows of one tensor, unpacked, all axes but the last taken together. Raises LoadError as `read`."""
        place = self.places[name]
        packing, row = self.packing(place), row_bytes(self.package, place)
        if re.fullmatch(r"I\d+", packing.name):  # integers, not IQ4_NL and its like
            raise not_numbers(name, packing.name, self.where)
        width = place.shape[-1] if place.shape else 1
        made = np.empty((end - begin, width), dtype=np.float32)
        step = max(1, _AT_ONCE // max(1, width))
        for at in range(begin, end, step):
            count = min(step, end - at)
            raw = self.file.numbers(place.begin + at * row, count * row, np.uint8)
            made[at - begin : at - begin + count] = self._unpacked(name, raw[None], packing).reshape(
                count, width
            )
        return made

    def _unpacked(self, name: str, raw: NDArray[np.uint8], packing: Any) -> Numbers:
        """Rows that are handed over as one long one: the package takes 16 rows at a time, which is slow."""
        try:
            return np.asarray(self.package.quants.dequantize(raw, packing))
        except (NotImplementedError, ValueError) as error:
            raise LoadError(
                f"Cannot load {self.where}: {name!r} is packed as {packing.name}, "
                f"which the package 'gguf' cannot unpack: {error}"
            ) from error

    def packing(self, place: Place) -> Any:
        """How a tensor is packed, as the package names it."""
        return self.package.GGMLQuantizationType(place.packing)


def row_bytes(package: Any, place: Place) -> int:
    """How many bytes one row of a tensor takes. Raises Damaged for a packing that is not known, or a row of part blocks."""
    if place.packing not in list(package.GGMLQuantizationType):
        raise Damaged(f"a tensor is packed in way {place.packing}, which the package 'gguf' does not know")
    block, size = package.GGML_QUANT_SIZES[package.GGMLQuantizationType(place.packing)]
    width = place.shape[-1] if place.shape else 1
    if width % block:
        raise Damaged(f"a tensor of shape {place.shape} has rows of no whole blocks of {block}")
    return int(width // block * size)


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
