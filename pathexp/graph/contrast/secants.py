"""Slopes between two points, Δf/Δz, in closed forms that divide by no difference.

A quotient of differences loses all digits where two runs nearly agree. The forms here do not: each is the
derivative where the two points are one, each is the same to the last bit when the points change places, and each
stays within about 1e-15 of the true value. Logarithmic mean: Ang 2004, "Decomposition analysis for policymaking in
energy"; slopes between two runs: Shrikumar et al. 2017, "Learning Important Features Through Propagating Activation
Differences".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from ...model.activations import GATES, QUICK, gelu_gate
from ..operators import Array

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_TANH_SCALE, _TANH_CUBIC = math.sqrt(2 / math.pi), 0.044715


def shrink(t: Array) -> Array:
    """Return (1 − e^(−t)) / t for t ≥ 0; 1 at 0.

    >>> shrink(np.array([0.0, 1e-20, 1000.0])).tolist()
    [1.0, 1.0, 0.001]
    """
    return np.divide(-np.expm1(-t), t, out=np.ones_like(t), where=t > 0)


def logarithmic_mean(a: Array, b: Array, gap: Array) -> Array:
    """Return (a − b) / (ln a − ln b) of probabilities, from the larger of them and `gap` = ln a − ln b.

    Where one of them has underflowed to zero the gap still says how small it was.

    >>> logarithmic_mean(np.array([0.5, 1.0]), np.array([0.5, 0.0]), np.array([0.0, 1000.0])).tolist()
    [0.5, 0.001]
    """
    return np.maximum(a, b) * shrink(np.abs(gap))


def scale_slope(s: Array, t: Array) -> Array:
    """Return Δs / Δm for s = (m + ε)^(−1/2), from both values of s: −s² t² / (s + t).

    >>> scale_slope(np.array([1.0]), np.array([0.5])).round(4).tolist()  # m + ε = 1 and 4
    [-0.1667]
    """
    of_content, of_middle = scale_slopes(s, t)
    return of_content * of_middle


def scale_slopes(s: Array, t: Array) -> tuple[Array, Array]:
    """Return two factors of Δs / Δm that stay in range where their product does not: −s t / (s + t) and s t.

    >>> [float(factor[0]) for factor in scale_slopes(np.array([1e-100]), np.array([1e-100]))]
    [-5e-101, 1e-200]
    """
    return -(s * t) / (s + t), s * t


def tanh_slope(a: Array, b: Array) -> Array:
    """Return Δtanh / Δz between a and b; 1 − tanh² where they are equal.

    >>> tanh_slope(np.array([0.0, 40.0]), np.array([0.0, -40.0])).tolist()
    [1.0, 0.025]
    """
    left, right = np.exp(-2 * np.abs(a)), np.exp(-2 * np.abs(b))
    decay = np.where((a > 0) == (b > 0), np.maximum(left, right), 1.0)  # e^(|a - b| - |a| - |b|)
    return np.asarray(4 * decay * shrink(2 * np.abs(a - b)) / ((1 + left) * (1 + right)))


def cap_slope(a: Array, b: Array, cap: float) -> Array:
    """Return the slope of cap · tanh(z / cap) between two points.

    >>> cap_slope(np.array([0.0]), np.array([0.0]), 30.0).tolist()
    [1.0]
    """
    return tanh_slope(a / cap, b / cap)


def gate_part(activation: str, a: Array, b: Array) -> Array:
    """Return z̄ Δg/Δz for an activation z g(z): how much of its slope is due to the gate g.

    The other part is the gate's mean ḡ; together they are the slope Δ(z g)/Δz.

    >>> float(gate_part("relu", np.array([3.0]), np.array([-1.0]))[0])
    0.25
    """
    if activation == "relu":
        return _relu_gate_part(a, b)
    if activation == "tanh":
        return tanh_slope(a, b) - mean_gate(activation, a, b)
    return (a + b) / 2 * _GATE_SLOPES[activation](a, b)


def mean_gate(activation: str, a: Array, b: Array) -> Array:
    """Return the mean of an activation's gate at two points."""
    gate = GATES[activation]
    return (gate(a) + gate(b)) / 2


