"""Eigenvectors of maps that equal their transpose: real and orthonormal, whatever their factors, equal eigenvalues included."""

from __future__ import annotations

import numpy as np
import pytest

from pathexp.algebra import Dense, Identity, Space, Zero, compose, eigenvectors

KINDS = ("dense", "square", "gram", "projector", "repeated", "chain", "scaled apart", "deficient")


def drawn(kind, seed):
    """A symmetric map, the wide and the narrow ones by their factors."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(4, 30))
    r = int(rng.integers(1, d))
    s, w = Space("s", d), Space("w", r)
    Q, P = (np.linalg.qr(rng.standard_normal(shape))[0] for shape in ((d, r), (r, r)))
    C, B, A = P @ np.diag(rng.choice([1.0, -1, 2], r)) @ P.T, *map(rng.standard_normal, ((d, r), (d, d)))
    C = (C + C.T) / 2
    match kind:
        case "dense":
            return Dense(A + A.T, s, s)
        case "square":
            return compose(Dense(A, s, s), Dense(np.diag(np.sign(A[0])), s, s), Dense(A.T, s, s))
        case "gram":
            return compose(Dense(B, s, w), Dense(B.T, w, s))
        case "projector":
            return compose(Dense(Q, s, w), Dense(Q.T, w, s))
        case "repeated":
            return compose(Dense(Q, s, w), Dense(C, w, w), Dense(Q.T, w, s))
        case "chain":
            return compose(Dense(A, s, s), Dense(Q, s, w), Dense(C, w, w), Dense(Q.T, w, s), Dense(A.T, s, s))
        case "scaled apart":
            return compose(Dense(B * 1e150, s, w), Dense(B.T * 1e-150, w, s))
    return compose(Dense(np.repeat(B[:, :1], r, axis=1), s, w), Dense(np.repeat(B[:, :1], r, axis=1).T, w, s))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(12))
def test_symmetric_maps_have_real_orthonormal_eigenvectors(kind, seed):
    map = drawn(kind, seed)
    values, right = eigenvectors(map)
    dense = map.dense()
    size = np.abs(dense).max()
    assert not right.imag.any() and not values.imag.any()
    np.testing.assert_allclose(right.real.T @ right.real, np.eye(len(values)), atol=1e-12)
    np.testing.assert_allclose(dense @ right.real / size, right.real * (values.real / size), atol=1e-11)
    np.testing.assert_allclose((right.real * values.real) @ right.real.T / size, dense / size, atol=1e-11)
    assert list(np.abs(values)) == sorted(np.abs(values), reverse=True)


@pytest.mark.parametrize("share", [1e-3, 1e-6, 1e-9, 1e-11])
def test_what_is_off_by_more_than_rounding_is_not_taken_for_symmetric(share):
    """Eigenvalues 1 and 1 of a map that is not symmetric: its eigenvectors are not orthonormal, and are not made so."""
    rng = np.random.default_rng(0)
    s, w = Space("s", 8), Space("w", 2)
    Q = np.linalg.qr(rng.standard_normal((8, 2)))[0]
    C = np.array([[1.0, share], [0.0, 1.0 + share]])
    values, right = eigenvectors(compose(Dense(Q, s, w), Dense(C, w, w), Dense(Q.T, w, s)))
    np.testing.assert_allclose(np.sort(values.real), [1, 1 + share], rtol=1e-13)
    assert abs(right[:, 0].conj() @ right[:, 1]) > 0.5


def test_nothing_and_identity():
    s = Space("s", 5)
    assert eigenvectors(Zero(s, s)).right.shape == (5, 0)
    np.testing.assert_array_equal(eigenvectors(Identity(s)).right, np.eye(5))
