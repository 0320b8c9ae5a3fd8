"""What is left out of endings makes values uncertain: whoever may belong to a list is valued again before it is cut."""

import numpy as np
import pytest

import pathexp as px
from pathexp.expansion.ranking import enumerated, searched
from pathexp.expansion.search import certified
from pathexp.expansion.search.budget import Budget
from pathexp.expansion.search.found import CONTENDERS, Best, Suffixes
from pathexp.expansion.search.sweep import Sweep
from tests.zoo import FAMILIES, ZOO

MODELS = {**ZOO, **FAMILIES}
NAMES = ("E",)


def best(k, values, errors):
    found = Best(k, (NAMES,), "U", Suffixes())
    for place, (value, error) in enumerate(zip(values, errors, strict=True)):
        found.offer(f"L0H{place}", np.array([[value]]), np.array([error]), np.array([0]), np.array([0]))
    return found


def test_whoever_may_belong_to_the_list_is_kept():
    found = best(2, [5.0, 4.0, 3.9, 3.0, -4.05], [0.0, 0.1, 0.1, 0.1, 0.3])
    words = [path.word[1] for path in found.words()]
    assert words == [
        "L0H0",
        "L0H4",
        "L0H1",
        "L0H2",
    ]  # -4.05 may be 3.75, 4.0 is 3.9 at least, and 3.9 may be 4.0
    assert found.threshold == 3.9 and found.missed == pytest.approx(3.1)


def test_no_more_are_kept_than_can_be_valued_again():
    found = best(1, [2.0] * (CONTENDERS + 9), [0.5] * (CONTENDERS + 9))
    assert len(found.words()) == CONTENDERS + 1 and found.missed == 2.5


def test_nothing_unbounded_is_left_out():
    """With an infinite threshold as well: what is left out would make every longer path unbounded."""
    sweep = Sweep(None, None, best(1, [1.0], [0.0]), Budget(), blur=0.5)
    for threshold in (np.inf, 1.0):
        sweep.best.threshold = threshold
        dropped, lost = sweep._negligible(np.array([[np.inf, 0.25, np.nan, 0.125]]))
        assert dropped.tolist() == [[False, True, False, True]] and 0.375 <= lost[0] < 0.376


@pytest.mark.parametrize("name", sorted(MODELS))
def test_lists_are_the_same_however_much_is_left_out(name, monkeypatch):
    model = MODELS[name]()
    trace = model.run(np.random.default_rng(3).integers(0, model.config.d_vocab, min(4, model.config.n_ctx)))
    terms = px.expand(px.freeze(trace))
    if terms.count() > 20_000:
        pytest.skip("too many to list")
    target = trace.logit(1) if model.config.d_vocab > 1 else trace.logit(0)
    known = enumerated(terms.walk, 4, target, terms.value(target))
    for blur in (0.0, 2.0**-6, 2.0**-2):
        monkeypatch.setattr(certified, "BLUR", blur)
        found = searched(terms.walk, 4, target, terms.value(target), Budget())
        most = max(map(abs, known.values), default=0.0)
        assert all(error <= 1e-6 * most + 1e-200 for error in found.errors)
        listed = {term.path for term in found}
        for term, value, error in zip(known, known.values, known.errors, strict=True):
            assert term.path in listed or abs(value) - error <= found.bound
        if found.exact:
            room = max((*found.errors, *known.errors), default=0.0)
            np.testing.assert_allclose(np.abs(found.values), np.abs(known.values), rtol=0, atol=room)
