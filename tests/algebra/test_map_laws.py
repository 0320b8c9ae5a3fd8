"""Makers × laws: every kind of map, nested at random, against the dense array that numpy makes of it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pathexp.algebra import (
    Chain,
    Identity,
    Scaled,
    Zero,
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
from tests.algebra.drawn_maps import made_maps

quick = settings(max_examples=60, deadline=None)
seeds = st.integers(0, 2**32 - 1)


def close(found, expected, tolerance):
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=tolerance)


@quick
@given(made_maps())
def test_dense_is_the_array(made):
    assert made.map.shape == made.array.shape == (made.map.target.size, made.map.source.size)
    close(made.map.dense(), made.array, made.tolerance)


@quick
@given(made_maps(), seeds, st.sampled_from([(), (1,), (4,), (7, 1), (2, 0, 3), (1, 1, 2)]))
def test_apply_takes_any_leading_axes(made, seed, batch):
    x = np.random.default_rng(seed).normal(size=(*batch, made.map.source.size))
    found = made.map.apply(x)
    assert found.shape == (*batch, made.map.target.size)
    close(found, x @ made.array.T, made.tolerance * 10)


@quick
@given(made_maps(), seeds, st.sampled_from([(), (4,), (3, 4), (2, 3, 4)]))
def test_matmul_is_that_of_numpy(made, seed, batch):
    rng = np.random.default_rng(seed)
    m, n = made.map.shape
    right = rng.normal(size=(*batch[:-1], n, *batch[-1:]))
    left = rng.normal(size=(*batch, m))
    for found, expected in ((made.map @ right, made.array @ right), (left @ made.map, left @ made.array)):
        assert found.shape == expected.shape
        close(found, expected, made.tolerance * 10)


@quick
@given(made_maps(), seeds)
def test_apply_does_not_touch_its_argument(made, seed):
    x = np.random.default_rng(seed).normal(size=(2, made.map.source.size))
    before = x.copy()
    made.map.apply(x)
    np.testing.assert_array_equal(x, before)


@quick
@given(made_maps(), seeds)
def test_transpose(made, seed):
    assert (made.map.T.target, made.map.T.source) == (made.map.source, made.map.target)
    close(made.map.T.dense(), made.array.T, made.tolerance)
    close(made.map.T.T.dense(), made.array, made.tolerance)
    assert adjoint_gap(made.map, np.random.default_rng(seed)) < 1e-12


@quick
@given(made_maps(depth=2), st.data())
def test_product_transposes_in_reverse(left, data):
    right = data.draw(made_maps(target=left.map.source, depth=2))
    expected = left.array @ right.array
    tolerance = 1e-12 * left.size * right.size + 1e-300
    close((left.map @ right.map).dense(), expected, tolerance)
    close((left.map @ right.map).T.dense(), (right.map.T @ left.map.T).dense(), tolerance)


@quick
@given(made_maps(depth=2), st.data())
def test_sums_and_multiples(left, data):
    right = data.draw(made_maps(left.map.target, left.map.source, depth=2))
    tolerance = 1e-12 * (left.size + right.size) + 1e-300
    close((left.map + right.map).dense(), left.array + right.array, tolerance)
    close((left.map - right.map).dense(), left.array - right.array, tolerance)
    close((3 * left.map / 2).dense(), 1.5 * left.array, tolerance)
    close((-left.map * np.float64(2)).dense(), -2 * left.array, tolerance * 2)


@quick
@given(made_maps())
def test_norm_and_gain(made):
    expected = np.linalg.norm(made.array)
    assert made.map.norm() == pytest.approx(expected, rel=1e-9, abs=made.tolerance)
    assert gain(made.map) == pytest.approx(
        expected**2 / made.map.source.size, rel=1e-9, abs=made.tolerance * made.size
    )


@quick
@given(made_maps())
def test_rank_bound_holds_and_is_the_waist(made):
    left, right = waist(made.map)
    assert left.shape[1] == right.shape[0] == made.map.rank_bound <= min(made.map.shape)
    close(left @ right, made.array, made.tolerance)
    assert np.linalg.matrix_rank(made.array, tol=made.tolerance * 10) <= made.map.rank_bound


@quick
@given(made_maps())
def test_singular_values(made):
    expected = np.linalg.svd(made.array, compute_uv=False)
    found = singular_values(made.map)
    assert np.all(np.diff(found) <= made.tolerance)
    close(np.pad(found, (0, len(expected) - len(found))), expected, made.tolerance * 10)
    cut = made.tolerance * 100
    assert rank(made.map, cut) == int(np.sum(found > cut))


@quick
@given(made_maps())
def test_svd_rebuilds_with_fixed_signs(made):
    U, S, Vh = made.map.svd()
    assert U.shape == (made.map.target.size, len(S)) and Vh.shape == (len(S), made.map.source.size)
    close(U * S @ Vh, made.array, made.tolerance * 10)
    close(U.T @ U, np.eye(len(S)), 1e-10)
    close(Vh @ Vh.T, np.eye(len(S)), 1e-10)
    assert all(np.max(u) >= (1 - 1e-8) * np.max(np.abs(u)) for u in U.T)


@quick
@given(made_maps(endo=True))
def test_trace(made):
    assert made.map.trace() == pytest.approx(np.trace(made.array), rel=1e-9, abs=made.tolerance)


@quick
@given(made_maps(endo=True))
def test_eigenvalues_have_the_power_sums_of_the_array(made):
    """Σ λᵏ = tr Mᵏ is stable where single eigenvalues of a defective map are not."""
    values, size = made.map.eigenvalues()
    assert values.dtype == np.complex128 and size == made.map.target.size
    assert made.map.eigenvalues().zeros >= size - made.map.rank_bound
    assert np.all(np.diff(np.abs(values)) <= 1e-12 * (1 + made.size))
    power = np.eye(size)
    for k in range(1, 4):
        power = power @ made.array
        close(np.sum(values**k), np.trace(power), 1e-9 * made.size**k + 1e-300)


@quick
@given(made_maps(endo=True))
def test_eigenvectors_are_columns(made):
    values, right = eigenvectors(made.map)
    assert right.shape == (made.map.target.size, len(values))
    close(made.array @ right, right * values, 1e-6 * made.size + 1e-300)
    close(np.linalg.norm(right, axis=0), np.ones(len(values)), 1e-12)


@quick
@given(made_maps(), st.data())
def test_entries_rows_columns(made, data):
    m, n = made.map.shape
    i, j = data.draw(st.integers(0, m - 1)), data.draw(st.integers(0, n - 1))
    assert entry(made.map, i, j) == pytest.approx(made.array[i, j], rel=1e-9, abs=made.tolerance)
    close(row(made.map, i), made.array[i], made.tolerance)
    close(column(made.map, j), made.array[:, j], made.tolerance)


@quick
@given(made_maps(endo=True))
def test_diagonal(made):
    close(diagonal(made.map), np.diag(made.array), made.tolerance)


@quick
@given(made_maps(), st.integers(1, 40), st.sampled_from(["abs", "positive", "negative"]))
def test_top_entries(made, k, largest):
    key = {"abs": np.abs, "positive": np.positive, "negative": np.negative}[largest]
    found = top_entries(made.map, k, largest)
    assert len(found.values) == min(k, made.array.size)
    assert len(set(zip(found.rows.tolist(), found.columns.tolist(), strict=True))) == len(found.values)
    close(found.values, made.array[found.rows, found.columns], made.tolerance)
    close(key(found.values), np.sort(key(made.array), axis=None)[::-1][: len(found.values)], made.tolerance)


@quick
@given(made_maps(), st.sampled_from([None, 1, 7]))
def test_plan_costs_what_its_products_cost(made, columns):
    plan = made.map.plan(columns)
    assert plan.cost == sum(product.cost for product in plan.products) <= plan.left_to_right
    assert len(plan.products) == len(made.map.word) - (columns is None)
    assert str(plan).count("\n") == len(plan.products) + 1


@quick
@given(made_maps(), seeds)
def test_composition_keeps_chains_flat(made, seed):
    twice = compose(made.map, made.map.T, made.map)
    if isinstance(twice, Chain):
        assert not any(isinstance(factor, Chain | Identity | Scaled | Zero) for factor in twice.factors)
    x = np.random.default_rng(seed).normal(size=made.map.source.size)
    close(twice.apply(x), made.array @ (made.array.T @ (made.array @ x)), made.tolerance * made.size**2 * 100)
