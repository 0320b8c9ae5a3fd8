"""Few paths added one by one, from beginnings that they share: the same as terms taken singly."""

import numpy as np
import pytest

import pathexp as px
from pathexp.expansion.one_by_one import MOST, MOST_NUMBERS, is_small, path_streams, sum_of_paths
from pathexp.expansion.tolerance import rounding_tolerance
from tests.zoo import FAMILIES, ZOO

EVERY = {**ZOO, **FAMILIES}


def terms_of(name: str) -> px.Expansion:
    model = EVERY[name]()
    terms = px.expand(model.run(np.arange(min(5, model.config.n_ctx)) % model.config.d_vocab))
    return terms if terms.count() <= 300 else terms.where("S .? U")


@pytest.mark.parametrize("name", EVERY)
def test_the_sum_is_that_of_terms_taken_singly(name):
    terms = terms_of(name)
    added, total, size = sum_of_paths(terms.walk)
    each = np.stack([term.logits() for term in terms])
    assert added == terms.count() == len(each)
    assert np.abs(total - each.sum(axis=0)).max() <= rounding_tolerance(terms.graph, added, size)


@pytest.mark.parametrize("name", ["2L-plain", "gpt2", "gemma2", "parallel-no-norm"])
def test_every_path_has_a_stream_of_its_own(name):
    terms = terms_of(name)
    streams = [term.stream() for term in terms if not _straight(terms.graph, term)]
    found = path_streams(terms.walk)
    toward = np.random.default_rng(1).standard_normal(found.shape[1:])
    values = np.sort(np.einsum("knd,nd->k", found, toward))
    np.testing.assert_allclose(values, np.sort(np.einsum("knd,nd->k", np.stack(streams), toward)), atol=1e-10)


def _straight(graph: px.ResidualGraph, term: px.Term) -> bool:
    return len(term.path) == 2 and term.source.depth is None


def test_both_ways_agree_on_either_side_of_the_limit():
    few = px.expand(
        px.random_model(layers=2, heads=21, d_model=8, d_head=2, d_vocab=9, seed=1).run([1, 2, 3])
    )
    many = px.expand(
        px.random_model(layers=2, heads=22, d_model=8, d_head=2, d_vocab=9, seed=1).run([1, 2, 3])
    )
    assert few.count() == 968 <= MOST < many.count() == 1058  # from tokens and from positions
    for terms, method in ((few, "one by one"), (many, "recurrence")):
        added, total, _ = sum_of_paths(terms.walk)
        np.testing.assert_allclose(total, terms.logits(), atol=1e-12)
        assert added == terms.count() and terms.verify().ok and method in terms.verify().method


def test_many_paths_and_long_texts_are_left_to_the_recurrence():
    many = px.expand(px.random_model(layers=3, heads=12, seed=1).run([1, 2]))
    assert many.count() > MOST and not is_small(many.walk) and "recurrence" in many.verify().method
    wide = px.random_model(layers=2, heads=16, d_model=400, d_head=2, n_ctx=100, seed=1)
    long = px.expand(wide.run([1] * 100))
    assert long.count() * 100 * 400 > MOST_NUMBERS and not is_small(long.walk)
    assert long.count() < MOST and "recurrence" in long.verify().method


def test_a_verdict_on_a_contrast_says_what_its_paths_add_up_to():
    model = px.random_model(layers=2, heads=2, seed=1)
    terms = px.expand(px.contrast(model.run([1, 2, 3]), model.run([4, 2, 3])))
    verdict = terms.verify()
    assert verdict.ok and str(verdict).startswith("paths add up to the difference of the two runs")
    assert "49 terms added one by one" in verdict.method
    one = px.verify(list(terms), terms.graph, terms.graph.expected)
    assert one.ok and one.claim == verdict.claim != px.expand(model.run([1, 2, 3])).verify().claim
