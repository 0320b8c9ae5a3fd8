"""The forward pass against a second one, written number by number."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pathexp.model.config import Config
from pathexp.model.model import Model
from tests.drawn import models
from tests.model.naive import naive
from tests.zoo import FAMILIES, MORE_EXPERTS, ZOO


def assert_same(model: Model, tokens: np.ndarray) -> None:
    trace, other = model.run(tokens), naive(model, tokens.tolist())
    np.testing.assert_allclose(trace.logits, other.logits, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(trace.patterns, np.reshape(other.patterns, trace.patterns.shape), atol=1e-11)


@pytest.mark.parametrize("name", [*ZOO, *FAMILIES, *MORE_EXPERTS])
@pytest.mark.parametrize("length", [1, 2, 9])
def test_the_zoo(name: str, length: int) -> None:
    model = {**ZOO, **FAMILIES, **MORE_EXPERTS}[name]()
    assert_same(model, np.random.default_rng(length).integers(0, model.config.d_vocab, length))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_longer_than_a_window(name: str) -> None:
    model = FAMILIES[name]()
    assert_same(model, np.random.default_rng(0).integers(0, model.config.d_vocab, 33))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(model=models(), length=st.integers(1, 6), seed=st.integers(0, 1000))
def test_every_switch_at_once(model: Model, length: int, seed: int) -> None:
    assert_same(model, np.random.default_rng(seed).integers(0, model.config.d_vocab, length))
    assert Config.from_dict(model.config.to_dict()) == model.config
