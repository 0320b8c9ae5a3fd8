"""Weights of extreme size, brought near one: what does not depend on their scale is computed without overflow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..model import Model
from ..model.stored import BLOCK
from .cache import WeakCache
from .operators import Array

EXTREME = 40
"""Beyond 2 to the plus or minus this the largest entry of a weight counts as extreme."""


RESCALED: WeakCache[Model, Model | None] = WeakCache()
"""The rescaled models of the models that are alive; None for those without extreme weights."""


def rescaled(model: Model) -> Model:
    """Return a model with every matrix and gain over a power of two, its largest entry near one.

    Powers of two round nothing, so scores that do not depend on scale stay what they are, to the bit. A model
    without extreme weights is returned as it is. O(weights).
    """
    return RESCALED.get(model, EXTREME, lambda: _rescaled(model)) or model


def _rescaled(model: Model) -> Model | None:
    exponents = scales(model)
    if all((np.abs(each) <= EXTREME).all() for each in exponents.values()):
        return None
    arrays = model.weights.arrays()
    smaller = {name: np.ldexp(arrays[name], -each) for name, each in exponents.items()}
    return replace(model, weights=replace(model.weights, **smaller))


def scales(model: Model) -> dict[str, NDArray[np.int32]]:
    """The power of two of the largest entry of every matrix and every gain, zero for nothing but zeros."""
    return {
        name: _exponents(array, 1 if name.startswith("g_") else 2)
        for name, array in model.weights.arrays().items()
        if name.startswith(("W_", "g_"))
    }


def _exponents(array: Array, axes: int) -> NDArray[np.int32]:
    if array.ndim > 2 and len(
        array
    ):  # a layer at a time, so that no more of what is stored is raised at once
        return np.stack([_exponents(layer, axes) for layer in array])
    across = tuple(range(-axes, 0))
    largest, smallest = 0.0, 0.0
    for part in _strips(array):
        largest = np.maximum(part.max(axis=across, initial=0.0, keepdims=True), largest)
        smallest = np.minimum(part.min(axis=across, initial=0.0, keepdims=True), smallest)
    return np.asarray(np.frexp(np.maximum(largest, -smallest))[1], dtype=np.int32)


def _strips(array: Array) -> Iterator[Array]:
    """Yield a matrix by some rows or columns at a time: a table of many tokens is not raised whole."""
    if array.ndim < 2 or max(array.shape) <= BLOCK:
        yield array
        return
    for begin in range(0, max(array.shape), BLOCK):
        some = slice(begin, begin + BLOCK)
        yield array[:, some] if array.shape[1] > array.shape[0] else array[some]
