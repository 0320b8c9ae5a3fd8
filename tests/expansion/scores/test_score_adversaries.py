"""No false proof of pairs of paths: adversarial scores against an oracle without rounding."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pathexp.errors import PathexpError
from pathexp.expansion.scores.products import Vectors, largest_products
from tests.expansion.adversaries import RandomDice, numbers
from tests.expansion.scores.score_adversaries import (
    by_hand,
    check_pairs_of,
    checked_score,
    drawn_score,
    judged_score,
)
from tests.expansion.test_adversaries import Drawn


def drawn(seed):
    return drawn_score(RandomDice(np.random.default_rng(seed)))


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_claim_of_a_drawn_score_holds(data):
    judged_score(drawn_score(Drawn(data)))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("first", range(0, 600, 100))
def test_pairs_are_proven_as_well_as_not_refuted(first):
    outcomes = [judged_score(drawn(seed)) for seed in range(first, first + 100)]
    assert outcomes.count(True) > 40 and outcomes.count(False) < 30


@pytest.mark.parametrize("seed", [9, 29, 126, 222, 233, 23511, 23927, 24980])
def test_products_that_underflow_are_off_by_something(seed):
    """Seeds whose errors or bounds were 0 where vectors are there and their products are not; or whose values were a term's own,
    multiplied in another order: the difference of two texts taken last, where the embeddings cancel."""
    assert judged_score(drawn(seed)) is not None


@pytest.mark.parametrize("first", [0, 40])
def test_the_checker_accepts_adversaries_that_are_true(first):
    checks = [check for seed in range(first, first + 40) for check in checked_score(drawn(seed))]
    assert len(checks) > 20
    refuted = [str(check) for check in checks if not check.ok and not check.reason]
    assert not refuted, refuted


def test_a_bound_holds_of_what_is_left_out_tile_by_tile(monkeypatch):
    """Whichever tiles are formed: no product that is not listed exceeds the bound."""
    monkeypatch.setattr("pathexp.expansion.scores.products.TILE", 3)
    for seed in range(200):
        dice = RandomDice(np.random.default_rng(seed))
        d = dice.number(1, 3)
        left, right = (numbers(dice, dice.number(1, 9), d) for _ in range(2))
        with np.errstate(all="ignore"):
            best, beyond, _ = largest_products(exactly(left), exactly(right), dice.number(1, 6))
        listed = {(product.left, product.right): product for product in best}
        for i, row in enumerate(left):
            for j, column in enumerate(right):
                value = sum(Fraction(a) * Fraction(b) for a, b in zip(row, column, strict=True))
                if (i, j) not in listed:
                    assert abs(value) <= beyond if np.isinf(beyond) else abs(value) <= Fraction(beyond)
                elif np.isfinite([listed[i, j].value, listed[i, j].error]).all():
                    assert abs(Fraction(listed[i, j].value) - value) <= Fraction(listed[i, j].error)


def exactly(array):
    return Vectors(array, np.zeros(len(array)), array != 0)


@pytest.mark.parametrize("kind", ["plain", "denormal", "huge", "tiny", "wide", "zero"])
@pytest.mark.parametrize("scale", [1.0, 1e-200, 5e-324, 1e100])
def test_a_turn_and_a_scale_lose_no_more_than_they_say(kind, scale):
    rng = np.random.default_rng(0)
    values, turn = numbers(RandomDice(rng), 4, 3, kind), rng.standard_normal((3, 3))
    turn[0] = 0.0
    for by in (None, turn):
        with np.errstate(all="ignore"):
            found = exactly(values).turned(by, scale)
        if not np.isfinite(found.values).all():
            continue
        matrix = np.eye(3) if by is None else by
        for row, got, off in zip(values, found.values, found.off, strict=True):
            wanted = [
                Fraction(scale) * sum(Fraction(a) * Fraction(b) for a, b in zip(m, row, strict=True))
                for m in matrix
            ]
            lost = sum((Fraction(a) - b) ** 2 for a, b in zip(got.tolist(), wanted, strict=True))
            assert np.isinf(off) or lost <= Fraction(off) ** 2
            assert off > 0 or not row.any()


def claim(**changed):
    truth = {"terms": ("a",), "values": (3.0,), "errors": (1e-9,), "bound": 2.0, "margin": 0.0, "exact": True}
    return SimpleNamespace(**(truth | changed))


@pytest.mark.parametrize(
    "changed",
    [{"values": (3.1,)}, {"bound": 1.9}, {"bound": 3.5}, {"terms": ("b",), "values": (-2.0,)}],
    ids=str,
)
def test_a_false_claim_of_pairs_is_caught(changed):
    every = {"a": Fraction(3), "b": Fraction(-2), "c": Fraction(1, 3)}
    check_pairs_of(claim(), every, 1)
    with pytest.raises(AssertionError):
        check_pairs_of(claim(**changed), every, 1)


def test_what_rounding_blurs_is_not_called_proven():
    """Pairs that cancel to less than their rounding are listed, and the headline says that they are not proven."""
    headlines = {True: set(), False: set()}
    for seed in range(60):
        case = by_hand(RandomDice(np.random.default_rng(seed)))
        with np.errstate(all="ignore"), suppress(PathexpError):
            ranking = case.ranking()
            assert ranking.complete == ranking.exact
            headlines[ranking.exact].add("(proven" in ranking.headline())
    assert headlines == {True: {True}, False: {False}}