def clip_slope(limit: float, a: Array, b: Array) -> Array:
    """Return the slope between two points of what is clipped to ± limit.

    >>> clip_slope(1.0, np.array([0.5, 3.0, 2.0]), np.array([-0.5, 1.0, 4.0])).tolist()
    [1.0, 0.0, 0.0]
    """
    return _relu_slope(a + limit, b + limit) - _relu_slope(a - limit, b - limit)


def ceiling_slope(limit: float, a: Array, b: Array) -> Array:
    """Return the slope between two points of what is capped at a limit from above.

    >>> ceiling_slope(1.0, np.array([0.5, 3.0]), np.array([-7.0, 0.0])).round(4).tolist()
    [1.0, 0.3333]
    """
    return _relu_slope(limit - a, limit - b)


def activation_slope(activation: str, a: Array, b: Array) -> Array:
    """Return Δact/Δz between two points, for the activations of `pathexp.model.activations`.

    >>> activation_slope("relu", np.array([3.0, 2.0, -1.0]), np.array([-1.0, 5.0, -2.0])).tolist()
    [0.75, 1.0, 0.0]
    """
    if activation == "relu":
        return _relu_slope(a, b)
    if activation == "tanh":
        return tanh_slope(a, b)
    if activation == "relu2":  # the two parts cancel where one point is far below zero
        return (np.maximum(a, 0.0) + np.maximum(b, 0.0)) * _relu_slope(a, b)
    return mean_gate(activation, a, b) + gate_part(activation, a, b)


def _relu_slope(a: Array, b: Array) -> Array:
    larger, opposite = np.maximum(a, b), (a > 0) != (b > 0)
    share = np.divide(larger, np.abs(a - b), out=np.zeros_like(larger), where=opposite)
    return np.where(opposite, share, (a > 0).astype(np.float64))


def _relu_gate_part(a: Array, b: Array) -> Array:
    opposite = (a > 0) != (b > 0)
    return np.divide((a + b) / 2, np.abs(a - b), out=np.zeros_like(a), where=opposite)


def _silu_gate_slope(a: Array, b: Array) -> Array:
    return tanh_slope(a / 2, b / 2) / 4


def _gelu_tanh_gate_slope(a: Array, b: Array) -> Array:
    bent = [_TANH_SCALE * (z + _TANH_CUBIC * z**3) for z in (a, b)]
    inner = _TANH_SCALE * (1 + _TANH_CUBIC * (a * a + b * b + a * b))
    return tanh_slope(*bent) * inner / 2


def _gelu_gate_slope(a: Array, b: Array) -> Array:
    """The mean normal density between two points: by quadrature where they are near, else by its integral."""
    gap = np.abs(a - b)
    far = gap > 2
    slope = _mean_density((a + b) / 2, np.where(far, 0.0, gap / 2))
    slope[far] = _mass(np.minimum(a, b)[far], np.maximum(a, b)[far]) / gap[far]
    return slope


def _mean_density(middle: Array, half: Array) -> Array:
    total = np.zeros_like(middle)
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        total += weight * np.exp(-((middle + half * node) ** 2) / 2)
    return total / (2 * math.sqrt(2 * math.pi))


def _mass(low: Array, high: Array) -> Array:
    """The normal probability between two points, taken in the tail where it is small."""
    right = low > 0
    low, high = np.where(right, -high, low), np.where(right, -low, high)
    return gelu_gate(high) - gelu_gate(low)


_GATE_SLOPES: Mapping[str, Callable[[Array, Array], Array]] = {
    "quick_gelu": lambda a, b: QUICK * _silu_gate_slope(QUICK * a, QUICK * b),
    "relu2": _relu_slope,
    "silu": _silu_gate_slope,
    "gelu_tanh": _gelu_tanh_gate_slope,
    "gelu": _gelu_gate_slope,
}
