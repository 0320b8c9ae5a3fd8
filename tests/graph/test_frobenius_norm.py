"""Frobenius norms of words of factors, beside those of their products."""

from __future__ import annotations

import numpy as np
import pytest

from pathexp.algebra import Dense, Diagonal, Identity, LinearMap, Space, compose
from pathexp.graph import frobenius_norm
from pathexp.graph.measures import product_norm

WIDE, TALL = Space("wide", 7), Space("tall", 30)
RNG = np.random.default_rng(0)
W = Dense(RNG.standard_normal((30, 7)), TALL, WIDE, "W")
RIGHT, LEFT = Diagonal(RNG.standard_normal(7), WIDE), Diagonal(RNG.standard_normal(30), TALL)
NARROW = compose(
    Dense(RNG.standard_normal((30, 2)), TALL, Space("two", 2)),
    Dense(RNG.standard_normal((2, 7)), Space("two", 2), WIDE),
)
WORDS = {
    "W": W, "Wᵀ": W.T, "W G": compose(W, RIGHT), "G W": compose(LEFT, W), "G W G": compose(LEFT, W, RIGHT), "2 W": 2.0 * W,
    "2 W G": 2.0 * compose(W, RIGHT), "-W": -W, "G": RIGHT, "I": Identity(WIDE), "narrow": NARROW, "narrow G": compose(NARROW, RIGHT), "W + W": W + W,
}  # fmt: skip


@pytest.mark.parametrize("word", WORDS)
def test_it_is_that_of_the_product(word: str) -> None:
    assert frobenius_norm(WORDS[word]) == pytest.approx(np.linalg.norm(WORDS[word].dense()), rel=1e-12)


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1e160, 1e300])
@pytest.mark.parametrize(
    "make", [lambda map: map, lambda map: compose(map, RIGHT), lambda map: compose(LEFT, map)]
)
def test_extreme_sizes_neither_vanish_nor_overflow(make: object, size: float) -> None:
    plain: LinearMap = make(W)  # type: ignore[operator]
    scaled: LinearMap = make(Dense(size * W.array, TALL, WIDE))  # type: ignore[operator]
    assert frobenius_norm(scaled) / size == pytest.approx(frobenius_norm(plain), rel=1e-12)


@pytest.mark.parametrize("array", [np.zeros((3, 2)), np.array([[5e-324, 0.0], [0.0, 0.0], [0.0, 0.0]]),
                                   np.array([[1e300, 1e-300], [0.0, 0.0], [0.0, 0.0]])])  # fmt: skip
def test_zeros_and_denormals(array: np.ndarray) -> None:
    map = Dense(array, Space("a", 3), Space("b", 2))
    assert frobenius_norm(map) == np.abs(array).max()


@pytest.mark.parametrize("sizes", [(1e-200, 1e150), (1e-200, 1.0), (1e200, 1e-150), (1.0, 1.0), (1e-4, 1e3)])
def test_norms_of_products_of_any_size(sizes):
    left, right = RNG.standard_normal((2, 5, 3)), RNG.standard_normal((2, 3, 6))
    found = product_norm(sizes[0] * left, sizes[1] * right)
    np.testing.assert_allclose(
        found, np.linalg.norm(left @ right, axis=(1, 2)) * sizes[0] * sizes[1], rtol=1e-12
    )
