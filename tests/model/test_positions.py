"""Rotary, with its published scalings, sinusoids, slopes and masks."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pathexp.errors import ConfigError
from pathexp.model.config import Config
from pathexp.model.positions import sinusoids, slopes, visible
from pathexp.model.rotary import Dynamic, Linear, Llama3, LongRope, Rotary, Yarn
from tests.drawn import SCALINGS

LLAMA3 = Llama3(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_n_ctx=8192)


@pytest.mark.parametrize(
    ("pairing", "turned"),
    [("half", [0.5403023, 0, 0.8414710, 0]), ("adjacent", [0.5403023, 0.8414710, 0, 0])],
)
def test_pairings(pairing: str, turned: list[float]) -> None:
    at_one = Rotary(dims=4, pairing=pairing).turned(np.array([[1.0, 0, 0, 0]] * 2))[1]
    np.testing.assert_allclose(at_one, turned, atol=1e-7)


def test_the_base_sets_the_frequencies() -> None:
    np.testing.assert_allclose(Rotary(dims=4).frequencies(), [1, 0.01], rtol=1e-14)
    np.testing.assert_allclose(Rotary(dims=4, base=500000.0).frequencies(), [1, 0.00141421356], rtol=1e-8)


@given(
    st.sampled_from(("half", "adjacent")),
    st.sampled_from((2, 4, 6)),
    st.sampled_from(SCALINGS),
    st.integers(0, 999),
)
def test_scores_depend_on_the_distance_and_lengths_are_kept(
    pairing: str, dims: int, scaling: Any, seed: int
) -> None:
    rotary = Rotary(dims=dims, pairing=pairing, scaling=scaling, base=30.0)
    q, k = np.random.default_rng(seed).standard_normal((2, 7))
    Q, K = rotary.turned(np.tile(q, (9, 1))), rotary.turned(np.tile(k, (9, 1)))
    scores = Q @ K.T
    np.testing.assert_allclose(np.diag(scores, 3), scores[3, 6], atol=1e-12)
    np.testing.assert_array_equal(Q[:, dims:], np.tile(q[dims:], (9, 1)))
    length = np.linalg.norm(Q[:, :dims], axis=1)
    np.testing.assert_allclose(length, rotary.amplitude * np.linalg.norm(q[:dims]), rtol=1e-12)


def test_the_callers_array_is_not_turned() -> None:
    x = np.ones((3, 4))
    Rotary(dims=4).turned(x)
    assert (x == 1).all()


def published_llama3(frequencies: list[float], s: Llama3) -> list[float]:
    """Case by case, by wavelength."""
    found = []
    for f in frequencies:
        wavelength = 2 * math.pi / f
        if wavelength < s.original_n_ctx / s.high_freq_factor:
            found.append(f)
        elif wavelength > s.original_n_ctx / s.low_freq_factor:
            found.append(f / s.factor)
        else:
            smooth = (s.original_n_ctx / wavelength - s.low_freq_factor) / (
                s.high_freq_factor - s.low_freq_factor
            )
            found.append((1 - smooth) * f / s.factor + smooth * f)
    return found


def published_yarn(base: float, dims: int, s: Yarn) -> list[float]:
    """Pair by pair, from the paper's correction dimensions."""

    def place(turns: float) -> float:
        return dims * math.log(s.original_n_ctx / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = place(s.beta_fast), place(s.beta_slow)
    if s.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dims - 1)
    high = high + 0.001 if low == high else high
    found = []
    for pair in range(dims // 2):
        ramp = min(max((pair - low) / (high - low), 0), 1)
        f = base ** (-2 * pair / dims)
        found.append(f / s.factor * ramp + f * (1 - ramp))
    return found


@pytest.mark.parametrize("dims", [2, 8, 64, 128])
@pytest.mark.parametrize("base", [10000.0, 500000.0])
def test_scalings_are_those_that_were_published(dims: int, base: float) -> None:
    plain = Rotary(dims=dims, base=base).frequencies()
    llama = Rotary(dims=dims, base=base, scaling=LLAMA3).frequencies()
    np.testing.assert_allclose(llama, published_llama3(plain.tolist(), LLAMA3), rtol=1e-13)
    for yarn in (
        Yarn(factor=4.0, original_n_ctx=2048),
        Yarn(factor=40.0, original_n_ctx=4096, truncate=False),
        Yarn(factor=2.0, original_n_ctx=16),
    ):
        found = Rotary(dims=dims, base=base, scaling=yarn).frequencies()
        np.testing.assert_allclose(found, published_yarn(base, dims, yarn), rtol=1e-13)
    linear = Rotary(dims=dims, base=base, scaling=Linear(factor=4.0)).frequencies()
    np.testing.assert_allclose(linear, plain / 4, rtol=1e-15)


def test_a_base_that_grows_with_the_text() -> None:
    """As published: the base is multiplied, once the text is longer than the model was trained for."""
    scaling = Dynamic(factor=4.0, original_n_ctx=16)
    rotary = Rotary(dims=8, base=500.0, scaling=scaling)
    for n in (1, 15, 16):
        np.testing.assert_array_equal(rotary.frequencies(n), Rotary(dims=8, base=500.0).frequencies())
    for n in (17, 40, 300):
        base = 500.0 * (4.0 * n / 16 - 3.0) ** (8 / 6)
        np.testing.assert_allclose(rotary.frequencies(n), Rotary(dims=8, base=base).frequencies(), rtol=1e-13)
    assert Rotary(dims=2, scaling=scaling).frequencies(99).tolist() == [1.0]


def test_divisors_for_short_and_for_long_text() -> None:
    scaling = LongRope(short=(1.0, 2.0), long=(3.0, 4.0), original_n_ctx=16, attention_factor=1.19)
    rotary = Rotary(dims=4, base=100.0, scaling=scaling)
    np.testing.assert_allclose(rotary.frequencies(16), [1.0, 0.05])
    np.testing.assert_allclose(rotary.frequencies(17), [1 / 3, 0.025])
    at_one = rotary.turned(np.ones((17, 4)))[1]
    assert at_one[0] == pytest.approx(1.19 * (math.cos(1 / 3) - math.sin(1 / 3)))


def test_scalings_that_depend_on_length_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"factor: expected a finite number ≥ 1, got 0\.5"):
        Dynamic(factor=0.5, original_n_ctx=4)
    with pytest.raises(ConfigError, match=r"long\[1\]: expected a finite number > 0, got 0"):
        LongRope(short=(1.0, 1.0), long=(1.0, 0), original_n_ctx=4)
    with pytest.raises(ConfigError, match="one divisor for each of the 3 pairs of dims=6, found 2"):
        Rotary(dims=6, scaling=LongRope(short=(1.0, 1.0, 1.0), long=(1.0, 2.0), original_n_ctx=4))


