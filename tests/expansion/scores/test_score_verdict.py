"""The verdict on a score has three outcomes."""

import numpy as np
import pytest

import pathexp as px
from pathexp.expansion.scores.verdict import verify_score


def test_a_score_holds_and_its_check_says_so():
    trace = px.load("attn-2l").run("the king and the")
    verdict = px.score(trace, "L1H0", query=3, key=1).verify()
    assert verdict.ok and verdict.check.outcome == "holds" and not verdict.reason


@pytest.mark.parametrize(
    ("error", "tolerance", "scale", "outcome"),
    [
        (0.0, 1e-9, 1.0, "holds"),
        (1e-6, 1e-9, 1.0, "fails"),
        (1e-6, 1e-2, 1.0, "undecided"),
        (np.nan, 1e-9, 1.0, "undecided"),
        (0.0, 1e-2, 1.0, "holds"),
    ],
)
def test_three_outcomes(error, tolerance, scale, outcome):
    verdict = verify_score(None, 2.0 + error, 2.0 + error, (5, 5), tolerance, 2.0, scale)
    assert verdict.check.outcome == outcome
    assert bool(verdict) == (outcome == "holds")
    assert "≤" not in str(verdict.check) or outcome == "holds"
