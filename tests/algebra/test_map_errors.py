"""Bad input to the algebra: each is one of our errors and shows what was found, both sizes, and what to do."""

import numpy as np
import pytest

from pathexp.algebra import (
    Chain,
    Dense,
    Diagonal,
    Identity,
    Kron,
    Scaled,
    Space,
    Sum,
    Zero,
    add,
    column,
    compose,
    diagonal,
    eigenvectors,
    entry,
    row,
    top_entries,
)
from pathexp.errors import SizeError, SpaceError, WeightsError

VOCAB, MODEL, HEAD = Space("vocab", 11), Space("model", 7), Space("head", 3)
W_U = Dense(np.ones((11, 7)), VOCAB, MODEL, name="W_U")
W_V = Dense(np.ones((3, 7)), HEAD, MODEL, name="W_V")


@pytest.mark.parametrize("make", [lambda *maps: Chain(maps), compose, lambda a, b: a @ b])
def test_product_that_does_not_meet_shows_both_spaces(make):
    with pytest.raises(SpaceError) as error:
        make(W_U, W_V)
    message = str(error.value)
    assert "W_U reads model(7)" in message and "W_V writes head(3)" in message
    assert "transpose of W_V" in message


def test_product_hints_at_the_other_transpose():
    W_O = Dense(np.ones((7, 3)), MODEL, HEAD, name="W_O")
    with pytest.raises(SpaceError, match="transpose of W_V"):
        compose(W_V.T.T, W_O.T)
    with pytest.raises(SpaceError, match="transpose of W_Uᵀ"):
        compose(W_U.T, W_O)
    with pytest.raises(SpaceError) as error:
        compose(W_V.T, W_U)
    assert "transpose" not in str(error.value)


def test_equal_sizes_under_other_names_do_not_meet():
    with pytest.raises(SpaceError, match=r"model\(7\).*stream\(7\)"):
        compose(W_V, Identity(Space("stream", 7)))


@pytest.mark.parametrize("make", [lambda *maps: Sum(maps), add, lambda a, b: a + b, lambda a, b: a - b])
def test_sum_of_other_spaces_shows_all_four(make):
    with pytest.raises(SpaceError) as error:
        make(W_U, W_V)
    message = str(error.value)
    assert "W_U : model(7) -> vocab(11)" in message and "W_V : model(7) -> head(3)" in message


def test_apply_to_a_wrong_size():
    with pytest.raises(SpaceError, match=r"W_U reads model\(7\).*found an array of shape \(2, 11\)"):
        W_U.apply(np.ones((2, 11)))
    with pytest.raises(SpaceError, match=r"shape \(\)"):
        W_U @ 3.0


@pytest.mark.parametrize("x", [np.ones(7, dtype=complex), np.array(["a"] * 7), np.ones(7, dtype=bool)])
def test_apply_to_what_is_not_real(x):
    with pytest.raises(WeightsError, match="real numbers, found dtype"):
        W_U.apply(x)


def test_dense_refuses_above_a_size_unless_asked():
    big, head = Space("vocab", 6000), Space("head", 1)
    table = Dense(np.ones((6000, 1)), big, head, "u") @ Dense(np.ones((1, 6000)), head, big, "v")
    with pytest.raises(SizeError) as error:
        table.dense()
    message = str(error.value)
    assert "u · v is 6,000 × 6,000 = 36,000,000 entries (0.3 GB)" in message
    assert "33,554,432" in message and "top_entries" in message and "max_entries" in message
    assert table.dense(max_entries=36_000_000).shape == (6000, 6000)
    with pytest.raises(SizeError, match="limit is 35,999,999"):
        table.dense(max_entries=35_999_999)


@pytest.mark.parametrize("kind", [Identity, lambda s: Zero(s, s), lambda s: Diagonal(np.ones(s.size), s)])
def test_dense_refuses_every_kind(kind):
    made = kind(Space("vocab", 6000))
    for map in (made, 2 * made, Sum([made, made]), Chain([made, made]), Kron(made, Identity(HEAD))):
        with pytest.raises(SizeError):
            map.dense()


def test_waist_too_large_is_refused_with_its_size():
    with pytest.raises(SizeError, match="50,000 × 50,000"):
        Identity(Space("vocab", 50_000)).svd()
    part = Identity(Space("vocab", 300))
    with pytest.raises(SizeError, match="90,000 × 90,000"):
        Kron(part, part).svd()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused_by_place(bad):
    array = np.ones((3, 7))
    array[1, 4] = array[2, 0] = bad
    with pytest.raises(WeightsError, match=rf"W_V.*not finite: {bad} at \(1, 4\), 2 such entries"):
        Dense(array, HEAD, MODEL, name="W_V")
    with pytest.raises(WeightsError, match=r"G on head\(3\) is not finite.*\(1,\)"):
        Diagonal([1.0, bad, 1.0], HEAD, name="G")
    with pytest.raises(WeightsError, match="finite real number"):
        bad * W_U


