"""Real trained weights: every sum verified, on every bundled model and on what lies beside the project."""

import numpy as np
import pytest

import pathexp as px
from tests.shared_models import induction_2l_1h

TEXTS = ["To be, or not to be, that is the question", "And God said, Let there be light", "R"]


@pytest.mark.parametrize("name", ["attn-0l", "attn-1l", "attn-2l"])
@pytest.mark.parametrize("text", TEXTS)
def test_bundled_models_verify(name, text):
    model = px.load(name)
    trace = model.run(text)
    terms = px.expand(trace)
    verdict = terms.verify()
    assert verdict.ok and verdict.tolerance < 1e-9, str(verdict)
    assert terms.count() == (1 + model.config.n_heads) ** model.config.n_layers
    np.testing.assert_allclose(sum(terms.by_order()), trace.logits, atol=1e-9)
    assert model.decode(trace.tokens) == text


@pytest.mark.parametrize("length", [1, 2, 9, 33, 128])
def test_the_two_layer_model_verifies_at_every_length(length):
    model = px.load("attn-2l")
    trace = model.run(np.random.default_rng(length).integers(0, model.config.d_vocab, length))
    verdict = px.expand(trace).verify()
    assert verdict.ok, str(verdict)


def test_every_term_of_a_bundled_model_is_a_token_table():
    """No norm, no biases, positions seen by queries and keys only: a term is A ⊗ a table of tokens."""
    trace = px.load("attn-2l").run(TEXTS[0])
    for term in px.expand(trace):
        assert term.path[0] == "E" and term.weight.shape == (1024, 1024)
        np.testing.assert_allclose(term.pattern.sum(axis=-1), 1, atol=1e-12)


def test_a_published_induction_model_verifies():
    model = induction_2l_1h()
    rng = np.random.default_rng(0)
    for length in (1, 2, 8):
        trace = model.run(rng.integers(0, 26, length))
        terms = px.expand(trace)
        assert terms.count() == 8 and terms.verify().ok  # from E and from P, each 2 × 2
        target = trace.logit(trace.top_token())
        assert terms.values(target).sum() == pytest.approx(target.value, abs=1e-9)
