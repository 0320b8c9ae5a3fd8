"""How the numbers of a GGUF tensor are packed, and unpacked: 4 and 8 bits here, all else through the package ``gguf``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import LoadError
from ...installation import install_command
from .checkpoint import Numbers, listed, not_numbers
from .gguf_blocks import BLOCKS
from .gguf_header import Damaged, Place

_OTHERS = {
    4: "Q4_2", 5: "Q4_3", 31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8", 36: "IQ4_NL_4_4", 37: "IQ4_NL_4_8", 38: "IQ4_NL_8_8",
    39: "MXFP4", 40: "NVFP4", 41: "Q1_0",
}  # fmt: skip
"""Packings that a version of the package may not know: taken away, or newer. ggml-org/ggml, include/ggml.h."""

_NAN_SCALES = {"MXFP4": (17, (0,), (0xFF,)), "NVFP4": (36, (0, 1, 2, 3), (0x7F, 0xFF))}
"""Bytes of a block, which of them are scales, and the scales that stand for no number: unpacked, they would pass for one."""


def name_of(package: Any, packing: int) -> str:
    """The name of a packing, as ggml has it; its number where no version is known to have it."""
    try:
        return str(package.GGMLQuantizationType(packing).name)
    except ValueError:
        return _OTHERS.get(packing, f"number {packing}")


def row_bytes(package: Any, place: Place) -> int:
    """How many bytes one row of a tensor takes. Raises Damaged for a packing that is not known, or a row of part blocks."""
    name = name_of(package, place.packing)
    if place.packing not in list(package.GGMLQuantizationType):
        raise Damaged(
            f"a tensor is packed as {name}, which this version of the package 'gguf' does not know: a newer one may "
            f"({install_command('gguf')} --upgrade), or the file must be made again as Q8_0 or F16"
        )
    block, size = package.GGML_QUANT_SIZES[package.GGMLQuantizationType(place.packing)]
    width = place.shape[-1] if place.shape else 1
    if width % block:
        raise Damaged(
            f"a tensor of shape {place.shape} has rows of no whole blocks of {block}, as {name} needs them"
        )
    return int(width // block * size)


def check_packings(package: Any, places: Mapping[str, Place], where: str) -> None:
    """Raises LoadError, by name, for tensors whose numbers cannot be had; no numbers are read."""
    for packing in sorted({place.packing for place in places.values()}):
        names = [name for name, place in places.items() if place.packing == packing]
        form = name_of(package, packing)
        if re.fullmatch(r"I\d+", form):  # integers, not IQ4_NL and its like
            raise not_numbers(names[0], form, where)
        if form != "F64" and not _unpacks(package, packing):
            raise LoadError(
                f"Cannot load {where}: {listed(names)} packed as {form}, which the package 'gguf' cannot unpack. "
                "Make the file again as Q8_0 or F16, with llama-quantize."
            )


def _unpacks(package: Any, packing: int) -> bool:
    """Whether the package unpacks one block of zeros."""
    form = package.GGMLQuantizationType(packing)
    size = package.GGML_QUANT_SIZES[form][1]
    try:
        package.quants.dequantize(np.zeros((1, size), dtype=np.uint8), form)
    except NotImplementedError:
        return False
    return True


def unpacked(package: Any, raw: NDArray[np.uint8], packing: int) -> Numbers:
    """The numbers of packed bytes, as one row: the package takes 16 rows at a time, which is slow.

    Raises ValueError for a scale that stands for no number.
    """
    form = package.GGMLQuantizationType(packing)
    if form.name == "F64":
        return raw.view("<f8")
    _check_scales(form.name, raw)
    with np.errstate(over="ignore", invalid="ignore"):  # told as numbers that are not finite
        if form.name in BLOCKS:
            return BLOCKS[form.name](raw).reshape(-1)
        numbers: Numbers = np.asarray(package.quants.dequantize(raw[None], form))[0]
    return numbers


def _check_scales(name: str, raw: NDArray[np.uint8]) -> None:
    if name not in _NAN_SCALES:
        return
    size, places, none = _NAN_SCALES[name]
    wrong = np.isin(raw.reshape(-1, size)[:, places], none)
    if wrong.any():
        block = int(np.argwhere(wrong)[0][0])
        raise ValueError(f"block {block} of what was asked for has a scale that is not a number")
