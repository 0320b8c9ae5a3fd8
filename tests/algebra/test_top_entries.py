"""The largest entries of a map: exact, in a fixed order, at any block size, without the dense form."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pathexp.algebra import Dense, Identity, Kron, Space, Zero, compose, top, top_entries, waist
from pathexp.errors import SizeError

KEYS = {"abs": np.abs, "positive": np.positive, "negative": np.negative}


def product(left, right):
    inner = Space("waist", left.shape[1])
    return Dense(left, Space("out", len(left)), inner) @ Dense(right, inner, Space("in", right.shape[1]))


def expected(array, k, largest):
    order = np.argsort(-KEYS[largest](array).ravel(), kind="stable")[:k]
    return list(zip(*divmod(order, array.shape[1]), strict=True))


def places(found):
    return list(zip(found.rows.tolist(), found.columns.tolist(), strict=True))


@pytest.fixture(params=[(7, (2, 3)), (64, (8, 5)), (2**22, (1536, 768))], ids=lambda sizes: str(sizes[0]))
def block(request, monkeypatch):
    monkeypatch.setattr("pathexp.algebra.top.BLOCK", request.param[0])
    monkeypatch.setattr("pathexp.algebra.top.TILE", request.param[1])


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize("largest", sorted(KEYS))
@pytest.mark.parametrize("k", [1, 5, 40, 10_000])
def test_ties_go_by_row_then_column(largest, k):
    """Whole numbers are exact, and of few values there are many ties."""
    rng = np.random.default_rng(k)
    left, right = rng.integers(-2, 3, (33, 3)), rng.integers(-2, 3, (3, 29))
    assert places(top_entries(product(left, right), k, largest)) == expected(left @ right, k, largest)
    whole = Dense(left @ right, Space("out", 33), Space("in", 29))
    assert places(top_entries(whole, k, largest)) == expected(left @ right, k, largest)


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize("largest", sorted(KEYS))
def test_differences_below_single_precision_are_told_apart(largest):
    """Screening is done in single precision; the answer is not."""
    rng = np.random.default_rng(1)
    sign = -1.0 if largest == "negative" else 1.0
    left = sign * (1 + 1e-12 * rng.permutation(60))[:, None] * np.array([[1.0, 0.0]])
    right = np.vstack([1 + 1e-10 * rng.permutation(50), np.ones(50)])
    found = top_entries(product(left, right), 25, largest)
    assert places(found) == expected(left @ right, 25, largest)


@pytest.mark.usefixtures("block")
def test_near_ties_of_different_rows_are_told_apart():
    """Single precision errs differently in each of these entries, by far more than they differ."""
    rng = np.random.default_rng(5)
    unit = rng.normal(size=(120, 12))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    left, right = unit * (1 + 1e-11 * rng.permutation(120))[:, None], unit.T
    array = np.array([[np.sum(row * column) for column in right.T] for row in left])
    assert places(top_entries(product(left, right), 60)) == expected(array, 60, "abs")


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 4),
    st.integers(1, 60),
    st.sampled_from(sorted(KEYS)),
    st.integers(-250, 250),
)
def test_any_scale(seed, r, k, largest, exponent):
    rng = np.random.default_rng(seed)
    left = rng.normal(size=(30, r)) * np.exp(rng.normal(size=(30, 1)) * 3) * 10.0**exponent
    right = rng.normal(size=(r, 20)) * np.exp(rng.normal(size=(1, 20)) * 3)
    array = np.array([[np.sum(row * column) for column in right.T] for row in left])
    assert places(top_entries(product(left, right), k, largest)) == expected(array, k, largest)


@pytest.mark.usefixtures("block")
def test_terms_that_cancel_leave_their_remainder():
    """A − A + B with A a million times larger: the screen must allow for the rounding of A."""
    rng = np.random.default_rng(2)
    large = product(1e6 * rng.normal(size=(40, 2)), rng.normal(size=(2, 40)))
    small = product(rng.normal(size=(40, 2)), rng.normal(size=(2, 40)))
    found = top_entries(large - large + small, 5)
    assert places(found) == places(top_entries(small, 5))
    np.testing.assert_allclose(found.values, top_entries(small, 5).values, atol=1e-8)


@pytest.mark.usefixtures("block")
def test_rounding_of_terms_that_cancel_is_allowed_for():
    """With A 1e15 times larger, what the screen loses in A is more than single precision loses in B."""
    rng = np.random.default_rng(6)
    large = product(1e15 * rng.normal(size=(40, 2)), rng.normal(size=(2, 40)))
    left, right = waist(large - large + product(rng.normal(size=(40, 2)), rng.normal(size=(2, 40))))
    array = np.array([[np.sum(row * column) for column in right.T] for row in left])
    assert places(top_entries(product(left, right), 200)) == expected(array, 200, "abs")


def test_zero_and_fewer_entries_than_asked():
    out, source = Space("out", 2), Space("in", 3)
    assert places(top_entries(Zero(out, source), 4)) == [(0, 0), (0, 1), (0, 2), (1, 0)]
    assert len(top_entries(Zero(out, source), 100).values) == 6
    assert places(top_entries(product(np.zeros((3, 1)), np.ones((1, 3))), 2)) == [(0, 0), (0, 1)]
    assert places(top_entries(Identity(source), 3)) == [(0, 0), (1, 1), (2, 2)]


def test_kronecker_product():
    rng = np.random.default_rng(3)
    A, left, right = rng.normal(size=(3, 3)), rng.normal(size=(6, 2)), rng.normal(size=(2, 5))
    position = Space("position", 3)
    found = top_entries(Kron(Dense(A, position, position), product(left, right)), 12)
    assert places(found) == expected(np.kron(A, left @ right), 12, "abs")


def test_blocks_that_cannot_qualify_are_not_computed(monkeypatch):
    """One long row holds all the large entries; Cauchy-Schwarz rules out the rest after the first blocks."""
    left = np.ones((500, 2)) * np.where(np.arange(500) == 321, 100.0, 1.0)[:, None]
    monkeypatch.setattr(top, "BLOCK", 1000)
    seen = []
    admit = top._Best.admit
    monkeypatch.setattr(top._Best, "admit", lambda self, *found: (seen.append(1), admit(self, *found))[1])
    found = top_entries(product(left, np.random.default_rng(4).normal(size=(2, 100))), 3)
    assert set(found.rows.tolist()) == {321}
    assert 0 < len(seen) <= 2


@pytest.mark.parametrize("map", ["narrow", "whole", "nothing"])
def test_progress_ends_with_all_rows(map):
    rng = np.random.default_rng(0)
    tall, wide, thin = Space("tall", 4000), Space("wide", 900), Space("thin", 3)
    maps = {
        "narrow": lambda: (
            Dense(rng.standard_normal((4000, 3)), tall, thin)
            @ Dense(rng.standard_normal((3, 900)), thin, wide)
        ),
        "whole": lambda: Dense(rng.standard_normal((4000, 900)), tall, wide),
        "nothing": lambda: Dense(np.zeros((4000, 3)), tall, thin) @ Dense(np.zeros((3, 900)), thin, wide),
    }
    said = []
    top_entries(maps[map](), 5, progress=lambda done, rows: said.append((done, rows)))
    assert said[-1] == (4000, 4000)
    assert [done for done, _ in said] == sorted(done for done, _ in said)
    assert len(said) > 1 or map != "narrow"


@pytest.mark.parametrize("k", [2.5, None, "3", True])
def test_k_is_a_whole_number(k):
    with pytest.raises(SizeError, match="integer"):
        top_entries(Dense(np.eye(2), Space("a", 2), Space("b", 2)), k)


def test_sides_of_a_good_condition_are_turned_without_a_decomposition(monkeypatch):
    """It would take longer: one that is called here raises."""
    rng = np.random.default_rng(0)
    wide, narrow = Space("to", 40), Space("r", 3)
    map = compose(
        Dense(rng.standard_normal((40, 3)), wide, narrow),
        Dense(rng.standard_normal((3, 30)), narrow, Space("from", 30)),
    )
    wanted = np.sort(np.abs(map.dense()), axis=None)[::-1][:4]

    def refused(map):
        raise AssertionError("decomposed")

    monkeypatch.setattr(top, "svd", refused)
    np.testing.assert_allclose(np.abs(top_entries(map, 4).values), wanted, rtol=1e-12)


@pytest.mark.parametrize("block", [8, 2**22])
def test_progress_says_how_many_rows_of_how_many_are_done(block, monkeypatch):
    monkeypatch.setattr(top, "BLOCK", block)
    said = []
    top_entries(
        Dense(np.arange(12.0).reshape(6, 2), Space("a", 6), Space("b", 2)),
        2,
        progress=lambda *rows: said.append(rows),
    )
    assert said == ([(4, 6), (6, 6)] if block == 8 else [(6, 6)])
