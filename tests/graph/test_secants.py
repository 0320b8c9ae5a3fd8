"""Slopes between two points against arithmetic of sixty digits, where quotients of differences lose theirs."""

import mpmath
import numpy as np
import pytest

from pathexp.graph.contrast import secants

mp = mpmath.mp
GAPS = (0.0, 1e-300, 1e-16, 1e-12, 1e-9, 1e-5, 1e-2, 0.5, 1.9, 2.1, 7.0, 30.0)
PLACES = (-40.0, -9.3, -2.0, -1.2784645427610738, -0.3, 0.0, 1e-8, 0.7, 3.0, 11.0, 38.0)
A, B = (grid.reshape(-1) for grid in np.meshgrid(PLACES, GAPS))
B = A + B * np.where(np.arange(len(A)) % 2, 1.0, -1.0)
K = mpmath.mpf("0.044715")
EXACT = {
    "relu": lambda z: max(z, mpmath.mpf(0)),
    "quick_gelu": lambda z: z / (1 + mpmath.exp(-mpmath.mpf(1.702) * z)),
    "relu2": lambda z: max(z, mpmath.mpf(0)) ** 2,
    "gelu": lambda z: z * mpmath.ncdf(z),
    "gelu_tanh": lambda z: z * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (z + K * z**3))) / 2,
    "tanh": mpmath.tanh,
    "silu": lambda z: z / (1 + mpmath.exp(-z)),
}
GATES = {
    "relu": lambda z: mpmath.mpf(z > 0),
    "quick_gelu": lambda z: 1 / (1 + mpmath.exp(-mpmath.mpf(1.702) * z)),
    "relu2": lambda z: max(z, mpmath.mpf(0)),
    "gelu": mpmath.ncdf,
    "gelu_tanh": lambda z: (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (z + K * z**3))) / 2,
    "tanh": lambda z: mpmath.tanh(z) / z if z else mpmath.mpf(1),
    "silu": lambda z: 1 / (1 + mpmath.exp(-z)),
}


def slope(f, a, b):
    a, b = mpmath.mpf(float(a)), mpmath.mpf(float(b))
    return (f(a) - f(b)) / (a - b) if a != b else mpmath.diff(f, a, h=mpmath.mpf(10) ** -150)


def exact(f, a, b):
    with mpmath.workdps(400):  # quotients need many digits: the gaps go down to 1e-300
        return np.array([float(slope(f, x, y)) for x, y in zip(a, b, strict=True)])


def test_tanh():
    np.testing.assert_allclose(secants.tanh_slope(A, B), exact(mpmath.tanh, A, B), rtol=2e-14, atol=1e-300)


@pytest.mark.parametrize("name", EXACT)
def test_activations(name):
    keep = A != B if name == "relu" else slice(None)
    found, true = secants.activation_slope(name, A[keep], B[keep]), exact(EXACT[name], A[keep], B[keep])
    assert np.max(np.abs(found - true) / np.maximum(1.0, np.abs(true))) < 1.2e-15


@pytest.mark.parametrize("name", EXACT)
def test_value_and_gate_parts_add_up(name):
    parts = secants.mean_gate(name, A, B) + secants.gate_part(name, A, B)
    rounding = 4e-16 * (
        np.maximum(np.abs(A), np.abs(B)).clip(1) if name == "relu2" else 1.0
    )  # its gate has no limit
    assert (np.abs(parts - secants.activation_slope(name, A, B)) <= rounding).all()
    apart = np.abs(A - B) > 1e-12
    middle = (A + B)[apart] / 2
    gates = middle * exact(GATES[name], A[apart], B[apart])
    np.testing.assert_allclose(secants.gate_part(name, A, B)[apart], gates, atol=3e-15, rtol=1e-15)


def test_relu_at_one_point_is_its_derivative():
    z = np.array([-2.0, -0.0, 0.0, 3.0])
    assert secants.activation_slope("relu", z, z).tolist() == [0, 0, 0, 1]
    assert secants.gate_part("relu", z, z).tolist() == [0, 0, 0, 0]


def test_caps():
    for cap in (0.5, 30.0):
        found = secants.cap_slope(A, B, cap)
        np.testing.assert_allclose(
            found, exact(lambda z, c=cap: c * mpmath.tanh(z / c), A, B), rtol=1e-13, atol=1e-300
        )


def test_scales_of_norms():
    m, n = np.abs(A) ** 3 + 1e-8, np.abs(B) ** 3 + 1e-8
    found = secants.scale_slope(m**-0.5, n**-0.5)
    np.testing.assert_allclose(found, exact(lambda z: z**-0.5, m, n), rtol=1e-14)


def test_logarithmic_means():
    """Between probabilities e^(−x), also where one of them is too small for double precision."""
    x, y = (
        np.abs(A),
        np.abs(A)
        + np.array([0, 1e-300, 1e-14, 1e-9, 1e-3, 1, 20, 800, 1500, 3, 0.1])[np.arange(len(A)) % 11],
    )
    with mpmath.workdps(60):
        pairs = [(mpmath.mpf(float(s)), mpmath.mpf(float(t))) for s, t in zip(x, y, strict=True)]
        means = [
            float((mpmath.exp(-s) - mpmath.exp(-t)) / (t - s) if s != t else mpmath.exp(-s)) for s, t in pairs
        ]
    found = secants.logarithmic_mean(np.exp(-x), np.exp(-y), y - x)
    np.testing.assert_allclose(found, means, rtol=4e-15)
    assert secants.logarithmic_mean(np.array([1.0]), np.array([0.0]), np.array([1000.0])).tolist() == [1e-3]


def test_every_slope_is_symmetric_to_the_last_bit():
    slopes = [
        secants.tanh_slope,
        *(lambda a, b, n=name: secants.activation_slope(n, a, b) for name in EXACT),
        *(lambda a, b, n=name: secants.gate_part(n, a, b) for name in EXACT),
        lambda a, b: secants.cap_slope(a, b, 2.0),
        lambda a, b: secants.scale_slope(np.exp(a / 9), np.exp(b / 9)),
        lambda a, b: secants.logarithmic_mean(np.exp(-(a**2)), np.exp(-(b**2)), b**2 - a**2),
    ]
    for of in slopes:
        np.testing.assert_array_equal(of(A, B), of(B, A))
