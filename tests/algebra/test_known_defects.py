"""Defects of other tools with factored maps, as tests; and what is special about half precision and size."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pathexp
from pathexp.algebra import (
    Chain,
    Dense,
    Diagonal,
    Identity,
    Kron,
    Space,
    Svd,
    compose,
    eigenvectors,
    mixed_product,
    null_cutoff,
    rank,
)
from pathexp.algebra.spectra import signed
from pathexp.errors import SpaceError
from tests.peak import PEAK


def space(name, size):
    return Space(name, size)


def plain(array, target="out", source="in", **options):
    array = np.asarray(array)
    return Dense(array, Space(target, array.shape[0]), Space(source, array.shape[1]), **options)


def factored(left, right):
    return compose(plain(left, "out", "waist"), plain(right, "waist", "in"))


def rng():
    return np.random.default_rng(0)


def test_product_with_arrays_has_the_shape_of_numpy():
    """A vector times a factored matrix once gained a leading dimension."""
    M = factored(rng().normal(size=(2, 3)), rng().normal(size=(3, 4)))
    assert (np.ones(2) @ M).shape == (4,)
    assert (M @ np.ones(4)).shape == (2,)
    assert (np.ones((5, 2)) @ M).shape == (5, 4)
    assert (np.ones((7, 1, 2)) @ M).shape == (7, 1, 4)


def test_svd_of_factors_with_leading_axes_of_one():
    """Leading axes of size one were once dropped; here they belong to what the map acts on."""
    A, B = rng().normal(size=(5, 2)), rng().normal(size=(2, 6))
    M = factored(A, B)
    U, S, Vh = M.svd()
    np.testing.assert_allclose(U * S @ Vh, A @ B, atol=1e-12)
    np.testing.assert_allclose(U.T @ U, np.eye(2), atol=1e-12)
    assert M.apply(np.ones((1, 1, 6))).shape == (1, 1, 5)


@pytest.mark.parametrize(
    ("values", "blocks"),
    [
        ([1, 8e-3, 2e-4], ((0,), (1,), (2,))),
        ([1, 1, 0.5], ((0, 1), (2,))),
        ([1, 1e-17], ((0,),)),
        ([0, 0], ()),
    ],
)
def test_null_and_equal_singular_values_are_two_questions(values, blocks):
    """One threshold for both once merged values forty times apart."""
    basis, _ = np.linalg.qr(rng().normal(size=(len(values), len(values))))
    found = plain(basis * np.array(values)).svd()
    assert found.blocks() == blocks
    assert rank(plain(basis * np.array(values))) == sum(map(len, blocks))
    assert null_cutoff(np.array([2.0, 1.0]), (10, 3)) == 10 * np.finfo(float).eps * 2


def test_singular_vectors_keep_their_signs_when_sums_are_reordered():
    A, B = rng().normal(size=(9, 4)), rng().normal(size=(4, 7))
    order = np.array([2, 0, 3, 1])
    for one, other in zip(factored(A, B).svd(), factored(A[:, order], B[order]).svd(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    for one, other in zip(factored(A, B).svd(), factored(-A, -B).svd(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_only_the_subspace_of_equal_singular_values_is_reported():
    turn, _ = np.linalg.qr(rng().normal(size=(2, 2)))
    for basis in (np.eye(2), turn):
        found = plain(basis).svd()
        assert found.blocks() == ((0, 1),)
        np.testing.assert_allclose(found.projector((0, 1)), np.eye(2), atol=1e-12)


@pytest.mark.parametrize("noise", [-1e-15, 0.0, 1e-15])
def test_sign_rule_at_a_tie_takes_the_first_entry(noise):
    """(1, -1)/√2 keeps its sign whichever entry rounding makes the larger."""
    found = signed(np.array([[-np.sqrt(0.5)], [np.sqrt(0.5) + noise]]), np.ones(1), np.ones((1, 2)))
    assert found.U[0, 0] > 0 > found.U[1, 0] and np.all(found.Vh < 0)


def test_nilpotent_and_rotating_maps_have_the_eigenvalues_that_scores_need():
    """Σλ / Σ|λ| was once 0/0 for a nilpotent map; its eigenvalues are zero exactly, not nearly."""
    stream = space("model", 2)
    u, v = Dense([[1.0], [0.0]], stream, space("head", 1)), Dense([[0.0, 1.0]], space("head", 1), stream)
    values, size = (u @ v).eigenvalues()
    assert values.tolist() == [0] and (u @ v).eigenvalues().zeros == 1 and size == 2
    turn = Dense([[0.0, -1.0], [1.0, 0.0]], stream, stream).eigenvalues().values
    np.testing.assert_allclose(turn, [1j, -1j], atol=1e-15)
    assert np.sum(turn) == 0


def test_eigenvectors_are_columns_not_rows():
    stream = space("model", 3)
    A = np.array([[1.0, 1, 1], [0, 1, 0], [0, 0, 1]])
    values, V = eigenvectors(Dense(A, stream, stream))
    for i in range(3):
        assert np.linalg.norm(A @ V[:, i] - values[i] * V[:, i]) < 1e-8


def composition(reader, writer):
    return (reader @ writer).norm() / (reader.norm() * writer.norm())


def test_norms_of_a_composition():
    """Rank one gives |cos| between the direction written and the direction read, whatever the scale."""
    stream, head = space("model", 2), space("head", 1)
    writer = Dense([[1.0], [0.0]], stream, head) @ Dense([[3.0, -1.0]], head, stream)
    reader = Dense([[2.0], [5.0]], stream, head) @ Dense([[1.0, 1.0]], head, stream)
    assert composition(reader, writer) == pytest.approx(np.sqrt(0.5), abs=1e-12)
    assert composition(reader * 1e6, writer) == pytest.approx(np.sqrt(0.5), abs=1e-12)


def test_norms_of_random_compositions_have_the_known_mean():
    random, stream, head = rng(), space("model", 64), space("head", 8)

    def drawn():
        return Dense(random.normal(size=(64, 8)), stream, head) @ Dense(
            random.normal(size=(8, 64)), head, stream
        )

    found = np.mean([composition(drawn(), drawn()) for _ in range(40)])
    assert found == pytest.approx(0.1265, abs=0.013)


LARGE = """
import numpy as np
from pathexp.algebra import Dense, Space, top_entries

