"""How an array is laid out, in words: "(head d_head) d_model" is one axis of heads side by side, and one of the stream.

As in einops (Rogozhnikov 2022): names in parentheses are one axis, the last of them counts fastest. Two ways are known in
which one array holds several of ours: "head+kv_head+kv_head", one after another along that axis; and "part", an axis
that counts them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from ...errors import LoadError
from ..config import Config
from ..weights import Shape, expected

Array = npt.NDArray[np.float64]

PART = "part"
_D, _H, _G, _M = ("d_model",), ("head", "d_head"), ("kv_head", "d_head"), ("d_mlp",)
_EXPERT, _SHARED = ("d_expert",), ("d_shared",)
_OURS: Mapping[str, tuple[str, ...]] = {
    "W_E": (*_D, "vocab"), "W_pos": (*_D, "ctx"), "W_U": ("out", *_D), "b_U": ("out",),
    "W_transform": ("d_target", *_D), "b_transform": _D, "sinks": ("layer", "head"),
    "W_Q": ("layer", *_H, *_D), "W_K": ("layer", *_G, *_D), "W_V": ("layer", *_G, *_D),
    "W_O": ("layer", "head", *_D, "d_head"), "b_Q": ("layer", *_H), "b_K": ("layer", *_G), "b_V": ("layer", *_G),
    "b_O": ("layer", *_D), "W_in": ("layer", *_M, *_D), "W_gate": ("layer", *_M, *_D), "W_out": ("layer", *_D, *_M),
    "b_in": ("layer", *_M), "b_gate": ("layer", *_M), "b_out": ("layer", *_D),
    "W_router": ("layer", "expert", *_D), "b_router": ("layer", "expert"), "b_choice": ("layer", "expert"),
    "W_in_experts": ("layer", "expert", *_EXPERT, *_D), "W_gate_experts": ("layer", "expert", *_EXPERT, *_D),
    "W_out_experts": ("layer", "expert", *_D, *_EXPERT), "b_in_experts": ("layer", "expert", *_EXPERT),
    "b_gate_experts": ("layer", "expert", *_EXPERT), "b_out_experts": ("layer", "expert", *_D),
    "W_in_shared": ("layer", *_SHARED, *_D), "W_gate_shared": ("layer", *_SHARED, *_D),
    "W_out_shared": ("layer", *_D, *_SHARED), "b_in_shared": ("layer", *_SHARED), "b_gate_shared": ("layer", *_SHARED),
    "b_out_shared": ("layer", *_D), "W_shared_gate": ("layer", *_D), "b_shared_gate": ("layer",),
    "W_DKV": ("layer", "d_latent", *_D), "b_DKV": ("layer", "d_latent"), "g_kv_latent": ("layer", "d_latent"),
    "W_KR": ("layer", "d_turned", *_D), "b_KR": ("layer", "d_turned"), "W_UK": ("layer", "head", "d_own", "d_latent"),
    "W_UV": ("layer", "head", "d_value", "d_latent"), "W_DQ": ("layer", "d_query_latent", *_D),
    "b_DQ": ("layer", "d_query_latent"), "g_q_latent": ("layer", "d_query_latent"), "W_UQ": ("layer", *_H, "d_query_latent"),
}  # fmt: skip
_OF_HEADS = {"q": "head", "k": "kv_head"}
_ALIKE = {"head": "kv_head", "vocab": "out"}
"""Names that mean each other where their sizes are equal."""

_AXIS = re.compile(r"\(([^()]*)\)|([^\s()]+)")


def our_axes(name: str, shape: Shape, latent: bool = False) -> tuple[str, ...]:
    """The axes of one of our arrays; norms of queries and keys have two or three. ``latent``: W_O reads values of a width of their own.

    >>> our_axes("W_O", (2, 4, 32, 8)), our_axes("g_q", (2, 8))
    (('layer', 'head', 'd_model', 'd_head'), ('layer', 'd_head'))
    """
    if latent and name == "W_O":
        return ("layer", "head", *_D, "d_value")
    if name in _OURS:
        return _OURS[name]
    kind = name.split("_", 1)[1]
    if kind in _OF_HEADS:
        return ("layer", "d_head") if len(shape) == 2 else ("layer", _OF_HEADS[kind], "d_head")
    return _D if len(shape) == 1 else ("layer", *_D)


def axis_sizes(config: Config) -> dict[str, int]:
    """The size of every axis that the arrays of a configuration have, by name."""
    places = {name: place.shape for name, place in expected(config).items()}
    return {
        axis: size
        for name, shape in places.items()
        for axis, size in zip(our_axes(name, shape, config.latent is not None), shape, strict=True)
    }


@dataclass(frozen=True)
class Layout:
    """Axes of one array of theirs, outer first, each a group of names; ``text`` is how they were written.

    >>> layout = Layout.read("(head+head d_head) d_model")
    >>> layout.groups, layout.shape({"head": 2, "d_head": 3, "d_model": 5}, 2)
    ((('head+head', 'd_head'), ('d_model',)), (12, 5))
    """

    text: str
    groups: tuple[tuple[str, ...], ...]

    @classmethod
    def read(cls, text: str) -> Layout:
        """Read axes as they are written. Raises LoadError where parentheses are open, nested or empty."""
        groups = tuple((plain,) if plain else tuple(group.split()) for group, plain in _AXIS.findall(text))
        if _AXIS.sub("", text).strip() or not all(groups):
            raise LoadError(f"axes {text!r:.80}: expected names and groups such as '(head d_head) d_model'.")
        return cls(text, groups)

    @property
    def names(self) -> tuple[str, ...]:
        """All names, outer ones first."""
        return tuple(name for group in self.groups for name in group)

    @property
    def shared(self) -> str | None:
        """The axis along which several of our arrays stand, if there is one."""
        return next((name for name in self.names if name == PART or "+" in name), None)

    def problem(self, ours: Mapping[str, tuple[str, ...]], sizes: Mapping[str, int]) -> str:
        """Return what is wrong with these axes for one or several of our arrays, by name; nothing where they fit."""
        unknown = [each for name in self.names for each in name.split("+") if each not in (*sizes, PART)]
        if unknown:
            return f"{unknown[0]!r} is no axis of this model; its axes: {', '.join(sizes)}"
        several = [name for name in self.names if name == PART or "+" in name]
        if len(several) != (len(ours) > 1):
            return f"{len(ours)} arrays in one need one axis such as 'head+head+head' or 'part'; found {len(several)}"
        if several and several[0] != PART and several[0].count("+") + 1 != len(ours):
            return f"{several[0]!r} has {several[0].count('+') + 1} parts for {len(ours)} arrays"
        for index, (name, axes) in enumerate(ours.items()):
            found = self.of(index, axes, sizes)
            if sorted(found) != sorted(axes):
                return f"{name} has the axes {' '.join(axes)}; found {' '.join(found)}"
        return ""

    def of(self, index: int, axes: tuple[str, ...], sizes: Mapping[str, int]) -> list[str]:
        """The names of the axes of one of several arrays, in the words of its own ``axes`` where they mean the same."""
        names = [name.split("+")[index] if "+" in name else name for name in self.names if name != PART]
        return [_alike(name, axes, sizes) for name in names]

    def shape(self, sizes: Mapping[str, int], count: int) -> Shape:
        """The shape that an array with these axes has, if ``count`` of ours are in it."""
        return tuple(prod(_size(name, sizes, count) for name in group) for group in self.groups)

    def part(
        self, raw: Array, index: int, count: int, axes: tuple[str, ...], sizes: Mapping[str, int]
    ) -> Array:
        """One of ``count`` arrays of ours in one of theirs, its axes in our order."""
        split = raw.reshape([_size(name, sizes, count) for name in self.names])
        for place, name in enumerate(self.names):
            if name == PART:
                split = np.take(split, index, axis=place)
            elif "+" in name:
                widths = [sizes[each] for each in name.split("+")]
                split = np.take(split, range(sum(widths[:index]), sum(widths[: index + 1])), axis=place)
        found = self.of(index, axes, sizes)
        return split.transpose([found.index(axis) for axis in axes])


def _size(name: str, sizes: Mapping[str, int], count: int) -> int:
    return count if name == PART else sum(sizes[each] for each in name.split("+"))


def _alike(name: str, axes: tuple[str, ...], sizes: Mapping[str, int]) -> str:
    other = _ALIKE.get(name)
    same = other in axes and name not in axes and sizes.get(name) == sizes.get(other or "")
    return str(other) if same else name
