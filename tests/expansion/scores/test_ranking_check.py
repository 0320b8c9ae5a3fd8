"""The check of a score's largest pairs of paths: accepts what is true, rejects what was changed."""

from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from tests.zoo import FAMILIES, ZOO

MODELS = {**ZOO, **FAMILIES}


def scored(name, k=4, **kinds):
    model = MODELS[name]()
    tokens = np.random.default_rng(0).integers(0, model.config.d_vocab, min(5, model.config.n_ctx))
    last = model.config.n_layers - 1
    if last < 0:
        pytest.skip("no heads")
    terms = px.score(model.run(tokens), f"L{last}H0", query=-1, key=len(tokens) - 2)
    return (terms.where(**kinds) if kinds else terms).top(k)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_ranking_of_the_zoo_is_accepted(name):
    check = scored(name).check()
    assert check.ok and check, str(check)


def test_kinds_that_were_left_out_are_not_missed():
    for kind in ("direct", "K-composition", ["joint", "Q-composition"]):
        assert scored("2L-plain", 3, kind=kind).check().ok


@pytest.mark.parametrize(
    "tampered",
    [
        lambda best: replace(best, values=(best.values[0] * (1 + 1e-9), *best.values[1:])),
        lambda best: replace(best, bound=best.bound * 0.99),
        lambda best: replace(best, terms=best.terms[1:], values=best.values[1:]),
        lambda best: replace(best, values=best.values[::-1]),
        lambda best: replace(best, bound=float("nan")),
    ],
)
def test_what_was_changed_is_rejected(tampered):
    best = scored("3L-layernorm")
    assert best.check().ok
    assert not tampered(best).check().ok


@pytest.mark.parametrize(
    ("error", "reason", "outcome"),
    [(0.0, "", "holds"), (1.0, "", "does not hold"), (0.0, "too coarse", "could not be checked")],
)
def test_the_headline_tells_what_fails_from_what_cannot_be_told(error, reason, outcome):
    check = scored("2L-plain").check()
    changed = replace(check, checks=(*check.checks, px.answer.Check("one more", error, 0.0, reason=reason)))
    assert changed.headline() == f"the ranking of pairs of paths {outcome}, checked without the search"
    assert bool(changed) == changed.ok == (outcome == "holds")


def test_a_copy_without_its_graph_says_so():
    with pytest.raises(px.errors.PathexpError, match="without its graph"):
        replace(scored("2L-plain"), checker=None).check()
