"""Values of all paths: aligned with iteration wherever paths meet, and a part is never refused where the whole is not."""

import numpy as np
import pytest

import pathexp as px
from pathexp.errors import SizeError
from pathexp.expansion import values
from tests.zoo import ZOO

MOST = "E .? .? .? .? U"
"""At most four components: five states, each with endings of its own."""

QUERIES = ("E .* U", MOST, "E (. .)* U", "E .* L1H1 .* U", "~(E .* L2H0 .* L4H1 .* U)")


@pytest.fixture
def trace():
    model = px.random_model(
        layers=6, heads=2, d_model=8, d_head=2, d_vocab=9, n_ctx=4, norm="rmsnorm", seed=3
    )
    return model.run([1, 5, 2])


def numbers(terms, middle):
    """How many numbers the endings take if these terms meet at a depth."""
    live, walk = values._beginnings(terms.walk), terms.walk
    n, d, _ = walk.graph.sizes
    held = (walk.completions.amount(depth, s) for depth in range(middle, len(live)) for s in live[depth])
    return sum(held) * n * d


@pytest.mark.sampled(4)
@pytest.mark.parametrize("condition", QUERIES)
@pytest.mark.parametrize("middle", range(7))
def test_the_same_wherever_they_meet(trace, condition, middle, monkeypatch):
    terms, target = px.expand(trace).where(condition), trace.logit(4)
    expected = [term.value(target) for term in terms]
    monkeypatch.setattr(values, "_middle", lambda walk: middle)
    np.testing.assert_allclose(terms.values(target), expected, atol=1e-12)
    monkeypatch.setattr(values, "CHUNK", 1)
    np.testing.assert_allclose(terms.values(target), expected, atol=1e-12)


def test_narrowed_is_not_refused_where_the_whole_is_allowed(trace, monkeypatch):
    """Endings are held per state of the query: where those are too many, paths meet later."""
    whole, target = px.expand(trace), trace.logit(4)
    middle = values._middle(whole.walk)
    limit = numbers(whole, middle)
    monkeypatch.setattr(values, "MEMORY_LIMIT", limit)
    assert values._middle(whole.walk) == middle
    some = whole.where(MOST)
    assert numbers(some, middle) > limit, "the part needs more than the whole at the same depth"
    np.testing.assert_allclose(some.values(target), [term.value(target) for term in some], atol=1e-12)
    for condition in QUERIES:
        assert len(whole.where(condition).values(target)) == whole.where(condition).count()


@pytest.mark.parametrize("name", sorted(ZOO))
def test_what_is_held_stays_within_the_limit(name, monkeypatch):
    """However little is allowed, down to one ending a state, values are found, and no more is held."""
    model = ZOO[name]()
    trace = model.run(np.arange(min(3, model.config.n_ctx)) % model.config.d_vocab)
    terms, target = px.expand(trace), trace.logit(1)
    n, d, _ = terms.graph.sizes
    expected, last = terms.values(target), len(terms.graph.blocks)
    monkeypatch.setattr(values, "MEMORY_LIMIT", numbers(terms, last))
    assert numbers(terms, last) == n * d
    np.testing.assert_allclose(terms.values(target), expected, atol=1e-11)
    monkeypatch.setattr(values, "MEMORY_LIMIT", n * d - 1)
    with pytest.raises(SizeError, match=f"every ending is {n} positions × {d}"):
        terms.values(target)


def test_beginnings_are_counted_by_what_can_be_completed(trace):
    whole = values._beginnings(px.expand(trace).walk)
    per_source = [3**depth for depth in range(7)]
    sources = whole[0].total()
    assert [here.total() for here in whole] == [sources * amount for amount in per_source]
    some = values._beginnings(px.expand(trace, "E L0H0 L1H1 U").walk)
    assert [here.total() for here in some] == [1] * 7


def test_what_was_met_is_not_held_any_longer():
    trace = ZOO["2L-gqa"]().run([1, 2, 3])
    walk, target = px.expand(trace).walk, trace.logit(1)
    meeting = values._Meeting(walk, values._middle(walk), values._Endings(walk, target))
    assert len(meeting.values()) == sum(walk.count_by_order)
    assert not meeting._waiting