def table(V, d=64, r=8):
    rng = np.random.default_rng(0)
    vocab, model, head = Space("vocab", V), Space("model", d), Space("head", r)
    parts = [(vocab, model), (model, head), (head, model), (model, vocab)]
    maps = [Dense(rng.normal(size=(a.size, b.size)), a, b) for a, b in parts]
    return maps[0] @ maps[1] @ maps[2] @ maps[3]

small = table(500)
array = small.dense()
np.testing.assert_allclose(small.norm(), np.linalg.norm(array), rtol=1e-10)
np.testing.assert_allclose(small.trace(), np.trace(array), rtol=1e-10)
top = top_entries(small, 20)
np.testing.assert_allclose(np.abs(top.values), np.sort(np.abs(array), axis=None)[::-1][:20], rtol=1e-10)
expected = np.linalg.eigvals(array)
expected = expected[np.argsort(-np.abs(expected))][:8]
np.testing.assert_allclose(np.abs(small.eigenvalues().values), np.abs(expected), rtol=1e-8)

large = table(50_000)
assert np.isfinite(large.norm()) and np.isfinite(large.trace())
assert len(large.eigenvalues().values) == 8 and large.eigenvalues().zeros == 49_992
assert len(large.svd().S) == 8
assert len(top_entries(large, 20).values) == 20
print(peak_bytes())
"""


@pytest.mark.slow
def test_tables_of_fifty_thousand_tokens_stay_small():
    """Dense, the table is 20 GB; everything that is asked of it fits in 500 MB."""
    root = str(Path(pathexp.__file__).resolve().parents[1])
    done = subprocess.run(
        [sys.executable, "-c", PEAK + LARGE],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 500e6


def test_mixed_product_only_where_both_inner_spaces_meet():
    """(A ⊗ B)(C ⊗ D) = AC ⊗ BD was once applied to sizes that only agree as a whole."""
    random, u, v, w, out = rng(), space("u", 2), space("v", 3), space("w", 2), space("out", 4)

    def drawn(target, source):
        return Dense(random.normal(size=(target.size, source.size)), target, source)

    first = Kron(drawn(out, u), drawn(out, v * w))
    second = Kron(drawn(u * v, out), drawn(w, out))
    assert first.source == second.target
    kept = mixed_product(first, second)
    assert isinstance(kept, Chain) and kept.factors == (first, second)
    assert compose(first, second).word == (first, second)
    expected = np.kron(first.left.array, first.right.array) @ np.kron(second.left.array, second.right.array)
    np.testing.assert_allclose(kept.dense(), expected, atol=1e-12)

    meeting = Kron(drawn(u, out), drawn(v * w, out))
    merged = mixed_product(first, meeting)
    assert isinstance(merged, Kron)
    expected = np.kron(first.left.array, first.right.array) @ np.kron(meeting.left.array, meeting.right.array)
    np.testing.assert_allclose(merged.dense(), expected, atol=1e-12)


def test_mixed_product_of_sizes_that_agree_by_chance():
    """(2×3 ⊗ 3×2)(2×2 ⊗ 3×3) is 6×6 times 6×6, but of other spaces: refused, unless they are identified."""
    random = rng()
    A, B = random.normal(size=(2, 3)), random.normal(size=(3, 2))
    C, D = random.normal(size=(2, 2)), random.normal(size=(3, 3))
    two, three = space("two", 2), space("three", 3)
    first = Kron(Dense(A, two, three), Dense(B, three, two))
    second = Kron(Dense(C, two, two), Dense(D, three, three))
    with pytest.raises(SpaceError, match=r"three\(3\)\*two\(2\).*two\(2\)\*three\(3\)"):
        mixed_product(first, second)
    same = Dense(np.eye(6), first.source, second.target, name="relabel")
    product = compose(first, same, second)
    assert product.word == (first, same, second)
    np.testing.assert_allclose(product.dense(), np.kron(A, B) @ np.kron(C, D), atol=1e-12)


def test_kronecker_order_is_position_then_feature():
    """Factors were once multiplied in reverse order."""
    A, W = rng().normal(size=(2, 2)), rng().normal(size=(3, 3))
    position, model = space("position", 2), space("model", 3)
    X = rng().normal(size=(2, 3))
    found = Kron(Dense(A, position, position), Dense(W, model, model)).apply(X.reshape(-1)).reshape(2, 3)
    np.testing.assert_allclose(found, A @ X @ W.T, atol=1e-12)
    swapped = Kron(Dense(W, model, model), Dense(A, position, position)).apply(X.reshape(-1)).reshape(2, 3)
    assert np.max(np.abs(swapped - A @ X @ W.T)) > 0.1


def test_half_precision_is_summed_in_double():
    """A sum of ones in half precision stalls at 2048, and 60,000 + 60,000 overflows."""
    ones = plain(np.ones((1, 4096), dtype=np.float16))
    assert ones.array.dtype == np.float64
    assert ones.apply(np.ones(4096, dtype=np.float16)).tolist() == [4096.0]
    large = plain(np.full((1, 1), 60_000, dtype=np.float16))
    assert (large + large).dense().tolist() == [[120_000.0]]
    assert Diagonal(np.full(1, 60_000, dtype=np.float16), space("x", 1)).norm() == 60_000


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
def test_norms_neither_overflow_nor_vanish(size):
    left, right = np.full((4, 1), size), np.ones((1, 9))
    assert factored(left, right).norm() == pytest.approx(6 * size)
    assert plain(left @ right).norm() == pytest.approx(6 * size)
    assert Diagonal(np.full(4, size), space("x", 4)).norm() == pytest.approx(2 * size)
    assert (plain(left @ right) + factored(left, right)).norm() == pytest.approx(12 * size)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_decompositions_take_reduced_precision(dtype):
    """numpy's linalg rejects half precision, and single precision is kept only for a map that asks for it."""
    stream, head = space("model", 12), space("head", 3)
    exact_O, exact_V = rng().normal(size=(12, 3)), rng().normal(size=(3, 12))
    low_O, low_V = exact_O.astype(dtype), exact_V.astype(dtype)
    kept = {"dtype": np.float32} if dtype == np.float32 else {}
    low = Dense(low_O, stream, head, **kept) @ Dense(low_V, head, stream, **kept)
    exact = Dense(exact_O, stream, head) @ Dense(exact_V, head, stream)
    np.testing.assert_allclose(low.svd().S, exact.svd().S, rtol=2e-3)
    np.testing.assert_allclose(low.eigenvalues().values, exact.eigenvalues().values, rtol=5e-3)
    widened = low_O.astype(np.float64) @ low_V.astype(np.float64)
    np.testing.assert_allclose(low.norm(), np.linalg.norm(widened), rtol=1e-12)
    np.testing.assert_allclose(low.dense(), widened, rtol=1e-12)


def test_brain_floats_are_upcast():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    found = plain(np.array([[1.5, -2.0]], dtype=ml_dtypes.bfloat16))
    assert found.array.dtype == np.float64 and found.array.tolist() == [[1.5, -2.0]]


def test_svd_is_a_named_tuple():
    found = plain(np.eye(2)).svd()
    assert isinstance(found, Svd) and found._fields == ("U", "S", "Vh")


def test_a_large_identity_plus_a_thin_product():
    """No stacked waist and no dense form fits here: norm and trace go through inner products of terms."""
    vocab, head = space("vocab", 20_000), space("head", 3)
    left, right = rng().normal(size=(20_000, 3)), rng().normal(size=(3, 20_000))
    M = Identity(vocab) - 0.5 * Dense(left, vocab, head) @ Dense(right, head, vocab)
    inner = right @ left
    square = 20_000 - np.trace(inner) + 0.25 * np.trace((left.T @ left) @ (right @ right.T))
    assert M.norm() == pytest.approx(np.sqrt(square), rel=1e-12)
    assert M.trace() == pytest.approx(20_000 - 0.5 * np.trace(inner), rel=1e-12)