def test_scalings_change_something_in_the_middle() -> None:
    plain = Rotary(dims=64, base=500000.0).frequencies()
    for scaling in (LLAMA3, Yarn(factor=4.0, original_n_ctx=2048)):
        ratio = Rotary(dims=64, base=500000.0, scaling=scaling).frequencies() / plain
        assert ratio[0] == 1 and ratio[-1] == pytest.approx(1 / scaling.factor)
        assert ((ratio > 1.01 / scaling.factor) & (ratio < 0.99)).any()


def test_yarn_makes_scores_larger() -> None:
    assert Yarn(factor=4.0, original_n_ctx=8).amplitude == pytest.approx(0.1 * math.log(4) + 1)
    assert Yarn(factor=0.5, original_n_ctx=8).amplitude == 1
    assert Yarn(factor=4.0, original_n_ctx=8, attention_factor=1.25).amplitude == 1.25
    assert Linear(factor=4.0).amplitude == LLAMA3.amplitude == 1


@pytest.mark.parametrize("scaling", SCALINGS)
def test_it_goes_through_json(scaling: Any) -> None:
    rotary = Rotary(base=500.0, dims=2, pairing="adjacent", scaling=scaling)
    config = Config(
        n_layers=1, n_heads=1, d_model=4, d_head=4, d_vocab=3, n_ctx=5, positions="rotary", rotary=rotary
    )
    assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Rotary(base=1.0), "rotary base: expected a finite number > 1, got 1.0"),
        (lambda: Rotary(dims=3), "rotary dims must be even, since they are turned in pairs; found 3"),
        (lambda: Rotary(dims=0), "rotary dims: expected an integer ≥ 2, got 0"),
        (lambda: Rotary(pairing="interleaved"), "expected one of 'half', 'adjacent'"),
        (
            lambda: Rotary(scaling="yarn"),  # type: ignore[arg-type]
            "rotary scaling must be one of Linear, Llama3, Yarn, Divided, Dynamic, LongRope or None, found 'yarn'",
        ),
        (lambda: Rotary().frequencies(), "rotary dims are not known"),
        (lambda: Linear(factor=0.0), "factor: expected a finite number > 0, got 0.0"),
        (
            lambda: Yarn(factor=2.0, original_n_ctx=0),
            "original_n_ctx: expected an integer ≥ 1, got 0",
        ),
        (lambda: Yarn(factor=2.0, original_n_ctx=8, beta_fast=1.0), "beta_fast must be above beta_slow"),
        (
            lambda: Llama3(factor=2.0, low_freq_factor=4.0, high_freq_factor=4.0, original_n_ctx=8),
            "high_freq_factor must be above low_freq_factor",
        ),
        (lambda: Rotary.from_dict({"theta": 1e4}), "rotary has no 'theta'"),
        (lambda: Rotary.from_dict({"scaling": {"kind": "ntk"}}), "kind: expected one of 'linear'"),
        (lambda: Rotary.from_dict({"scaling": {"kind": ["x"]}}), "expected one of"),
        (lambda: Rotary.from_dict({"scaling": {"kind": "yarn"}}), "missing: factor, original_n_ctx"),
        (lambda: Rotary.from_dict({"scaling": {"kind": "linear", "f": 2}}), "'linear' has no 'f'"),
        (lambda: Rotary.from_dict({"scaling": 4.0}), "rotary scaling must be a mapping, found 4.0"),
        (
            lambda: _config(rotary=Rotary(dims=6)),
            "rotary dims must be at most d_head: found dims=6, d_head=5",
        ),
        (lambda: _config(), "rotary dims must be even, since they are turned in pairs; found 5"),
        (lambda: _config(rotary={"base": 1e4}), "rotary must be a Rotary or None"),
        (
            lambda: _config(positions="alibi", rotary=Rotary(dims=2)),
            "needs positions='rotary', found 'alibi'",
        ),
    ],
)
def test_what_does_not_fit_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def _config(**switches: Any) -> Config:
    sizes: dict[str, Any] = {"n_layers": 1, "n_heads": 1, "d_model": 4, "d_head": 5, "d_vocab": 3, "n_ctx": 5}
    return Config(**sizes | {"positions": "rotary"} | switches)


