"""Safetensors files: a header of JSON, then the numbers; nothing in them is run.

The file is untrusted. Every byte of the data must belong to exactly one tensor, and every tensor must have
as many bytes as its shape and kind say. Format: huggingface/safetensors, README, "Format". (The package of
that name gives numpy no bfloat16 and checks less, so the header is read here.)
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import LoadError
from .checkpoint import Numbers, Shape, not_numbers
from .opened_file import OpenedFile

LONGEST_HEADER = 100_000_000  # bytes, as the published reader has it
_LFS = b"version https://git-lfs"
_SIZES: Mapping[str, int] = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "C64": 8,
    "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1,
}  # fmt: skip
_FLOATS: Mapping[str, str] = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


@dataclass(frozen=True)
class Entry:
    """What the header says of one tensor; begin and end in bytes from the start of the data."""

    name: str
    kind: str
    shape: Shape
    begin: int
    end: int


@dataclass(frozen=True)
class SafetensorsFile:
    """One file whose header has been checked; numbers are read when asked."""

    file: OpenedFile
    entries: Mapping[str, Entry]
    data: int  # where the numbers begin, in bytes
    stays: bool = True

    @property
    def where(self) -> str:
        """The path, for messages."""
        return self.file.where

    @cached_property
    def shapes(self) -> Mapping[str, Shape]:
        """The shape of every tensor, by name."""
        return {name: entry.shape for name, entry in self.entries.items()}

    def read(self, name: str) -> Numbers:
        """One tensor in the file's precision; bfloat16 comes as float32, every value kept.

        Raises LoadError if it does not hold real numbers, or the file has changed since it was opened.
        """
        entry = self.entries[name]
        return self._numbers(entry, 0, math.prod(entry.shape)).reshape(entry.shape)

    def rows(self, name: str, begin: int, end: int) -> Numbers:
        """Some rows of one tensor. Raises LoadError as `read`."""
        entry = self.entries[name]
        width = math.prod(entry.shape[1:])
        return self._numbers(entry, begin * width, end * width).reshape(-1, *entry.shape[1:])

    def _numbers(self, entry: Entry, begin: int, end: int) -> Numbers:
        if entry.kind not in _FLOATS:
            raise not_numbers(entry.name, entry.kind, self.where)
        start = self.data + entry.begin + begin * _SIZES[entry.kind]
        raw = self.file.numbers(start, end - begin, _FLOATS[entry.kind])
        return upcast_bfloat16(raw) if entry.kind == "BF16" else raw


def upcast_bfloat16(bits: np.ndarray[Any, Any]) -> Numbers:
    """The float32 numbers whose upper halves are the given 16 bits; exact.

    >>> upcast_bfloat16(np.array([0x3F80, 0xC000], dtype=np.uint16)).tolist()
    [1.0, -2.0]
    """
    wide = bits.astype(np.uint32)
    wide <<= 16  # in its own memory: half the time
    return wide.view(np.float32)


def open_safetensors(path: str | Path) -> SafetensorsFile:
    """Read and check the header of a safetensors file; the numbers stay where they are.

    Raises LoadError, each with its own words, for a Git-LFS pointer, a file of another format, a header that
    is too long or no JSON, a truncated file, and tensors that overlap, leave holes, or have a number of bytes
    that is not what their shape and kind say.
    """
    place = Path(path)
    try:
        return _opened(place)
    except _Wrong as wrong:
        raise LoadError(f"Cannot load {str(place)!r}: {wrong}") from None
    except OSError as error:
        raise LoadError(f"Cannot load {str(place)!r}: {error}") from error


class _Wrong(Exception):
    """What is wrong with the file."""


def _opened(path: Path) -> SafetensorsFile:
    size = path.stat().st_size
    with open(path, "rb") as file:
        start = file.read(len(_LFS))
        length = _header_length(start, size)
        file.seek(8)
        header = _json(file.read(length))
    entries = _entries(header)
    _check_cover(entries, size - 8 - length)
    return SafetensorsFile(OpenedFile(path), {entry.name: entry for entry in entries}, 8 + length)


def _header_length(start: bytes, size: int) -> int:
    if start.startswith(_LFS):
        raise _Wrong(
            "it is a Git-LFS pointer, a few lines of text that stand for the real file. "
            "Fetch the file itself, as with 'git lfs pull'."
        )
    if size < 8:
        raise _Wrong(f"it has {size} bytes; a safetensors file has at least 8, the length of its header.")
    (length,) = struct.unpack("<Q", start[:8])
    if length > LONGEST_HEADER:
        raise _Wrong(
            f"its first 8 bytes, {start[:8]!r}, say that its header has {length:,} bytes, over the limit of "
            f"{LONGEST_HEADER:,}: it is no safetensors file, or a damaged one."
        )
    if length > size - 8:
        raise _Wrong(
            f"it is truncated within the header: expected {8 + length:,} bytes up to there, found {size:,}."
        )
    if start[8:9] not in (b"{", b""):
        raise _Wrong(f"it is no safetensors file: it begins with {start[:16]!r}.")
    return int(length)


def _json(raw: bytes) -> Mapping[str, Any]:
    try:
        header = json.loads(raw.decode("utf-8"), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise _Wrong(f"its header is no JSON: {error}") from error
    if not isinstance(header, dict):
        raise _Wrong(f"its header must be a JSON object, found {type(header).__name__}.")
    return header


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Wrong(f"its header names {twice!r} twice.")
    return found


def _entries(header: Mapping[str, Any]) -> list[Entry]:
    return [_entry(name, value) for name, value in header.items() if name != "__metadata__"]


def _entry(name: str, value: Any) -> Entry:
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise _Wrong(
            f"its header must give dtype, shape and data_offsets for {name!r}, found {value!r:.120}."
        )
    kind, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(kind, str) or kind not in _SIZES:
        raise _Wrong(f"tensor {name!r} has dtype {kind!r}, which is not known; known: {', '.join(_SIZES)}.")
    if not _is_counts(shape):
        raise _Wrong(f"tensor {name!r} has shape {shape!r:.80}, which is no list of sizes.")
    if not _is_counts(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise _Wrong(f"tensor {name!r} has data_offsets {offsets!r:.80}; expected [begin, end], in order.")
    begin, end = offsets
    needed = math.prod(shape) * _SIZES[kind]
    if needed != end - begin:
        raise _Wrong(
            f"tensor {name!r} of shape {shape} and dtype {kind} takes {needed:,} bytes, "
            f"but its data_offsets [{begin}, {end}] give it {end - begin:,}."
        )
    return Entry(name, kind, tuple(shape), begin, end)


def _is_counts(value: object) -> bool:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


def _check_cover(entries: list[Entry], size: int) -> None:
    """Every byte of the data belongs to one tensor."""
    ordered = sorted(entries, key=lambda entry: (entry.begin, entry.end))
    for before, after in pairwise([Entry("the start", "", (), 0, 0), *ordered]):
        if after.begin < before.end:
            raise _Wrong(
                f"tensors {before.name!r} [{before.begin}, {before.end}) and {after.name!r} "
                f"[{after.begin}, {after.end}) overlap: two names for the same bytes."
            )
        if after.begin > before.end:
            raise _Wrong(
                f"bytes {before.end} to {after.begin} of the data, before {after.name!r}, "
                "belong to no tensor: it is damaged."
            )
    last = ordered[-1].end if ordered else 0
    if last > size:
        raise _Wrong(
            f"it is truncated: expected {last:,} bytes of data, found {size:,} ({last - size:,} missing). "
            "Fetch it again."
        )
    if last < size:
        raise _Wrong(f"{size - last:,} bytes after the last tensor belong to no tensor: it is damaged.")
