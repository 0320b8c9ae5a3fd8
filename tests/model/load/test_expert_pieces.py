"""Tensors of experts: one each or all in one, in some layers, read now or when they are used."""

from dataclasses import replace

import numpy as np
import pytest

from pathexp.errors import LoadError
from pathexp.model.load.checkpoint import Held
from pathexp.model.load.gather import Piece, as_it_is, gather, transposed
from pathexp.model.stored import StoredExperts, StoredLayers

RNG = np.random.default_rng(0)
SINGLE = {f"L{layer}.{expert}": RNG.standard_normal((2, 3)) for layer in (0, 2) for expert in range(4)}
TOGETHER = {f"L{layer}": RNG.standard_normal((4, 3, 2)) for layer in (0, 2)}
PIECES = {
    "one each": (SINGLE, Piece("L{l}.{e}", (2, 3), {"W_in_experts": as_it_is}, (0, 2), 4)),
    "together": (TOGETHER, Piece("L{l}", (3, 2), {"W_in_experts": transposed}, (0, 2), 4)),
}


@pytest.mark.parametrize("kind", PIECES)
@pytest.mark.parametrize("stays", [False, True])
def test_experts_are_stacked_by_layer_and_zero_where_there_are_none(kind, stays):
    arrays, piece = PIECES[kind]
    found = gather(Held(arrays, "a test", stays), [piece], 3)["W_in_experts"]
    assert found.shape == (3, 4, 2, 3) and isinstance(found, StoredExperts) == stays
    for layer in (0, 2):
        for expert in range(4):
            one = arrays[f"L{layer}.{expert}"] if kind == "one each" else arrays[f"L{layer}"][expert].T
            np.testing.assert_array_equal(found[layer, expert], one)
        np.testing.assert_array_equal(found[layer], np.asarray(found)[layer])
        np.testing.assert_array_equal(found[layer, 1, 0], np.asarray(found)[layer, 1, 0])
    assert not np.asarray(found)[1].any()
    np.testing.assert_array_equal(found[-1, -1], np.asarray(found)[2, 3])


@pytest.mark.parametrize("stays", [False, True])
def test_layers_without_a_tensor_are_zero(stays):
    arrays = {"L1": RNG.standard_normal((2, 3))}
    found = gather(Held(arrays, "a test", stays), [Piece("L{l}", (2, 3), {"W_in": as_it_is}, (1,))], 3)[
        "W_in"
    ]
    assert isinstance(found, StoredLayers) == stays
    np.testing.assert_array_equal(found[1], arrays["L1"])
    assert not np.asarray(found)[[0, 2]].any()


def test_what_is_missing_or_of_another_shape_is_named():
    arrays, piece = PIECES["one each"]
    held = Held(
        {name: array for name, array in arrays.items() if name != "L2.3"} | {"L1.0": np.ones((2, 3))},
        "a test",
    )
    with pytest.raises(LoadError, match=r"(?s)'L2.3' is missing: expected shape \[2, 3\].*no place.*L1.0"):
        gather(held, [piece], 3)
    with pytest.raises(LoadError, match=r"'L0' has shape \[4, 3, 2\], expected \[5, 3, 2\]"):
        gather(Held(TOGETHER, "a test"), [replace(PIECES["together"][1], experts=5)], 3)


def test_an_index_that_is_not_there_is_an_error():
    found = StoredExperts("W", (2, 3, 1, 1), lambda layer, expert: np.ones((1, 1)))
    for index in ((2, 0), (0, 3), 2):
        with pytest.raises(IndexError):
            found[index]


def test_numbers_that_are_not_finite_are_found_when_an_expert_is_raised():
    found = StoredExperts(
        "W", (2, 3, 1, 1), lambda layer, expert: np.full((1, 1), np.nan if expert == 2 else 1.0)
    )
    assert found[0, 1] == 1.0
    with pytest.raises(
        Exception, match=r"W has 1 numbers that are not finite, the first nan at \(1, 2, 0, 0\)"
    ):
        found[1, 2]
