"""The verdict must fail when it should: a check that cannot fail proves nothing."""

from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from tests.zoo import ZOO

BIASED = "3L-layernorm"


@pytest.fixture
def trace():
    model = ZOO[BIASED]()
    return model.run(np.random.default_rng(0).integers(0, model.config.d_vocab, 7))


def frozen_of(trace, **arrays):
    """The graph of a run whose weights were changed after the run was made."""
    weights = replace(trace.model.weights, **arrays)
    return px.freeze(replace(trace, model=replace(trace.model, weights=weights)))


def changed(array, edit):
    copy = np.array(array)
    edit(copy)
    return copy


def test_the_honest_sum_passes(trace):
    assert px.expand(frozen_of(trace)).verify(trace.logits).ok


@pytest.mark.parametrize("size", [1.0, 1e-3, 1e-9])
@pytest.mark.parametrize(
    "name", ["W_E", "W_V", "W_O", "W_U", "g_attn", "g_final", "b_attn", "b_V", "b_O", "b_U"]
)
def test_one_perturbed_weight_fails(trace, name, size):
    array = getattr(trace.model.weights, name)
    place = (0, int(trace.tokens[0])) if name == "W_E" else (0,) * array.ndim
    graph = frozen_of(trace, **{name: changed(array, lambda a: a.__setitem__(place, a[place] + size))})
    verdict = px.expand(graph).verify(trace.logits)
    assert not verdict.ok and verdict.max_error > verdict.tolerance


def test_a_dropped_or_doubled_term_fails_whichever_it_is(trace):
    terms = list(px.expand(trace))
    assert px.verify(terms, px.freeze(trace), trace.logits).ok
    for index in range(len(terms)):
        rest = terms[:index] + terms[index + 1 :]
        assert not px.verify(rest, px.freeze(trace), trace.logits).ok, terms[index]
        assert not px.verify([*terms, terms[index]], px.freeze(trace), trace.logits).ok, terms[index]


@pytest.mark.parametrize("name", ["b_attn", "b_V", "b_O", "b_final", "b_U"])
def test_a_doubled_bias_fails(trace, name):
    graph = frozen_of(trace, **{name: 2 * getattr(trace.model.weights, name)})
    assert not px.expand(graph).verify(trace.logits).ok


@pytest.mark.parametrize("name", ["W_V", "W_O"])
def test_two_swapped_heads_fail(trace, name):
    def swap(array):
        array[1, [0, 1]] = array[1, [1, 0]]

    graph = frozen_of(trace, **{name: changed(getattr(trace.model.weights, name), swap)})
    assert not px.expand(graph).verify(trace.logits).ok


def test_swapped_patterns_fail(trace):
    patterns = np.array(trace.patterns)
    patterns[1, [0, 1]] = patterns[1, [1, 0]]
    assert not px.expand(px.freeze(replace(trace, patterns=patterns))).verify(trace.logits).ok


def test_patterns_of_another_prompt_fail(trace):
    other = trace.model.run((trace.tokens + 1) % trace.config.d_vocab)
    mixed = replace(trace, patterns=other.patterns)
    assert not px.expand(px.freeze(mixed)).verify(trace.logits).ok


def test_a_wrong_norm_scale_fails(trace):
    scales = dict(trace.norm_scales) | {"final": trace.norm_scales["final"] * 1.001}
    assert not px.expand(px.freeze(replace(trace, norm_scales=scales))).verify(trace.logits).ok


def test_nan_never_passes(trace):
    logits = np.array(trace.logits)
    logits[2, 3] = np.nan
    verdict = px.expand(trace).verify(logits)
    assert not verdict.ok and (verdict.position, verdict.token) == (2, 3)


def test_the_worst_place_is_named(trace):
    logits = np.array(trace.logits)
    logits[4, 5] += 0.25
    verdict = px.expand(trace).verify(logits)
    assert (verdict.position, verdict.token) == (4, 5)
    assert verdict.max_error == pytest.approx(0.25)
    assert "position 4, token 5" in str(verdict) and "add up" in str(verdict) and "≤" not in str(verdict)


def test_other_shapes_are_refused(trace):
    with pytest.raises(px.PathexpError, match=r"\(7, 11\).*\(6, 11\)"):
        px.expand(trace).verify(trace.logits[:6])


def test_a_narrowed_expansion_is_verified_with_the_rest(trace):
    verdict = px.expand(trace).where("E .* U").verify()
    assert verdict.ok and "others" in verdict.method


def test_a_tolerance_that_could_hide_faults_is_no_proof():
    from pathexp.expansion import compare

    expected = np.ones((2, 3))
    assert not compare(expected + 1e-3, expected, 0.5, "by hand").ok
    assert compare(expected + 1e-12, expected, 1e-10, "by hand").ok


def test_a_changed_graph_has_nothing_to_compare_with(trace):
    graph = px.freeze(trace).with_source("steer", np.ones(trace.config.d_model))
    with pytest.raises(px.PathexpError, match="source steer was added"):
        px.expand(graph).verify()


@pytest.mark.parametrize("name", sorted(ZOO))
def test_error_stays_well_inside_the_tolerance(name):
    """The derived tolerance is neither tight enough to fail by chance nor loose enough to be vacuous."""
    model = ZOO[name]()
    for length in (1, 2, 9, 33):
        length = min(length, model.config.n_ctx)
        trace = model.run(np.random.default_rng(length).integers(0, model.config.d_vocab, length))
        verdict = px.expand(trace).verify()
        assert verdict.max_error <= verdict.tolerance / 3
        assert verdict.tolerance <= 1e-11 * max(1.0, verdict.scale)