def test_half_precision_that_overflowed_already_is_refused():
    with np.errstate(over="ignore"):
        array = np.full((3, 7), 60_000, dtype=np.float16) * np.float16(2)
    with pytest.raises(WeightsError, match="not finite"):
        Dense(array, HEAD, MODEL)


@pytest.mark.parametrize("dtype", [complex, object, bool, str])
def test_arrays_of_other_kinds_are_refused(dtype):
    with pytest.raises(WeightsError, match="must hold real numbers, found dtype"):
        Dense(np.ones((3, 7)).astype(dtype), HEAD, MODEL)


@pytest.mark.parametrize("dtype", [np.float16, np.int64, np.complex128])
def test_a_dtype_too_narrow_to_sum_in_is_refused(dtype):
    with pytest.raises(WeightsError, match="float64"):
        Dense(np.ones((3, 7)), HEAD, MODEL, dtype=dtype)


@pytest.mark.parametrize("shape", [(7, 3), (3,), (3, 7, 1), ()])
def test_arrays_of_other_shapes_are_refused(shape):
    with pytest.raises(WeightsError, match=r"must have shape \(3, 7\), found"):
        Dense(np.ones(shape), HEAD, MODEL)


@pytest.mark.parametrize("factor", [1j, "2", None, np.ones(2)])
def test_scalars_of_other_kinds_are_refused(factor):
    with pytest.raises(WeightsError, match="finite real number"):
        Scaled(factor, W_U)
    with pytest.raises(TypeError):
        factor * W_U


def test_division_by_zero_is_refused():
    with pytest.raises(WeightsError, match="W_U was divided by zero"):
        W_U / 0
    with pytest.raises(TypeError):
        W_U / "2"


@pytest.mark.parametrize("make", [compose, add, lambda *maps: Chain(maps), lambda *maps: Sum(maps)])
def test_nothing_and_what_is_no_map_are_refused(make):
    with pytest.raises(SpaceError, match="at least one map"):
        make()
    with pytest.raises(SpaceError, match="takes linear maps, found ndarray; wrap an array in Dense"):
        make(W_U, np.ones((7, 7)))
    with pytest.raises(SpaceError, match="found ndarray"):
        Kron(W_U, np.ones((7, 7)))


@pytest.mark.parametrize("ask", ["trace", "eigenvalues"])
@pytest.mark.parametrize(
    "map", [W_U, 2 * W_U, Sum([W_U, W_U]), Zero(VOCAB, MODEL), Kron(W_U, W_V), W_U @ W_V.T]
)
def test_endomorphisms_only(ask, map):
    with pytest.raises(SpaceError, match=rf"{ask} asked of .*vocab\(11\)"):
        getattr(map, ask)()


def test_eigenvectors_and_diagonal_of_other_shapes_are_refused():
    with pytest.raises(SpaceError, match="eigenvectors asked of W_U"):
        eigenvectors(W_U)
    with pytest.raises(SpaceError, match="11 × 7, not square"):
        diagonal(W_U)


@pytest.mark.parametrize("index", [-1, 11, 100, 1.5, 2.0, True, None])
def test_places_that_are_not_there(index):
    with pytest.raises(SpaceError, match=rf"row {index} asked of W_U .*rows are 0 to 10"):
        row(W_U, index)
    with pytest.raises(SpaceError, match=rf"row {index} "):
        entry(W_U, index, 0)
    with pytest.raises(SpaceError, match=rf"column {index} .*columns are 0 to 6"):
        column(W_U, index)
    with pytest.raises(SpaceError, match=rf"column {index} "):
        entry(W_U, 0, index)


@pytest.mark.parametrize("k", [0, -3, 2**25 + 1])
def test_top_entries_of_no_number(k):
    with pytest.raises(SizeError, match="entries; ask for 1 to"):
        top_entries(W_U, k)


def test_top_entries_of_no_kind():
    with pytest.raises(SizeError, match="expected one of 'abs', 'positive', 'negative', got 'largest'"):
        top_entries(W_U, 3, "largest")


@pytest.mark.parametrize(
    ("name", "size"), [("", 3), (None, 3), ("model", -1), ("model", 2.5), ("model", True)]
)
def test_spaces_without_name_or_size(name, size):
    with pytest.raises(SpaceError, match=r"found|got"):
        Space(name, size)


def test_space_times_what_is_no_space():
    with pytest.raises(TypeError):
        MODEL * 3
