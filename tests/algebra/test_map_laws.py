"""Makers × laws: every kind of map against the dense array that numpy makes of it.

The zoo holds one of each kind and of each nesting with a rule of its own; beside it maps are drawn at random.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pathexp.algebra import (
    Chain,
    Diagonal,
    Identity,
    Scaled,
    Space,
    Zero,
    add,
    adjoint_gap,
    column,
    compose,
    diagonal,
    eigenvectors,
    entry,
    gain,
    rank,
    row,
    singular_values,
    top_entries,
    waist,
)
from pathexp.errors import PathexpError
from tests.algebra.drawn_maps import ZOO, dense, made_maps

LAWS, SQUARE_LAWS = {}, {}


def law(function):
    LAWS[function.__name__] = function
    return function


def square_law(function):
    SQUARE_LAWS[function.__name__] = function
    return function


def close(found, expected, tolerance):
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=tolerance)


@law
def dense_is_the_array(made, rng):
    assert made.map.shape == made.array.shape == (made.map.target.size, made.map.source.size)
    close(made.map.dense(), made.array, made.tolerance)


@law
def apply_takes_any_leading_axes(made, rng):
    for batch in [(), (1,), (4,), (7, 1), (2, 0, 3), (1, 1, 2)]:
        x = rng.normal(size=(*batch, made.map.source.size))
        before = x.copy()
        found = made.map.apply(x)
        assert found.shape == (*batch, made.map.target.size)
        close(found, x @ made.array.T, made.tolerance * 10)
        np.testing.assert_array_equal(x, before)


@law
def matmul_is_that_of_numpy(made, rng):
    m, n = made.map.shape
    for batch in [(), (4,), (3, 4), (2, 3, 4)]:
        right, left = rng.normal(size=(*batch[:-1], n, *batch[-1:])), rng.normal(size=(*batch, m))
        for found, expected in ((made.map @ right, made.array @ right), (left @ made.map, left @ made.array)):
            assert found.shape == expected.shape
            close(found, expected, made.tolerance * 10)


@law
def transpose(made, rng):
    assert (made.map.T.target, made.map.T.source) == (made.map.source, made.map.target)
    close(made.map.T.dense(), made.array.T, made.tolerance)
    close(made.map.T.T.dense(), made.array, made.tolerance)
    assert adjoint_gap(made.map, rng) < 1e-12


@law
def products_with_others(made, rng):
    before = dense(rng, made.map.source, made.map.target)
    tolerance = made.tolerance * before.size
    close((made.map @ before.map).dense(), made.array @ before.array, tolerance)
    close((before.map @ made.map).dense(), before.array @ made.array, tolerance)
    close((made.map @ before.map).T.dense(), (before.map.T @ made.map.T).dense(), tolerance)


@law
def products_with_itself(made, rng):
    product = compose(made.map, made.map.T, made.map)
    if isinstance(product, Chain):
        assert not any(isinstance(factor, Chain | Identity | Scaled | Zero) for factor in product.factors)
    close(product.dense(), made.array @ made.array.T @ made.array, made.tolerance * (1 + made.size**2) * 10)


@law
def sums_and_multiples(made, rng):
    other = dense(rng, made.map.target, made.map.source)
    tolerance = 1e-12 * (made.size + other.size)
    close((made.map + other.map).dense(), made.array + other.array, tolerance)
    close((other.map - made.map).dense(), other.array - made.array, tolerance)
    close(add(made.map, other.map, made.map).dense(), 2 * made.array + other.array, tolerance * 2)
    close((3 * made.map / 2).dense(), 1.5 * made.array, tolerance * 2)
    close((-made.map * np.float64(2)).dense(), -2 * made.array, tolerance * 2)


@law
def norm_and_gain(made, rng):
    expected = np.linalg.norm(made.array)
    assert made.map.norm() == pytest.approx(expected, rel=1e-9, abs=made.tolerance)
    mean_square = expected**2 / made.map.source.size
    assert gain(made.map) == pytest.approx(mean_square, rel=1e-9, abs=made.tolerance * made.size)


@law
def rank_bound_holds_and_is_the_waist(made, rng):
    left, right = waist(made.map)
    assert left.shape[1] == right.shape[0] == made.map.rank_bound <= min(made.map.shape)
    close(left @ right, made.array, made.tolerance)
    assert np.linalg.matrix_rank(made.array, tol=made.tolerance * 10) <= made.map.rank_bound


@law
def singular_values_are_those_of_the_array(made, rng):
    expected, found = np.linalg.svd(made.array, compute_uv=False), singular_values(made.map)
    assert np.all(np.diff(found) <= made.tolerance) and np.all(found >= 0)
    close(np.pad(found, (0, len(expected) - len(found))), expected, made.tolerance * 10)
    cut = made.tolerance * 100
    assert rank(made.map, cut) == int(np.sum(found > cut))


@law
def svd_rebuilds_with_fixed_signs(made, rng):
    U, S, Vh = made.map.svd()
    assert U.shape == (made.map.target.size, len(S)) and Vh.shape == (len(S), made.map.source.size)
    assert np.all(np.diff(S) <= made.tolerance)
    close(U * S @ Vh, made.array, made.tolerance * 10)
    close(U.T @ U, np.eye(len(S)), 1e-10)
    close(Vh @ Vh.T, np.eye(len(S)), 1e-10)
    assert all(np.max(u) >= (1 - 1e-8) * np.max(np.abs(u)) for u in U.T)


@law
def entries_rows_columns(made, rng):
    m, n = made.map.shape
    for i, j in zip(rng.integers(0, m, 4), rng.integers(0, n, 4), strict=True):
        assert entry(made.map, i, j) == pytest.approx(made.array[i, j], rel=1e-9, abs=made.tolerance)
        close(row(made.map, i), made.array[i], made.tolerance)
        close(column(made.map, j), made.array[:, j], made.tolerance)


@law
def top_entries_are_the_largest(made, rng):
    for largest, key in {"abs": np.abs, "positive": np.positive, "negative": np.negative}.items():
        k = int(rng.integers(1, 40))
        found = top_entries(made.map, k, largest)
        assert len(found.values) == min(k, made.array.size)
        assert len(set(zip(found.rows.tolist(), found.columns.tolist(), strict=True))) == len(found.values)
        close(found.values, made.array[found.rows, found.columns], made.tolerance)
        best = np.sort(key(made.array), axis=None)[::-1][:k]
        close(key(found.values), best, made.tolerance)


@law
def plan_costs_what_its_products_cost(made, rng):
    for columns in (None, 1, 7):
        plan = made.map.plan(columns)
        assert plan.cost == sum(product.cost for product in plan.products) <= plan.left_to_right
        assert len(plan.products) == len(made.map.word) - (columns is None)
        assert str(plan).count("\n") == len(plan.products) + 1


@square_law
def trace(made, rng):
    assert made.map.trace() == pytest.approx(np.trace(made.array), rel=1e-9, abs=made.tolerance)


@square_law
def eigenvalues_have_the_power_sums_of_the_array(made, rng):
    """Σ λᵏ = tr Mᵏ is stable where single eigenvalues of a defective map are not."""
    values, size = made.map.eigenvalues()
    assert values.dtype == np.complex128 and size == made.map.target.size
    assert made.map.eigenvalues().zeros >= size - made.map.rank_bound
    assert np.all(np.diff(np.abs(values)) <= 1e-12 * (1 + made.size))
    power = np.eye(size)
    for k in range(1, 4):
        power = power @ made.array
        close(np.sum(values**k), np.trace(power), 1e-9 * made.size**k)


@square_law
def eigenvectors_are_columns(made, rng):
    values, right = eigenvectors(made.map)
    assert right.shape == (made.map.target.size, len(values))
    close(made.array @ right, right * values, 1e-6 * made.size)
    close(np.linalg.norm(right, axis=0), np.ones(len(values)), 1e-12)


@square_law
def diagonals(made, rng):
    close(diagonal(made.map), np.diag(made.array), made.tolerance)


SQUARE = [name for name, made in ZOO.items() if made.map.target == made.map.source]


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("kind", ZOO)
def test_law_on_every_kind(kind, name):
    LAWS[name](ZOO[kind], np.random.default_rng(0))


@pytest.mark.parametrize("name", SQUARE_LAWS)
@pytest.mark.parametrize("kind", SQUARE)
def test_square_law_on_every_kind(kind, name):
    SQUARE_LAWS[name](ZOO[kind], np.random.default_rng(0))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", LAWS)
@settings(max_examples=100, deadline=None)
@given(made=made_maps(), seed=st.integers(0, 2**32 - 1))
def test_law_on_maps_drawn_at_random(name, made, seed):
    LAWS[name](made, np.random.default_rng(seed))


@pytest.mark.parametrize("name", SQUARE_LAWS)
@settings(max_examples=100, deadline=None)
@given(made=made_maps(endo=True), seed=st.integers(0, 2**32 - 1))
def test_square_law_on_maps_drawn_at_random(name, made, seed):
    SQUARE_LAWS[name](made, np.random.default_rng(seed))


def test_the_zoo_is_square_often_enough():
    """A law that no maker reaches cannot fail."""
    assert len(SQUARE) >= 15


class _Crooked:
    """A map whose transpose is off by a third."""

    def __init__(self, array):
        self.array = array
        self.target, self.source = Space("to", array.shape[0]), Space("from", array.shape[1])

    def apply(self, x):
        return self.array @ x

    @property
    def T(self):
        return _Crooked(self.array.T * 4 / 3)


@pytest.mark.parametrize("size", [1e-100, 1.0, 1e100])
def test_the_dot_test_finds_a_wrong_transpose_whatever_the_size_of_the_map(size):
    array = np.random.default_rng(1).standard_normal((4, 3))
    gaps = [adjoint_gap(_Crooked(array * by), np.random.default_rng(2)) for by in (1.0, size)]
    x, y = np.random.default_rng(2).standard_normal(3), np.random.default_rng(2).standard_normal(7)[3:]
    forward, backward = array @ x, array.T @ y * 4 / 3
    norm = np.linalg.norm
    wanted = abs(y @ forward - backward @ x) / (norm(y) * norm(forward) + norm(backward) * norm(x))
    assert gaps == pytest.approx([wanted, wanted]) and wanted > 1e-3


def test_a_chain_of_one_map_that_is_no_array_has_its_numbers_and_its_limit():
    """What a chain multiplies to need not be an array: one factor alone stays what it is."""
    space = Space("somewhere", 3)
    alone = Chain((Diagonal(np.array([2.0, -1.0, 0.5]), space, "D"),))
    np.testing.assert_array_equal(alone.dense(), np.diag([2.0, -1.0, 0.5]))
    with pytest.raises(PathexpError, match="9"):
        alone.dense(max_entries=8)
