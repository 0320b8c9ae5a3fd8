"""Scores of random models over every switch at once: always exact, whatever is frozen."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import pathexp as px
from tests.drawn import models


@settings(max_examples=60, deadline=None)
@given(model=models(), seed=st.integers(0, 10**6), length=st.sampled_from([1, 2, 9]), source=st.booleans())
def test_every_switch(model, seed, length, source):
    if model.config.n_layers == 0:
        return
    rng = np.random.default_rng(seed)
    trace = model.run(rng.integers(0, model.config.d_vocab, min(length, model.config.n_ctx)))
    layer, head = model.config.n_layers - 1, int(rng.integers(model.config.n_heads))
    query = int(rng.integers(len(trace)))
    key = int(rng.choice(np.flatnonzero(np.isfinite(trace.scores[layer, head, query]))))
    graph = px.freeze(trace, mlp="source") if source else px.freeze(trace)
    terms = px.score(trace, f"L{layer}H{head}", query=query, key=key, graph=graph)
    verdict = terms.verify()
    assert verdict.ok, str(verdict)
    seen = np.isfinite(trace.scores[layer, head, query])
    np.testing.assert_allclose(terms.row()[seen], trace.scores[layer, head, query][seen], atol=1e-9)
    assert np.isnan(terms.row()[~seen]).all()
    np.testing.assert_allclose(sum(terms.by_kind().values()), terms.value(), atol=1e-9)
    np.testing.assert_allclose(sum(e.advantage for e in terms.effects()), terms.advantage(), atol=1e-9)
    total = terms.pattern_without()[seen].sum()
    assert 0.0 < total < 1.0 if model.config.sinks else abs(total - 1.0) < 1e-7
    ranking = terms.top(2)
    np.testing.assert_allclose(ranking.value + ranking.remainder, terms.value(), atol=1e-9)
    if terms.count() <= 300:
        brute = sorted((abs(term.value) for term in terms), reverse=True)[:2]
        np.testing.assert_allclose(np.abs(ranking.values), brute, atol=1e-11)