def test_sinusoids() -> None:
    table = sinusoids(50, 7)
    for place, i in [(0, 0), (3, 0), (3, 1), (49, 4), (49, 5), (20, 6)]:
        angle = place / 10000 ** (2 * (i // 2) / 7)
        assert table[place, i] == pytest.approx(math.cos(angle) if i % 2 else math.sin(angle), abs=1e-14)


def test_slopes() -> None:
    np.testing.assert_allclose(slopes(8), [2.0**-k for k in range(1, 9)])
    np.testing.assert_allclose(slopes(16), [2.0 ** (-k / 2) for k in range(1, 17)])
    np.testing.assert_allclose(
        slopes(12), [*(2.0**-k for k in range(1, 9)), 2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]
    )
    np.testing.assert_allclose(slopes(1), [2.0**-8])


def test_who_may_see_whom() -> None:
    assert visible(slice(0, 3), slice(0, 3), True, None).tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert visible(slice(0, 3), slice(0, 3), True, 2).tolist() == [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    assert visible(slice(0, 3), slice(0, 3), False, 2).tolist() == [[1, 1, 0], [1, 1, 1], [0, 1, 1]]
    assert visible(slice(0, 3), slice(0, 3), True, 1).tolist() == np.eye(3).tolist()
    assert visible(slice(0, 2), slice(0, 2), False, None).all()
