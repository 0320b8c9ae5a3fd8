"""Named tensors as a file holds them: shapes at once, numbers when asked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ...errors import LoadError

Numbers = npt.NDArray[np.floating[Any]]
Shape = tuple[int, ...]

_QUANTIZED = re.compile(
    r"\.(qweight|qzeros|scales|g_idx|weight_scale(_inv)?|weight_packed|absmax|quant_map|SCB|scb|quant_state.*)$"
)


class Checkpoint(Protocol):
    """Named tensors, wherever they are."""

    @property
    def where(self) -> str:
        """The file or object, for messages."""

    @property
    def shapes(self) -> Mapping[str, Shape]:
        """The shape of every tensor, by name; nothing is read."""

    @property
    def stays(self) -> bool:
        """Whether the numbers are those of a file that stays, so that they can be read when they are used."""

    def read(self, name: str) -> Numbers:
        """One tensor as half, single or double precision.

        Raises LoadError if it does not hold real numbers.
        """

    def rows(self, name: str, begin: int, end: int) -> Numbers:
        """Some rows of one tensor, as `read` gives them."""


@dataclass(frozen=True)
class Held:
    """A checkpoint of tensors that are in memory already: of torch, of numpy, or what numpy makes arrays of.

    >>> Held({"w": np.ones((2, 3))}, "a test").shapes
    {'w': (2, 3)}
    """

    tensors: Mapping[str, Any]
    where: str
    stays: bool = False
    """Its owner may write to them."""

    @property
    def shapes(self) -> Mapping[str, Shape]:
        """The shape of every tensor, by name."""
        return {name: _shape(tensor) for name, tensor in self.tensors.items()}

    def read(self, name: str) -> Numbers:
        """One tensor. Raises LoadError if it does not hold real numbers, or none at all (torch's device meta)."""
        tensor = self.tensors[name]
        if getattr(tensor, "is_meta", False):
            raise LoadError(
                f"Cannot load {self.where}: tensor {name!r} is on torch's device meta, which holds no numbers. Load "
                "the model with its weights first."
            )
        array = as_array(tensor)
        if array.dtype.kind != "f":
            raise not_numbers(name, str(array.dtype), self.where)
        return array

    def rows(self, name: str, begin: int, end: int) -> Numbers:
        """Some rows of one tensor."""
        return self.read(name)[begin:end]


def _shape(tensor: Any) -> Shape:
    return tuple(tensor.shape) if hasattr(tensor, "shape") else as_array(tensor).shape


def as_array(tensor: Any) -> npt.NDArray[Any]:
    """A tensor of torch, or anything numpy takes, as an array; floating tensors of torch come as float64."""
    if hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu()
        tensor = (tensor.double() if tensor.is_floating_point() else tensor).numpy()
    return np.asarray(tensor)


@dataclass(frozen=True)
class Renamed:
    """A checkpoint under other names: ``names`` maps ours to those of the checkpoint behind."""

    behind: Checkpoint
    names: Mapping[str, str]

    @property
    def where(self) -> str:
        """The file or object behind."""
        return self.behind.where

    @property
    def stays(self) -> bool:
        """Whether the numbers behind stay."""
        return self.behind.stays

    @cached_property
    def shapes(self) -> Mapping[str, Shape]:
        """The shape of every tensor, by its new name."""
        shapes = self.behind.shapes
        return {name: shapes[old] for name, old in self.names.items()}

    def read(self, name: str) -> Numbers:
        """One tensor by its new name."""
        return self.behind.read(self.names[name])

    def rows(self, name: str, begin: int, end: int) -> Numbers:
        """Some rows of one tensor by its new name."""
        return self.behind.rows(self.names[name], begin, end)


def not_numbers(name: str, dtype: str, where: str) -> LoadError:
    """The error for a tensor that is no plain real numbers."""
    return LoadError(
        f"Cannot load {where}: tensor {name!r} holds {dtype}, no plain real numbers. Packed or quantized "
        "weights mean nothing as they are; dequantize the checkpoint to float16, bfloat16 or float32 first."
    )


def refuse_quantized(names: Iterable[str], where: str) -> None:
    """Raises LoadError if tensors are packed integers with scales (GPTQ, AWQ, bitsandbytes and their like)."""
    packed = sorted(name for name in names if _QUANTIZED.search(name))
    if packed:
        raise LoadError(
            f"Cannot load {where}: it is quantized: {listed(packed)}. Packed integers and scales mean "
            "nothing as weights; dequantize the checkpoint to float16, bfloat16 or float32 first."
        )


def check_layers(layers: object, checkpoint: Checkpoint) -> None:
    """Raises LoadError if a configuration tells of more layers than there are tensors: nothing is that large."""
    if isinstance(layers, int) and layers > len(checkpoint.shapes):
        raise LoadError(
            f"Cannot load {checkpoint.where}: its configuration has {layers:,} layers, "
            f"but there are {len(checkpoint.shapes)} tensors in all."
        )


def listed(names: Iterable[object], most: int = 8) -> str:
    """Names for a message, the first few of them.

    >>> listed(["a", "b", "c"], most=2)
    "'a', 'b' and 1 more"
    """
    found = [repr(name) for name in names]
    rest = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + rest
