"""Arrays: how they are held, and that every problem with them is told at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pathexp.errors import WeightsError
from pathexp.model.config import Config
from pathexp.model.handmade import random_model
from pathexp.model.model import Model
from pathexp.model.weights import Weights, expected
from tests.zoo import FAMILIES, ZOO

MODEL = random_model(layers=2, heads=4, kv_heads=2, d_head=3, d_model=14, norm="layernorm", biases=True)


def changed(**arrays: Any) -> Weights:
    return Weights(**MODEL.weights.arrays() | arrays)


def problems(weights: Weights, config: Config = MODEL.config) -> str:
    with pytest.raises(WeightsError) as caught:
        weights.check(config)
    return str(caught.value)


def poisoned(name: str, value: float, *place: int) -> np.ndarray:
    array = MODEL.weights.arrays()[name].copy()
    array[place] = value
    return array


@pytest.mark.parametrize("name", sorted(ZOO))
def test_arrays_are_read_only_doubles(name: str) -> None:
    for array in ZOO[name]().weights.arrays().values():
        assert array.dtype == np.float64
        assert not array.flags.writeable


def test_the_callers_array_stays_the_callers() -> None:
    mine = np.eye(3)
    weights = _minimal(W_U=mine)
    mine[0, 0] = 7
    assert mine.flags.writeable
    assert weights.W_U[0, 0] == 1


def test_a_read_only_view_of_a_writable_array_is_copied() -> None:
    mine = np.eye(3)
    view = mine.view()
    view.setflags(write=False)
    weights = _minimal(W_U=view)
    mine[0, 0] = 7
    assert weights.W_U[0, 0] == 1


def test_arrays_that_nobody_can_change_are_not_copied() -> None:
    again = Weights(**MODEL.weights.arrays())
    assert again.W_Q is MODEL.weights.W_Q


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "uint16", "int64", ">f8"])
def test_other_real_numbers_become_doubles(dtype: str) -> None:
    weights = _minimal(W_U=np.arange(9).reshape(3, 3).astype(dtype))
    assert weights.W_U.dtype == np.float64
    np.testing.assert_array_equal(weights.W_U, np.arange(9).reshape(3, 3))


def test_every_problem_is_told_in_one_error() -> None:
    message = problems(
        changed(
            W_E=MODEL.weights.W_E.T,
            W_Q=poisoned("W_Q", np.nan, 1, 2, 0, 5),
            W_K=None,
            W_V=MODEL.weights.W_V.astype(complex),
            b_O=np.zeros((2, 15)),
            b_U=poisoned("b_U", -np.inf, 4),
        )
    )
    assert message.startswith("6 problem(s) with the weights of 2 layers × 4 heads (2 key/value), d_model 14")
    for told in (
        "W_E has shape (11, 14), expected (14, 11): transpose its last two axes",
        "W_Q has 1 numbers that are not finite, the first nan at (1, 2, 0, 5)",
        "W_K is missing: expected shape (2, 2, 3, 14)",
        "W_V must hold real numbers of at most 64 bits, found dtype complex128",
        "b_O has shape (2, 15), expected (2, 14)",
        "b_U has 1 numbers that are not finite, the first -inf at (4,)",
    ):
        assert told in message


@pytest.mark.parametrize(
    "wrong", [np.array([["a"]]), np.array([[object()]]), np.array([[True]]), "text", None]
)
def test_what_holds_no_real_numbers_is_refused(wrong: Any) -> None:
    message = problems(changed(W_O=wrong))
    assert "W_O must hold real numbers" in message or "W_O is missing" in message


def test_extended_precision_is_refused_and_not_cut() -> None:
    if np.dtype(np.longdouble).itemsize > 8:
        assert "W_U must hold real numbers of at most 64 bits" in problems(
            changed(W_U=MODEL.weights.W_U.astype(np.longdouble))
        )


def test_arrays_without_a_place_are_refused() -> None:
    plain = Config(n_layers=2, n_heads=4, n_kv_heads=2, d_model=14, d_head=3, d_vocab=11, n_ctx=40)
    message = problems(MODEL.weights, plain)
    for name in ("W_pos", "g_attn", "b_attn", "g_final", "b_final"):
        assert f"{name} has no place in this configuration" in message
    rms = random_model(norm="rmsnorm", biases=True)
    assert "b_attn" not in rms.weights.arrays() and "b_final" not in rms.weights.arrays()


@pytest.mark.parametrize("name", sorted(expected(MODEL.config)))
def test_the_check_looks_at_every_array(name: str) -> None:
    place = expected(MODEL.config)[name]
    longer = np.ones((*place.shape[:-1], place.shape[-1] + 1))
    assert f"{name} has shape {longer.shape}, expected {place.shape}" in problems(changed(**{name: longer}))
    assert f"{name} has 1 numbers" in problems(
        changed(**{name: poisoned(name, np.nan, *[0] * len(place.shape))})
    )


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_the_check_looks_at_every_array_of_a_family(name: str) -> None:
    model = FAMILIES[name]()
    longer = {name: np.ones((*a.shape, 1)) for name, a in model.weights.arrays().items()}
    message = problems(Weights(**longer), model.config)
    assert message.startswith(f"{len(longer)} problem(s)")
    required = [name for name, place in expected(model.config).items() if place.required]
    with pytest.raises(TypeError):
        Weights(**{name: a for name, a in model.weights.arrays().items() if name not in required})
    none: dict[str, Any] = dict.fromkeys(required)
    without = Weights(**longer | none)
    assert all(f"{name} is missing" in problems(without, model.config) for name in required)


def test_a_model_checks_its_weights_when_it_is_made() -> None:
    with pytest.raises(WeightsError, match="W_U has shape"):
        Model(MODEL.config, changed(W_U=np.zeros((3, 3))))


def test_optional_arrays_may_be_left_out() -> None:
    optional = {name: None for name, place in expected(MODEL.config).items() if not place.required}
    assert set(optional) == {"b_Q", "b_K", "b_V", "b_O", "b_U", "g_attn", "b_attn", "g_final", "b_final"}
    changed(**optional).check(MODEL.config)


def _minimal(**arrays: Any) -> Weights:
    none = np.zeros((0, 1, 1, 3))
    whole: dict[str, Any] = {
        "W_E": np.eye(3),
        "W_Q": none,
        "W_K": none,
        "W_V": none,
        "W_O": none,
        "W_U": np.eye(3),
    }
    return Weights(**whole | arrays)
