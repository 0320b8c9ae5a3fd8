"""The header of a GGUF file: its keys and where its tensors are.

The package ``gguf`` reads it too, as one small array a string: 5 s for the 100,000 strings of a tokenizer, where this
takes a fraction of one. Format: ggml-org/ggml, docs/gguf.md; the file is untrusted.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .checkpoint import Shape

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_LENGTH = struct.Struct("<Q")
_VERSIONS = (2, 3)
_DEEPEST = 4  # lists within lists
_ALIGNMENT = "general.alignment"


class Damaged(Exception):
    """What is wrong with the file."""


@dataclass(frozen=True)
class Place:
    """One tensor: its shape, rows as outputs (the file has the axes reversed), its packing, and its first byte."""

    shape: Shape
    packing: int
    begin: int


@dataclass(frozen=True)
class Header:
    """The keys with their values, and the tensors by name."""

    fields: Mapping[str, Any]
    places: Mapping[str, Place]


def read_header(raw: memoryview) -> Header:
    """Read the header of a file whose bytes these are. Raises Damaged for what is none, or is cut short.

    >>> read_header(memoryview(struct.pack("<4sIQQ", b"GGUF", 3, 0, 0))).fields
    {}
    """
    reader = _Reader(raw)
    if bytes(reader.take(4)) != b"GGUF":
        raise Damaged("it does not begin with GGUF")
    version = reader.number("I")
    if version not in _VERSIONS:
        swapped = " (its bytes are in the other order)" if version & 0xFFFF == 0 else ""
        raise Damaged(f"its version is {version}{swapped}; known: {', '.join(map(str, _VERSIONS))}")
    tensors, keys = reader.number("Q"), reader.number("Q")
    fields = _named(keys, lambda: (reader.text(), reader.value(reader.number("I"))), "key")
    found = _named(tensors, lambda: (reader.text(), reader.tensor()), "tensor")
    return Header(fields, _placed(found, reader.at, fields.get(_ALIGNMENT, 32)))


def _named(count: int, read: Callable[[], tuple[str, Any]], what: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(count):
        name, value = read()
        if name in found:
            raise Damaged(f"the {what} {name!r} is there twice")
        found[name] = value
    return found


def _placed(found: Mapping[str, Place], end: int, alignment: object) -> dict[str, Place]:
    """Places from the start of the file: the numbers begin at the next aligned byte."""
    if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1):
        raise Damaged(f"{_ALIGNMENT} is {alignment!r:.40}; it must be a power of two")
    begin = -(-end // alignment) * alignment
    return {name: Place(each.shape, each.packing, begin + each.begin) for name, each in found.items()}


@dataclass
class _Reader:
    """What is read next."""

    raw: memoryview
    at: int = 0

    def take(self, count: int) -> memoryview:
        end = self.at + count
        if end > len(self.raw):
            raise Damaged(f"it ends at byte {len(self.raw):,}, within its header: {end:,} are needed")
        found, self.at = self.raw[self.at : end], end
        return found

    def numbers(self, code: str, count: int) -> tuple[Any, ...]:
        size = struct.calcsize(f"<{code}")
        return struct.unpack(f"<{count}{code}", self.take(count * size)) if count else ()

    def number(self, code: str) -> Any:
        return self.numbers(code, 1)[0]

    def text(self) -> str:
        return str(self.take(self.number("Q")), "utf-8")

    def value(self, kind: int, depth: int = 0) -> Any:
        if kind == _STRING:
            return self.text()
        if kind in _SCALARS:
            return self.number(_SCALARS[kind])
        if kind != _ARRAY or depth >= _DEEPEST:
            raise Damaged(f"a value is of kind {kind}, which is not known")
        inner, count = self.number("I"), self.number("Q")
        if inner in _SCALARS:
            return list(self.numbers(_SCALARS[inner], count))
        if count > len(self.raw):
            raise Damaged(f"a list has {count:,} members, more than the file has bytes")
        if inner == _STRING:
            return self.texts(count)
        return [self.value(inner, depth + 1) for _ in range(count)]

    def texts(self, count: int) -> list[str]:
        """So many texts, as `text` reads each: a vocabulary has 100,000 of them."""
        raw, at, end, found = self.raw, self.at, len(self.raw), list[str]()
        for _ in range(count):
            begin = at + _LENGTH.size
            at = begin + _LENGTH.unpack_from(raw, at)[0] if begin <= end else end + 1
            if at > end:
                return [*found, self.text()]  # which raises
            found.append(str(raw[begin:at], "utf-8"))
            self.at = at
        return found

    def tensor(self) -> Place:
        axes = self.number("I")
        shape = tuple(reversed(self.numbers("Q", axes)))
        if math.prod(shape) > 2**62:
            raise Damaged(f"a tensor has shape {shape}")
        packing, begin = self.number("I"), self.number("Q")
        return Place(shape, packing, begin)
