"""No false proof: adversarial searches against an oracle without rounding."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pathexp.expansion.search import Budget, unions
from tests.expansion.adversaries import (
    KINDS,
    RandomDice,
    check_claims,
    drawn_case,
    judged,
    judged_twice,
    numbers,
)
from tests.expansion.exact import Exact


@dataclass(frozen=True)
class Drawn:
    """Dice of hypothesis."""

    data: st.DataObject

    def pick(self, *options):
        return self.data.draw(st.sampled_from(options))

    def number(self, low, high):
        return self.data.draw(st.integers(low, high))


@pytest.mark.parametrize("enumerate_all", [False, True])
@settings(max_examples=160, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_claim_of_a_drawn_search_holds(enumerate_all, data):
    judged(drawn_case(Drawn(data)), enumerate_all)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("first", range(0, 840, 120))
def test_adversaries_are_proven_as_well_as_not_refuted(first):
    """1,680 searches in all: every claim holds, and a good part of them are proven with a margin that is no excuse."""
    cases = (drawn_case(RandomDice(np.random.default_rng(seed))) for seed in range(first, first + 120))
    outcomes = [outcome for case in cases for outcome in judged_twice(case) if outcome is not None]
    margins = [outcome.margin for outcome in outcomes if outcome.exact]
    assert len(outcomes) > 160
    assert len(margins) > 80
    assert np.median(margins) < 1e-9


@pytest.mark.parametrize("first", [4000, 8000650])
def test_adversaries_do_not_break_shells(first, monkeypatch):
    """What encloses the wide parts of large models, made to enclose every part of two columns: 8000720 once broke a bound."""
    monkeypatch.setattr(unions, "WIDE", 2)
    cases = (drawn_case(RandomDice(np.random.default_rng(seed))) for seed in range(first, first + 80))
    outcomes = [judged_twice(case)[0] for case in cases]
    assert sum(outcome is not None and outcome.exact for outcome in outcomes) > 20


@pytest.mark.parametrize("seed", [276559])
def test_seeds_that_once_broke_a_claim(seed):
    """276559: lengths that underflow on the way to the target bounded by 0 what is 2^-1655."""
    judged_twice(drawn_case(RandomDice(np.random.default_rng(seed))))


STOPPED = {"by time": Budget(seconds=0), "by a key": Budget(interrupted=lambda: True)}


@pytest.mark.parametrize("limit", STOPPED.values(), ids=STOPPED.keys())
@pytest.mark.parametrize("seeds", [range(40), [3553, 4545, 4921, 6639, 7548, 7861, 7884, 8052, 8142, 10497]])
def test_bounds_by_lengths_alone_hold_where_a_target_cancels(seeds, limit):
    """Searches that end at once. On its way to the stream a direction cancels, or underflows: nothing of it is left there."""
    cases = [drawn_case(RandomDice(np.random.default_rng(seed))) for seed in seeds]
    outcomes = [judged(replace(case, budget=limit)) for case in cases if case is not None]
    assert sum(outcome is not None for outcome in outcomes) > 5


@pytest.mark.parametrize("kind", sorted(set(KINDS)))
def test_the_oracle_is_exact(kind):
    """Products and sums in integers times powers of two are those of fractions."""
    a, b = (numbers(RandomDice(np.random.default_rng(seed)), 3, 3, kind) for seed in (1, 2))
    found = Exact.of(a) @ Exact.of(b) + Exact.of(b)
    wanted = [
        sum((Fraction(a[i, k]) * Fraction(b[k, j]) for k in range(3)), Fraction(b[i, j]))
        for i in range(3)
        for j in range(3)
    ]
    power = Fraction(2) ** found.exponent
    assert [Fraction(int(n)) * power for n in found.integers.reshape(-1)] == wanted


def claim(**changed):
    """A true claim about three paths, or a changed one."""
    term = SimpleNamespace(path=("a", "U"))
    truth = {
        "terms": (term,),
        "values": (3.0,),
        "errors": (1e-9,),
        "bound": 2.0,
        "margin": 0.0,
        "exact": True,
    }
    return SimpleNamespace(**(truth | changed))


EVERY = {("a", "U"): Fraction(3), ("b", "U"): Fraction(-2), ("c", "U"): Fraction(1, 3)}


@pytest.mark.parametrize(
    "changed",
    [
        {"values": (3.1,)},
        {"bound": 1.9},
        {"bound": 3.5},
        {"terms": (), "values": (), "errors": ()},
        {"margin": float("inf")},
        {"terms": (SimpleNamespace(path=("b", "U")),), "values": (-2.0,)},
    ],
    ids=str,
)
def test_a_false_claim_is_caught(changed):
    check_claims(claim(), EVERY, 1)
    with pytest.raises((AssertionError, ValueError)):
        check_claims(claim(**changed), EVERY, 1)
