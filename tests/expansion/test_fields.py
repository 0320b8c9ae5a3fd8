"""Covectors kept where they are not zero do what dense ones do."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pathexp import workers
from pathexp.expansion.search import fields as fields_module
from pathexp.expansion.search.fields import Fields

SOME = settings(max_examples=40, deadline=None)


@st.composite
def covectors(draw):
    """Dense covectors (m, n, r), many of them zero, some endings altogether."""
    m, n, r = draw(st.integers(0, 6)), draw(st.sampled_from([1, 2, 9])), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    there = rng.random((m, n, 1)) < draw(st.sampled_from([0.0, 0.3, 1.0]))
    return rng.standard_normal((m, n, r)) * there * (rng.random((m, 1, 1)) < 0.8)


@SOME
@given(covectors())
def test_only_what_is_not_zero_is_kept(dense):
    fields = Fields.of(dense)
    assert len(fields) == len(dense) and len(fields.rows) == dense.any(axis=-1).sum()
    assert fields.nbytes == 8 * dense.any(axis=-1).sum() * dense.shape[-1]
    np.testing.assert_array_equal(fields.dense(), dense)
    sizes = np.linalg.norm(dense, axis=-1)
    assert np.all(fields.lengths >= sizes) and np.all(fields.lengths <= sizes * (1 + 1e-12) + 1e-140)


@SOME
@given(covectors(), st.integers(0, 2**6 - 1), st.integers(0, 1000))
def test_endings_and_covectors_are_taken_away_one_by_one(dense, which, seed):
    fields = Fields.of(dense)
    kept = np.array([bool(which >> e & 1) for e in range(len(dense))], dtype=bool)
    np.testing.assert_array_equal(fields.chosen(kept).dense(), dense[kept])
    dropped = np.random.default_rng(seed).random(dense.shape[:2]) < 0.5
    np.testing.assert_array_equal(fields.without(dropped).dense(), dense * ~dropped[..., None])
    both = Fields.joined([fields, fields.without(dropped), fields.chosen(kept)])
    np.testing.assert_array_equal(
        both.dense(), np.concatenate([dense, dense * ~dropped[..., None], dense[kept]])
    )


@SOME
@given(covectors(), st.integers(1, 8), st.integers(0, 3))
def test_slices_are_all_endings_in_order_and_no_more_rows_than_asked(dense, rows, endings):
    parts = list(Fields.of(dense).slices(rows, endings))
    assert [at for part, _ in parts for at in range(part.start, part.stop)] == list(range(len(dense)))
    for part, some in parts:
        np.testing.assert_array_equal(some.dense(), dense[part])
        assert len(some) <= max(1, endings) and (len(some.rows) <= rows or len(some) == 1)


@pytest.mark.parametrize("worth", [0, 2**26])
@SOME
@given(dense=covectors(), seed=st.integers(0, 1000))
def test_products_are_those_of_dense_covectors(monkeypatch_module, worth, dense, seed):
    monkeypatch_module.setattr(workers, "WORTH", worth)
    monkeypatch_module.setattr(fields_module, "ROWS", 3)
    rng = np.random.default_rng(seed)
    (m, n, r), fields = dense.shape, Fields.of(dense)
    points, sizes, matrix = rng.standard_normal((5, n, r)), rng.random((n, r)), rng.standard_normal((r, 3))
    scales = rng.standard_normal(n)
    np.testing.assert_allclose(fields.met(points), np.einsum("mnr,enr->me", dense, points), atol=1e-12)
    np.testing.assert_allclose(
        fields.sizes_met(sizes), np.einsum("mnr,nr->m", np.abs(dense), sizes), rtol=1e-12, atol=1e-300
    )
    mapped = fields.mapped(lambda rows, at: (rows @ matrix) * scales[at, None], 3)
    np.testing.assert_allclose(mapped.dense(), (dense @ matrix) * scales[:, None], atol=1e-12)
    at = np.zeros((m, n), dtype=int)

    def work(position, rows):
        at[fields.owners[rows], position] += 1

    fields.at_positions(work, 1)
    np.testing.assert_array_equal(at, dense.any(axis=-1))


@pytest.fixture(scope="module")
def monkeypatch_module():
    with pytest.MonkeyPatch.context() as patch:
        yield patch
