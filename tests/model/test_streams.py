"""Streams without logits: to the bit those of a run, for every family of the zoo."""

import numpy as np
import pytest

import pathexp as px
from pathexp.model.softmax import log_probs_of, log_softmax
from pathexp.model.streams import streams
from tests.zoo import FAMILIES, ZOO

EVERY = {**ZOO, **FAMILIES}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", sorted(EVERY))
def test_streams_and_neurons_are_those_of_the_run(name):
    model = EVERY[name]()
    for length in (1, min(9, model.config.n_ctx)):
        tokens = np.arange(length) % model.config.d_vocab
        found, trace = streams(model, tokens), model.run(tokens)
        assert found.residuals.keys() == trace.residuals.keys()
        assert all((found.residuals[point] == x).all() for point, x in trace.residuals.items())
        dense = [layer for layer in range(model.config.n_layers) if model.config.has_dense(layer)]
        assert sorted(found.neurons) == dense
        assert all((found.neurons[layer] == trace.mlp_hidden[layer]).all() for layer in dense)


def test_what_cannot_be_run_is_refused_as_a_run_does():
    model = px.random_model(d_vocab=5)
    with pytest.raises(px.PathexpError, match="not in the vocabulary"):
        streams(model, [7])
    heavy = px.random_model(norm=None, d_mlp=8, seed=1)
    arrays = {**heavy.weights.arrays(), "W_out": np.full_like(heavy.weights.W_out, 1e308)}
    with pytest.raises(px.PathexpError, match="overflowed"):
        streams(px.Model(heavy.config, type(heavy.weights)(**arrays)), [1, 2])


def test_chosen_log_probabilities_are_to_the_bit_those_of_the_table():
    logits = 9 * np.random.default_rng(0).standard_normal((33, 1001))
    rows, tokens = np.arange(33), np.arange(33) * 7
    assert (log_probs_of(logits, rows, tokens) == log_softmax(logits)[rows, tokens]).all()
