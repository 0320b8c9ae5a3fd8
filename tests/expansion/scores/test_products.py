"""The largest products of two lists of vectors: the same as by forming all of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pathexp as px
from pathexp.expansion.scores import products
from pathexp.expansion.scores.products import Vectors, largest_products, path_vectors
from tests.zoo import ZOO


def largest(left, right, k):
    return largest_products(*(Vectors(side, np.zeros(len(side)), side != 0) for side in (left, right)), k)


@given(
    seed=st.integers(0, 10**6), n=st.integers(1, 40), m=st.integers(1, 40), d=st.integers(1, 4),
    k=st.integers(1, 50), tile=st.sampled_from([1, 3, 512]),
)  # fmt: skip
def test_as_by_brute_force(seed, n, m, d, k, tile):
    rng = np.random.default_rng(seed)
    left, right = (rng.standard_normal((size, d)) * rng.exponential(size=(size, 1)) ** 3 for size in (n, m))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products, "TILE", tile)
        best, beyond, formed = largest(left, right, k)
    every = np.sort(np.abs(left @ right.T), axis=None)[::-1]
    brute = every[:k]
    assert beyond >= max(every[k:], default=0.0) * (1 - 1e-12)
    np.testing.assert_allclose([product.size for product in best], brute, rtol=1e-12)
    for product in best:
        np.testing.assert_allclose(
            product.value, left[product.left] @ right[product.right], rtol=1e-9, atol=1e-13
        )
    assert len({(product.left, product.right) for product in best}) == len(best) == min(k, n * m)
    assert formed <= n * m


def test_zeros_and_ties():
    best, *_ = largest(np.zeros((3, 2)), np.ones((2, 2)), 4)
    assert [product.value for product in best] == [0.0] * 4
    best, *_ = largest(np.ones((3, 2)), np.ones((2, 2)), 6)
    assert [(product.left, product.right) for product in best] == [(i, j) for i in range(3) for j in range(2)]


def test_most_products_are_never_formed(monkeypatch):
    monkeypatch.setattr(products, "TILE", 8)
    lengths = np.exp(-np.arange(400.0) / 10)[:, None]
    rng = np.random.default_rng(0)
    left, right = (lengths * rng.standard_normal((400, 6)) for _ in range(2))
    best, _, formed = largest(left, right, 5)
    assert formed < 400 * 400 / 50
    np.testing.assert_allclose(best[0].size, np.abs(left @ right.T).max())


def test_path_vectors_are_what_paths_bring():
    trace = ZOO["2L-gqa"]().run([1, 2, 3, 4])
    side = px.score(trace, "L1H1", query=3, key=2).keys
    vectors = path_vectors(side.walk, 2).values
    np.testing.assert_allclose(vectors, [term.logits()[2] for term in side], atol=1e-12)


def test_too_many_paths_are_refused():
    trace = px.random_model(layers=6, heads=10, d_head=2).run([1, 2])
    with pytest.raises(px.PathexpError, match=r"322,102 paths into Q are too many .*limit 200,000"):
        px.score(trace, "L5H0", query=1, key=0).top(3)
