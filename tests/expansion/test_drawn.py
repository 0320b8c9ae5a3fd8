"""Hypothesis draws configurations over all switches at once; every one of them adds up."""

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import pathexp as px
from tests.drawn import models

relaxed = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@relaxed
@given(
    models(),
    st.sampled_from([1, 2, 5]),
    st.sampled_from(["gate", "source"]),
    st.sampled_from(["ratio", "before"]),
)
def test_every_model_adds_up(model, length, mlp, cap):
    length = min(length, model.config.n_ctx)
    trace = model.run(np.arange(length) % model.config.d_vocab)
    verdict = px.expand(px.freeze(trace, mlp=mlp, cap=cap)).verify()
    assert verdict.ok, f"{model.config}\n{verdict}"


@relaxed
@given(models(), st.data())
def test_a_query_and_its_rest_split_the_whole(model, data):
    trace = model.run(np.arange(2) % model.config.d_vocab)
    terms = px.expand(trace)
    components = list(px.freeze(trace).places)
    assume(components)  # without any, a query through one matches no path, which is refused
    some = data.draw(st.lists(st.sampled_from(components), min_size=1, max_size=2))
    chosen = terms.where(f"S .* ({' | '.join(some)}) .* U")
    rest = chosen.rest()
    assert chosen.count() + rest.count() == terms.count()
    np.testing.assert_allclose(chosen.logits() + rest.logits(), trace.logits, atol=1e-8)
