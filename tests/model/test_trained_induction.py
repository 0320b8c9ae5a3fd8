"""A trained two-layer model: its published figures, reproduced by our forward pass."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from pathexp.model.trace import Trace
from tests.shared_models import induction_2l_1h

RUNS = 400


@cache
def runs() -> tuple[tuple[Trace, int], ...]:
    """Runs of distinct tokens, the last of which repeats one; with each the place of what followed."""
    rng, model = np.random.default_rng(0), induction_2l_1h()
    found = []
    for _ in range(RUNS):
        tokens = rng.permutation(26)[:8]
        earlier = int(rng.integers(0, 6))
        tokens[7] = tokens[earlier]
        found.append((model.run(tokens), earlier + 1))
    return tuple(found)


def accuracy(keep: dict[str, tuple[bool, bool]]) -> float:
    """With the layer-1 head reading, for q, k and v, only the kept parts of its input: (embedding, L0)."""
    return float(np.mean([_predicted(trace, keep) == trace.tokens[after] for trace, after in runs()]))


def _predicted(trace: Trace, keep: dict[str, tuple[bool, bool]]) -> int:
    w = trace.model.weights
    embedding, first = trace.residuals["embed"], trace.residuals["L0.out"] - trace.residuals["embed"]
    q, k, v = (embedding * keep[s][0] + first * keep[s][1] for s in "qkv")
    scores = (w.W_Q[1, 0] @ q[-1]) @ (k @ w.W_K[1, 0].T).T / 8
    weights = np.exp(scores - scores.max())
    z = weights / weights.sum() @ (v @ w.W_V[1, 0].T)
    return int((w.W_U @ (trace.residuals["L0.out"][-1] + w.W_O[1, 0] @ z)).argmax())


WHOLE = dict.fromkeys("qkv", (True, True))


def test_the_first_layer_attends_to_the_previous_token() -> None:
    place = np.arange(1, 8)
    for trace, _ in runs():
        np.testing.assert_allclose(trace.patterns[0, 0, place, place - 1], 1.0, atol=5e-3)


def test_the_second_layer_attends_to_what_followed() -> None:
    found = np.mean([trace.patterns[1, 0, 7, after] for trace, after in runs()])
    assert found == pytest.approx(0.92, abs=0.02)


def test_it_predicts_what_followed() -> None:
    found = np.mean([trace.top_token() == trace.tokens[after] for trace, after in runs()])
    assert found == pytest.approx(0.92, abs=0.02)
    assert accuracy(WHOLE) == found  # the ablations below start from the model itself


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"k": (True, False)}, 0.0),
        ({"q": (True, False)}, 0.92),
        ({"v": (True, False)}, 0.92),
        ({"k": (False, True)}, 0.84),
    ],
    ids=["keys without L0", "queries without L0", "values without L0", "keys only through L0"],
)
def test_only_the_keys_need_the_first_layer(change: dict[str, tuple[bool, bool]], expected: float) -> None:
    assert accuracy(WHOLE | change) == pytest.approx(expected, abs=0.03)


def test_the_second_layer_copies_every_token() -> None:
    w = induction_2l_1h().weights
    circuit = w.W_U @ w.W_O[1, 0] @ w.W_V[1, 0] @ w.W_E
    assert (circuit.argmax(axis=0) == np.arange(26)).all()  # a column is a source token
    assert (circuit.argmax(axis=1) == np.arange(26)).all()
