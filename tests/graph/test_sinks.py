"""Attention sinks: a learned score that takes its share and brings nothing, in runs, scores, contrasts and questions."""

from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.heads.head_edits import swap_qk
from tests.zoo import FAMILIES

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6]


def model() -> px.Model:
    return FAMILIES["sinks"]()


def test_rows_add_up_to_what_the_sink_leaves():
    trace = model().run(TOKENS)
    sinks = trace.model.weights.sinks
    for layer in range(2):
        for head in range(2):
            raised = np.exp(trace.scores[layer, head])
            room = raised.sum(axis=-1) + np.exp(sinks[layer, head])
            np.testing.assert_allclose(trace.patterns[layer, head], raised / room[:, None], atol=1e-14)
    assert (trace.patterns.sum(axis=-1) < 1).all()


def test_a_sink_far_above_or_below_all_scores_overflows_nowhere():
    w = model().weights
    for size, most in ((800.0, 1e-300), (-800.0, 1.0)):
        trace = replace(model(), weights=replace(w, sinks=np.full_like(w.sinks, size))).run(TOKENS)
        assert np.isfinite(trace.logits).all()
        assert abs(trace.patterns.sum(axis=-1) - (1.0 if size < 0 else 0.0)).max() <= min(most, 1e-14)


def test_paths_add_up_with_value_biases_that_patterns_carry_in_part():
    for mode in ("gate", "source"):
        assert px.expand(px.freeze(model().run(TOKENS), mlp=mode)).verify().ok
    assert "with sinks" in px.freeze(model().run(TOKENS)).frozen[0]


def test_attention_without_terms_counts_the_sink():
    trace = model().run(TOKENS)
    terms = px.score(trace, "L1H0", query=7, key=5)
    assert terms.verify().ok
    scores = np.where(terms.pair.visible, trace.scores[1, 0, 7], -np.inf)
    raised = np.exp(scores - np.nan_to_num(terms.row()))
    room = raised.sum() + np.exp(trace.model.weights.sinks[1, 0])
    np.testing.assert_allclose(terms.pattern_without(), raised / room, atol=1e-12)
    assert not any(term.no_effect for term in terms)


def test_what_one_score_adds_everywhere_moves_attention_away_from_the_sink():
    """b_K's terms are the same for all keys: without a sink the softmax cancels them, with one it does not."""
    plain = px.random_model(layers=1, heads=1, biases=True, seed=2)
    sunk = px.random_model(layers=1, heads=1, biases=True, seed=2, sinks=True)
    flat = [
        px.score(m.run([1, 2, 3]), "L0H0", query=-1)["E Q", "b_K_L0H0 K"].no_effect for m in (plain, sunk)
    ]
    assert flat == [True, False]


@pytest.mark.parametrize("share", ["midpoint", "here", "there"])
def test_two_runs_differ_by_the_sum_of_paths(share):
    one = model()
    here, there = one.run(TOKENS), one.run(TOKENS[::-1])
    assert px.expand(px.contrast(here, there, split=share)).verify().ok
    assert px.expand(px.contrast(here, there), at="L1H1.score").verify().ok


def test_other_sinks_are_sources_of_a_contrast_of_two_models():
    one = model()
    other = replace(
        one, weights=replace(one.weights, sinks=one.weights.sinks + np.array([[0.5, 0.0], [-1.0, 2.0]]))
    )
    graph = px.contrast(one.run(TOKENS), other.run(TOKENS))
    assert [s.label for s in graph.sources] == ["dsinks_L0H0", "dsinks_L1H0", "dsinks_L1H1"]
    assert px.expand(graph).verify().ok


def test_sinks_go_with_where_a_head_attends():
    one = model()
    other = swap_qk(one, "L0H1", "L1H0")
    assert (
        other.weights.sinks[0, 1] == one.weights.sinks[1, 0]
        and other.weights.sinks[1, 0] == one.weights.sinks[0, 1]
    )


def test_entropy_counts_the_sink_as_one_more_place():
    trace = model().run([1])
    found = px.entropy(trace)
    A = trace.patterns[..., 0, 0]
    np.testing.assert_allclose(found.values, -A * np.log(A) - (1 - A) * np.log(1 - A), atol=1e-13)
    np.testing.assert_allclose(found.most, np.log(2))


def test_tables_of_skip_trigrams_are_refused():
    one = px.random_model(layers=1, heads=2, sinks=True)
    with pytest.raises(px.PathexpError, match="heads have sinks"):
        px.skip_trigrams(one)
