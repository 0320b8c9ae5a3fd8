"""What a new user did to it: bad input is a PathexpError that says what was found, never a bare exception."""

import copy
import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import pathexp as px


@pytest.fixture
def trace():
    return px.random_model(layers=2, heads=2, norm="layernorm", biases=True, seed=1).run([1, 2, 3])


def test_a_target_of_another_run_is_refused(trace):
    other = trace.model.run([3, 2, 1])
    terms = px.expand(trace)
    for ask in (terms.value, lambda t: terms.top(3, t), terms.values, terms["E U"].value):
        with pytest.raises(px.PathexpError, match="made on another run"):
            ask(other.logit(7))
    same = trace.model.run([1, 2, 3]).logit(7)
    assert terms.value(same) == pytest.approx(same.value)


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda run, terms: terms.top(True, run.logit(1)), "integer"),
        (lambda run, terms: terms.top(3, "x"), "is no target"),
        (lambda run, terms: terms.value(None), "is no target"),
        (lambda run, terms: terms["E U"].value(3), "is no target"),
        (lambda run, terms: terms[0], "is no path"),
        (lambda run, terms: terms[0:3], "is no path"),
        (lambda run, terms: terms[None], "is no path"),
        (lambda run, terms: terms.verify("x"), "array of numbers"),
        (lambda run, terms: terms.verify([[1, 2]]), r"\(1, 2\)"),
        (lambda run, terms: px.evaluate(terms["E U"].expr, terms), "arrays by name"),
        (lambda run, terms: px.evaluate(None, {}), "sympy expression"),
        (lambda run, terms: px.random_model(seed=-1), "seed"),
        (lambda run, terms: px.random_model(vocab=3), "no 'vocab'"),
        (lambda run, terms: px.random_model(n_layers=3), "takes layers="),
        (lambda run, terms: px.load(""), "No name"),
        (lambda run, terms: px.load(None), "found None"),
        (lambda run, terms: px.load(3), "found 3"),
        (lambda run, terms: run.model.run(None), "list of token ids, found None"),
        (lambda run, terms: run.model.save("/nonexistent-folder/x.npz"), "Cannot write"),
        (lambda run, terms: terms.where("()"), "empty word"),
        (lambda run, terms: px.ResidualGraph.attention_only(layers=10**6, heads=1), "1,000,000 layers"),
        (lambda run, terms: px.ResidualGraph.by_hand(0, 2, np.eye(2)), "at least one position"),
    ],
)
def test_misuse_is_refused_in_words(trace, ask, text):
    with pytest.raises(px.PathexpError, match=text):
        ask(trace, px.expand(trace))


def test_a_term_is_found_by_itself(trace):
    terms = px.expand(trace)
    term = terms["E L0H0 U"]
    assert terms[term] == term and term in terms and 3 not in terms


@pytest.mark.parametrize("twice", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_values_can_be_copied_and_pickled(trace, twice):
    again = twice(trace)
    np.testing.assert_array_equal(again.logits, trace.logits)
    with pytest.raises(TypeError):
        again.residuals["embed"] = 0
    terms = twice(px.expand(trace))
    assert terms.count() == px.expand(trace).count() and terms.verify().ok
    assert twice(terms["E L0H0 U"]).formula == terms["E L0H0 U"].formula
    assert str(twice(terms.top(3, trace.logit(1)))) == str(px.expand(trace).top(3, trace.logit(1)))


def test_reprs_are_short(trace):
    for value in (
        trace,
        px.freeze(trace),
        px.expand(trace),
        px.expand(trace).top(3, trace.logit(1)),
        trace.model,
    ):
        assert len(repr(value)) < 200


def test_an_ascii_terminal_can_read_it():
    done = subprocess.run(
        [sys.executable, "-m", "pathexp", "expand"],
        capture_output=True,
        env={"PYTHONIOENCODING": "ascii", "PYTHONPATH": ":".join(filter(None, sys.path))},
    )
    assert done.returncode == 0, done.stderr
    text = done.stdout.decode("ascii")
    assert "2 layers x 8 heads" in text and "A_L1H0 (x) W_U" in text and "<= tolerance" in text


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /dev/full")
def test_a_full_disk_is_a_sentence():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "pathexp", "derive"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (
        done.returncode == 2 and "cannot write the output" in done.stderr and "Traceback" not in done.stderr
    )


@pytest.mark.parametrize(
    "call",
    ["composition", "induction", "heads", "skip_trigrams", "virtual_heads"],
)
def test_what_is_no_model_is_refused_by_the_name_of_the_call(trace, call):
    for wrong in (trace, px.freeze(trace), None):
        with pytest.raises(px.PathexpError, match=rf"{call}\(\), model: expected a model"):
            getattr(px, call)(wrong)
    with pytest.raises(px.PathexpError, match=r"head\(\), model: expected a model"):
        px.head(trace, "L1H1")


def test_a_rewrite_takes_a_model(trace):
    for name in ("fold_norms", "rotate", "untie", "center_writing", "fold_multipliers", "fold_value_biases"):
        arguments = (0,) if name == "rotate" else ()
        with pytest.raises(px.PathexpError, match=rf"{name}\(\), model: expected a model"):
            getattr(px.rewrite, name)(trace, *arguments)


@pytest.mark.parametrize("norm", ["layernorm", "rmsnorm"])
def test_a_stream_that_overflows_in_a_norm_is_no_plausible_run(norm):
    model = px.random_model(layers=2, heads=2, norm=norm, biases=True)
    huge = replace(model, weights=replace(model.weights, W_E=model.weights.W_E * 1e200))
    with pytest.raises(px.PathexpError, match="overflowed"):
        huge.run([1, 2, 3])
