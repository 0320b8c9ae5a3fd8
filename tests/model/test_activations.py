"""Activations against arithmetic of fifty digits."""

from __future__ import annotations

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest

from pathexp.model.activations import GATES

Z = np.concatenate([np.linspace(-9, 9, 181), [-37.0, -20.5, 0.0, -0.0, 1e-300, -1e-12, 1e-12, 20.5, 37.0]])
EXACT = {
    "relu": lambda z: mpmath.mpf(1 if z > 0 else 0),
    "quick_gelu": lambda z: 1 / (1 + mpmath.exp(-mpmath.mpf(1.702) * z)),
    "relu2": lambda z: max(z, mpmath.mpf(0)),
    "gelu": lambda z: mpmath.ncdf(z),
    "gelu_tanh": lambda z: (
        (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (z + mpmath.mpf("0.044715") * z**3))) / 2
    ),
    "tanh": lambda z: mpmath.tanh(z) / z if z else mpmath.mpf(1),
    "silu": lambda z: 1 / (1 + mpmath.exp(-z)),
}


@pytest.mark.parametrize("name", GATES)
def test_activations_are_exact_to_the_last_digits(name: str) -> None:
    with mpmath.workdps(50):
        exact = [EXACT[name](mpmath.mpf(float(z))) * mpmath.mpf(float(z)) for z in Z]
        errors = [abs(mpmath.mpf(float(y)) - e) for y, e in zip(GATES[name](Z) * Z, exact, strict=True)]
    bounds = [1e-15 * max(1.0, abs(float(e))) for e in exact]
    assert all(error <= bound for error, bound in zip(errors, bounds, strict=True))


@pytest.mark.parametrize("name", ["gelu", "silu"])
def test_small_gates_keep_their_relative_accuracy(name: str) -> None:
    with mpmath.workdps(50):
        exact = np.array([float(EXACT[name](mpmath.mpf(float(z)))) for z in Z])
    np.testing.assert_allclose(GATES[name](Z), exact, rtol=1e-12)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", GATES)
def test_gates_have_limits(name: str) -> None:
    gate = GATES[name](np.array([-1e4, 0.0, 1e4]))
    ends = {"relu2": (0, 1e4), "tanh": (1e-4, 1e-4)}.get(name, (0, 1))
    assert (gate[0], gate[2]) == ends
    assert gate[1] == {"relu": 0, "relu2": 0, "tanh": 1}.get(name, 0.5)
    assert GATES[name](np.zeros((0, 3))).shape == (0, 3)
