"""Models whose circuit is known because it was written: every question finds it, and nothing else. Arithmetic is exact."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import pathexp as px

_PATH = Path(__file__).resolve().parents[1] / "examples" / "compiled_models.py"
_SPEC = importlib.util.spec_from_file_location("compiled_models", _PATH)
compiled_models = importlib.util.module_from_spec(_SPEC)
sys.modules["compiled_models"] = compiled_models
_SPEC.loader.exec_module(compiled_models)
ALL = {name: make() for name, make in compiled_models.ALL.items()}
CASES = 12
ROUNDING = 1e-12
"""Thirds, of several brackets attended to alike, are not exact; all else is."""

each = pytest.mark.parametrize("name", ALL)


def drawn(name, seed=0, cases=CASES):
    compiled, rng = ALL[name], np.random.default_rng(seed)
    for _ in range(cases):
        tokens, answer = compiled.draw(rng)
        yield compiled, compiled.model.run(tokens), answer


@each
def test_it_computes_what_was_written(name):
    for _, trace, answer in drawn(name, cases=200):
        logits = trace.logits[-1]
        assert trace.top_token() == answer and np.delete(logits, answer).max() <= logits[answer] - 0.5


@each
def test_the_expansion_is_the_circuit_to_the_bit(name):
    """The terms outside add zero to every logit everywhere; those inside add up to the forward pass with an error of 0."""
    for compiled, trace, _ in drawn(name):
        terms = px.expand(trace)
        assert terms.verify().max_error == 0
        outside = terms.where(f"~({compiled.frozen})")
        assert 0 < outside.count() < terms.count()
        assert all(not term.logits().any() for term in outside)
        np.testing.assert_array_equal(terms.where(compiled.frozen).logits(), trace.logits)


@each
def test_the_largest_paths_and_the_tree_are_the_circuit(name):
    for compiled, trace, answer in drawn(name, cases=4):
        target = trace.logit(answer)
        terms, inside = px.expand(trace), px.query(compiled.frozen)
        ranking = terms.top(terms.count(), target)
        found = [
            str(term.path)
            for term, value in zip(ranking.terms, ranking.values, strict=True)
            if abs(value) > ROUNDING
        ]
        assert ranking.exact and found and all(terms.where(inside & px.query(path)).count() for path in found)
        rows = px.tree(trace, target).records()
        leaves = [row for row in rows if row["paths"] == 1 and abs(row["value"]) > ROUNDING]
        assert {row["query"] for row in leaves} == set(found)


@each
def test_the_flow_passes_through_the_circuit_alone(name):
    for compiled, trace, answer in drawn(name, cases=4):
        edges = [edge for edge in px.flow(trace, trace.logit(answer)).records() if edge["flow"]]
        inner = {edge[end] for edge in edges for end in ("writer", "reader")} - {"E", "P", "U", "b_in_L0"}
        assert inner <= set(compiled.components)


@each
def test_scores_are_made_by_the_paths_that_were_written(name):
    for compiled, trace, _ in drawn(name, cases=4):
        for head, pairs in compiled.scores.items():
            for key in range(len(trace)):
                terms = px.score(trace, head, query=len(trace) - 1, key=key)
                ranking = terms.top(terms.count())
                found = {str(t) for t, value in zip(ranking.terms, ranking.values, strict=True) if value}
                assert found <= set(pairs), (head, key)
        used = [h for h in compiled.scores if px.score(trace, h, query=len(trace) - 1).value()]
        assert used, "and they are not all zero"


@each
def test_live_every_component_of_the_circuit_is_needed_and_no_other(name):
    """Cut live, each component of the circuit changes some answers, the others no logit."""
    compiled = ALL[name]
    c = compiled.model.config
    every = [f"L{layer}H0" for layer in range(c.n_layers)] + [
        f"L{layer}M" for layer in range(c.n_layers) if c.d_mlp
    ]
    wrong = dict.fromkeys(every, 0)
    for _, trace, answer in drawn(name):
        for label in every:
            (one,) = px.intervene(trace, trace.logit(answer), node=label)
            wrong[label] += int(np.argmax(one.live[-1]) != answer)
            if label not in compiled.components:
                np.testing.assert_array_equal(one.live, trace.logits)
    assert {label for label, amount in wrong.items() if amount} == set(compiled.components)


@each
def test_no_detector_calls_it_an_induction_head(name):
    model = ALL[name].model
    length = (model.config.n_ctx // 2, max(3, model.config.n_ctx // 2 - 1))
    found = px.induction(model, length=sorted(set(length)), score_runs=0)
    assert found.from_attention == found.from_weights == () and found.verdict != "induction"


def test_the_gap_is_seen_by_roles():
    """The key that holds the answer, two places after the earlier copy."""
    compiled, rng, cases = ALL["gapped induction"], np.random.default_rng(5), []
    for _ in range(10):
        tokens, answer = compiled.draw(rng)
        copy = tokens.index(tokens[-1])
        cases.append(px.Case(tokens, answer, roles={"copy": copy, "next": copy + 1, "answer": copy + 2}))
    found = px.heads(compiled.model, cases=cases)
    assert found.roles.of("L1H0", "answer") == 1.0 and found.roles.of("L1H0", "next") == 0.0
    assert found["L0H0"].type == "fixed offset" and found["L0H0"].offsets == {2: 1.0}
