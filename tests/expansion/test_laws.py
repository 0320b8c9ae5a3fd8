"""Makers × laws: what must hold of every expansion, held against every model of the zoo."""

import numpy as np
import pytest

import pathexp as px
from tests.oracle import naive_terms
from tests.zoo import ZOO

LENGTHS = (1, 2, 9)


@pytest.fixture(params=sorted(ZOO))
def model(request):
    return ZOO[request.param]()


def run(model, length, seed=0):
    length = min(length, model.config.n_ctx)
    return model.run(np.random.default_rng(seed).integers(0, model.config.d_vocab, length))


@pytest.mark.parametrize("length", LENGTHS)
def test_verdict(model, length):
    verdict = px.expand(run(model, length)).verify()
    assert verdict.ok, str(verdict)


def test_every_term_equals_the_naive_oracle(model):
    trace = run(model, 5)
    terms, naive = px.expand(trace), naive_terms(trace)
    assert {str(term.path) for term in terms} == set(naive)
    for term in terms:
        np.testing.assert_allclose(term.logits(), naive[str(term.path)], atol=1e-10, err_msg=str(term.path))


def test_counts_agree_with_listing(model):
    terms = px.expand(run(model, 3))
    paths = [str(term.path) for term in terms]
    assert len(paths) == len(set(paths)) == terms.count()
    orders = [path.count(" ") - 1 for path in paths]
    assert orders == sorted(orders)
    assert terms.count_by_order() == tuple(orders.count(k) for k in range(len(terms.count_by_order())))


def test_totals_by_order(model):
    trace = run(model, 4)
    terms = px.expand(trace)
    totals = terms.by_order()
    for order, total in enumerate(totals):
        listed = sum((t.logits() for t in terms if t.order == order), np.zeros_like(trace.logits))
        np.testing.assert_allclose(total, listed, atol=1e-10)
    np.testing.assert_allclose(sum(totals), trace.logits, atol=1e-9)


def test_symbols_equal_numbers(model):
    """The arrays, put into the sympy sum, give the logits (SYSTEMS D6)."""
    trace = run(model, 3)
    terms = px.expand(trace)
    whole = px.evaluate(terms.expr(), terms.arrays())
    n, vocab = trace.logits.shape
    if whole.shape[1] != 1:
        one_hot = np.zeros((n, vocab))
        one_hot[np.arange(n), trace.tokens] = 1
        whole = whole @ one_hot.reshape(-1, 1)
    np.testing.assert_allclose(whole.reshape(n, vocab), trace.logits, atol=1e-9)


def test_values_align_with_iteration(model):
    trace = run(model, 4)
    terms = px.expand(trace)
    for target in (
        trace.logit(1, position=2),
        trace.logit_difference(0, 2, position=-1),
        trace.direction(np.arange(1.0, model.config.d_model + 1), position=1, space="residual"),
    ):
        values = terms.values(target)
        np.testing.assert_allclose(values, [term.value(target) for term in terms], atol=1e-10)
        np.testing.assert_allclose(values.sum(), target.value, atol=1e-9)
        np.testing.assert_allclose(terms.value(target), target.value, atol=1e-9)


def test_ranking_is_by_absolute_value_with_exact_remainder(model):
    trace = run(model, 4)
    terms = px.expand(trace)
    target = trace.logit(trace.top_token())
    ranking = terms.top(3, target)
    brute = sorted((abs(term.value(target)) for term in terms), reverse=True)
    np.testing.assert_allclose(np.abs(ranking.values), brute[:3], atol=1e-10)
    np.testing.assert_allclose(ranking.value + ranking.remainder, target.value, atol=1e-9)
    assert ranking.exact and ranking.examined == ranking.count == terms.count()
    if len(brute) > 3:
        np.testing.assert_allclose(ranking.bound, brute[3], atol=1e-10 + ranking.margin)


def test_a_query_and_its_complement_split_the_logits(model):
    trace = run(model, 4)
    terms = px.expand(trace)
    for text in ("E .* U", ". | E U", ".+ . U | E . U", ". .* U"):
        try:
            chosen = terms.where(text)
        except px.PathexpError:
            continue
        rest = chosen.rest()
        assert chosen.count() + rest.count() == terms.count()
        np.testing.assert_allclose(chosen.logits() + rest.logits(), trace.logits, atol=1e-9)
        listed = sum((t.logits() for t in chosen), np.zeros_like(trace.logits))
        np.testing.assert_allclose(chosen.logits(), listed, atol=1e-10)


def test_pattern_and_weight_make_the_term(model):
    trace = run(model, 5)
    for term in px.expand(trace).where("E .* U"):
        dense = term.weight.dense()
        np.testing.assert_allclose(term.logits(), term.pattern @ dense[:, trace.tokens].T, atol=1e-10)
