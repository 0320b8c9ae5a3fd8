"""Activations as gates: act(z) = g(z) · z, so that a frozen g makes the neuron linear."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_erfc = np.frompyfunc(math.erfc, 1, 1)


def relu_gate(z: Array) -> Array:
    """1 above zero, 0 elsewhere."""
    return (z > 0).astype(np.float64)


def relu2_gate(z: Array) -> Array:
    """z above zero, 0 elsewhere: z times it is the squared ReLU.

    So et al. 2021, "Primer", section 3.

    >>> relu2_gate(np.array([-1.0, 0.0, 3.0])).tolist()
    [0.0, 0.0, 3.0]
    """
    return np.maximum(z, 0.0)


def gelu_gate(z: Array) -> Array:
    """The normal distribution function at z, to full relative accuracy: GELU is z times it.

    Hendrycks and Gimpel 2016, section 2.

    >>> gelu_gate(np.array([0.0, 1.0, -10.0]))
    array([5.00000000e-01, 8.41344746e-01, 7.61985302e-24])
    """
    return 0.5 * np.asarray(_erfc(z / -math.sqrt(2)), dtype=np.float64)


def gelu_tanh_gate(z: Array) -> Array:
    """The tanh approximation of ``gelu_gate``, as GPT-2 has it.

    >>> gelu_tanh_gate(np.array([0.0, 1.0])).round(6).tolist()
    [0.5, 0.841192]
    """
    gate: Array = 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)))
    return gate


def silu_gate(z: Array) -> Array:
    """The logistic function of z, without overflow: SiLU is z times it.

    >>> silu_gate(np.array([0.0, -1000.0, 1000.0])).tolist()
    [0.5, 0.0, 1.0]
    """
    shrunk = np.abs(z, out=np.empty(np.shape(z)))
    np.exp(np.negative(shrunk, out=shrunk), out=shrunk)
    gate: Array = np.where(z >= 0, 1.0, shrunk)
    shrunk += 1
    gate /= shrunk
    return gate


def tanh_gate(z: Array) -> Array:
    """tanh(z) / z, 1 at zero.

    >>> tanh_gate(np.array([0.0, 20.0])).round(6).tolist()
    [1.0, 0.05]
    """
    return np.divide(np.tanh(z), z, out=np.ones_like(z), where=z != 0)


QUICK = 1.702
"""The factor inside the quick approximation of GELU: Hendrycks and Gimpel 2016, section 2."""


def quick_gelu_gate(z: Array) -> Array:
    """The logistic function of 1.702 z: GELU approximated by z times it.

    >>> quick_gelu_gate(np.array([0.0, 1.0])).round(6).tolist()
    [0.5, 0.845796]
    """
    return silu_gate(QUICK * z)


GATES: Mapping[str, Callable[[Array], Array]] = {
    "relu": relu_gate,
    "relu2": relu2_gate,
    "gelu": gelu_gate,
    "gelu_tanh": gelu_tanh_gate,
    "quick_gelu": quick_gelu_gate,
    "silu": silu_gate,
    "tanh": tanh_gate,
}
