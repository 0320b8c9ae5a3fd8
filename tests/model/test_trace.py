"""What a run keeps, what can be asked of it, and what cannot be run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pathexp.errors import PathexpError, TargetError, TokenError, WeightsError
from pathexp.model.attention import concatenated
from pathexp.model.handmade import random_model, zero_layer_bigram
from pathexp.model.model import Model
from pathexp.model.tokenizer import Tokenizer
from pathexp.model.trace import Trace
from tests.zoo import ZOO

MODEL = random_model(layers=2, heads=4, kv_heads=2, d_head=3, d_model=14, norm="layernorm", biases=True)
LETTERS = Model(
    random_model(d_vocab=4).config, random_model(d_vocab=4).weights, Tokenizer(("a", "b", "ab", " "))
)


def run(model: Model, length: int = 9) -> Trace:
    length = min(length, model.config.n_ctx)
    return model.run(np.random.default_rng(length).integers(0, model.config.d_vocab, length))


@pytest.fixture(params=sorted(ZOO))
def trace(request: pytest.FixtureRequest) -> Trace:
    return run(ZOO[request.param]())


def test_shapes(trace: Trace) -> None:
    c, n = trace.config, len(trace)
    assert trace.scores.shape == trace.patterns.shape == (c.n_layers, c.n_heads, n, n)
    assert trace.z.shape == (c.n_layers, c.n_heads, n, c.d_head)
    assert trace.head_results.shape == (c.n_layers, c.n_heads, n, c.d_model)
    assert trace.logits.shape == trace.log_probs.shape == (n, c.d_vocab)
    points = [f"L{layer}.{point}" for layer in range(c.n_layers) for point in ("attn_in", "out")]
    assert set(points) | {"embed", "final_in", "final_out"} <= set(trace.residuals)
    assert all(stream.shape == (n, c.d_model) for stream in trace.residuals.values())
    assert all(scale.shape == (n,) for scale in trace.norm_scales.values())


def test_nothing_can_be_written_to(trace: Trace) -> None:
    arrays = [trace.tokens, trace.scores, trace.patterns, trace.z, trace.head_results, trace.logits]
    arrays += [trace.log_probs, *trace.residuals.values(), *trace.norm_scales.values()]
    assert not any(array.flags.writeable for array in arrays)
    with pytest.raises(TypeError):
        trace.residuals["embed"] = trace.logits  # type: ignore[index]


def test_patterns_are_distributions_over_what_may_be_seen(trace: Trace) -> None:
    np.testing.assert_allclose(trace.patterns.sum(axis=-1), 1, atol=1e-14)
    hidden = np.isneginf(trace.scores)
    assert (trace.patterns[hidden] == 0).all() and (trace.patterns[~hidden] > 0).all()
    if trace.config.causal:
        assert (hidden == ~np.tri(len(trace), dtype=bool)).all()
    else:
        assert not hidden.any()


def test_the_stream_is_the_sum_of_what_was_written(trace: Trace) -> None:
    stream, bias = trace.residuals["embed"], trace.model.weights.b_O
    for layer in range(trace.config.n_layers):
        stream = stream + trace.head_results[layer].sum(axis=0) + (0 if bias is None else bias[layer])
        np.testing.assert_allclose(trace.residuals[f"L{layer}.out"], stream, atol=1e-13)
    np.testing.assert_allclose(trace.residuals["final_in"], stream, atol=1e-13)


def test_heads_added_are_heads_concatenated(trace: Trace) -> None:
    for layer in range(trace.config.n_layers):
        added = trace.head_results[layer].sum(axis=0)
        np.testing.assert_allclose(
            concatenated(trace.z[layer], trace.model.weights.W_O[layer]), added, atol=1e-13
        )


def test_norm_scales_are_one_over_sigma() -> None:
    for norm in ("layernorm", "rmsnorm"):
        trace = run(random_model(norm=norm, norm_eps=0.25, biases=True))
        assert list(trace.norm_scales) == ["L0.attn", "L1.attn", "final"]
        for site, point in (("L0.attn", "embed"), ("L1.attn", "L0.out"), ("final", "final_in")):
            x = trace.residuals[point]
            power = x.var(axis=-1) if norm == "layernorm" else (x**2).mean(axis=-1)
            np.testing.assert_allclose(trace.norm_scales[site], 1 / np.sqrt(power + 0.25), rtol=1e-14)
    assert not run(random_model()).norm_scales


def test_log_probs_and_loss() -> None:
    trace = run(MODEL)
    np.testing.assert_allclose(np.exp(trace.log_probs).sum(axis=-1), 1)
    picked = [trace.log_probs[i, trace.tokens[i + 1]] for i in range(len(trace) - 1)]
    assert trace.loss() == pytest.approx(-np.mean(picked))
    assert trace.loss() == pytest.approx(np.log(MODEL.config.d_vocab), abs=2)
    with pytest.raises(TokenError, match="at least 2 tokens"):
        run(MODEL, 1).loss()


def test_log_probs_of_large_logits_do_not_overflow() -> None:
    trace = zero_layer_bigram([[1e5, 0.0], [0.0, -1e5]]).run([0, 1])
    np.testing.assert_array_equal(trace.log_probs, [[0, -1e5], [0, -1e5]])


def test_top_token() -> None:
    trace = run(MODEL)
    assert trace.top_token() == trace.logits[-1].argmax() == trace.top_token(8)
    assert trace.top_token(0) == trace.logits[0].argmax() == trace.top_token(-9)
    with pytest.raises(TargetError, match=r"position 9 is not in this run of 9 tokens: give 0 to 8"):
        trace.top_token(9)


def test_targets_take_their_value_from_the_run() -> None:
    trace = run(MODEL)
    one = trace.logit(4, position=-2)
    assert (one.position, one.space, one.value) == (7, "logits", trace.logits[7, 4])
    np.testing.assert_array_equal(one.direction, np.eye(MODEL.config.d_vocab)[4])
    two = trace.logit_difference(np.int64(4), 2)  # type: ignore[arg-type]
    assert two.value == pytest.approx(trace.logits[8, 4] - trace.logits[8, 2], abs=1e-14)
    assert two.direction.sum() == 0 and two.direction[4] == 1
    read = np.arange(14)
    three = trace.direction(read, position=3, space="residual")
    assert three.value == pytest.approx(trace.residuals["L1.out"][3] @ read)
    assert three.direction.dtype == np.float64
    four = trace.direction(np.ones(11), position=3)
    assert four.value == pytest.approx(trace.logits[3].sum())
    for target in (one, two, three, four):
        assert not target.direction.flags.writeable


def test_targets_by_text() -> None:
    trace = LETTERS.run("ab a")
    assert trace.token_strings == ("ab", " ", "a")
    assert trace.logit("b").value == trace.logits[2, 1]
    assert trace.logit("ab", position=0).label == "logit of 'ab'"
    assert trace.logit_difference("a", 3).label == "logit of 'a' minus ' '"
    with pytest.raises(TokenError, match="'ab b' is not one token: it is 'ab' \\+ ' ' \\+ 'b'"):
        trace.logit("ab b")


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda t: t.logit(11), TokenError, "Token id 11 .*ids are 0 to 10"),
        (lambda t: t.logit(-1), TokenError, "Token id -1 "),
        (lambda t: t.logit(1.0), TokenError, "Token ids are integers, found dtype float64"),
        (lambda t: t.logit([1]), TokenError, r"found shape \(1, 1\)"),
        (lambda t: t.logit(" the"), TokenError, "has no tokenizer for ' the': give token ids"),
        (lambda t: t.probability(1), TargetError, r"not linear.*px.contrast\(run, other\).probability"),
        (lambda t: t.log_prob(1), TargetError, r"not linear.*px.contrast\(run, other\).log_prob"),
        (lambda t: t.log_prob(99), TokenError, "99"),
        (lambda t: t.logit(1, position=9), TargetError, "position 9 is not in this run of 9 tokens"),
        (lambda t: t.logit(1, position=-10), TargetError, "position -10 "),
        (lambda t: t.logit(1, position=1.5), TargetError, "position: expected an integer, got 1.5"),
        (lambda t: t.logit_difference(3, 3), TokenError, "two tokens, found 3 twice"),
        (lambda t: t.direction(np.ones(14)), TargetError, r"d_out = 11 numbers.*found shape \(14,\)"),
        (lambda t: t.direction(np.ones(11), space="residual"), TargetError, r"d_model = 14 .*\(11,\)"),
        (lambda t: t.direction(np.ones((1, 11))), TargetError, r"found shape \(1, 11\)"),
        (
            lambda t: t.direction(np.ones(11), space="heads"),
            TargetError,
            "space: expected one of 'logits', 'residual', got 'heads'",
        ),
        (lambda t: t.direction([np.nan] * 11), TargetError, "found nan at index 0"),
        (lambda t: t.direction(np.ones(11) * 1j), TargetError, "found dtype complex128"),
    ],
)
def test_what_cannot_be_a_target(ask: Any, error: type[PathexpError], message: str) -> None:
    with pytest.raises(error, match=message):
        ask(run(MODEL))


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([], "found 0 tokens, expected 1 to 40"),
        (range(5), None),
        ([0] * 40, None),
        ([0] * 41, r"Found 41 tokens, the model takes at most 40 \(n_ctx\)"),
        ([3, 11], "Token id 11 at position 1 is not in the vocabulary: ids are 0 to 10"),
        ([3, 4, -1], "Token id -1 at position 2 "),
        (np.array([1, 2], dtype=np.uint8), None),
        ([1.0, 2.0], "Token ids are integers, found dtype float64"),
        ([True, False], "Token ids are integers, found dtype bool"),
        (["a"], "Token ids are integers, found dtype <U1"),
        ([None], "Token ids are integers, found dtype object"),
        ([[1, 2]], r"one axis, found shape \(1, 2\): run one text at a time"),
        (3, "found 3"),
        ([[1], [2, 3]], "Token ids are a list of integers"),
        ([2**70], "Token ids are integers, found dtype object"),
        ("text", "has no tokenizer for 'text': give token ids, integers from 0 to 10"),
        ("", "has no tokenizer"),
    ],
    ids=str,
)
def test_what_can_be_run(tokens: Any, message: str | None) -> None:
    if message is None:
        assert len(MODEL.run(tokens)) == len(tokens)
    else:
        with pytest.raises(TokenError, match=message):
            MODEL.run(tokens)


def test_text_that_cannot_be_run() -> None:
    with pytest.raises(TokenError, match="found 0 tokens"):
        LETTERS.run("")
    with pytest.raises(TokenError, match="'z'"):
        LETTERS.run("az")
    with pytest.raises(TokenError, match="Found 41 tokens"):
        LETTERS.run("a" * 41)
    assert LETTERS.decode(LETTERS.encode("ab ba")) == "ab ba"


def test_a_run_does_not_change_with_the_callers_array() -> None:
    tokens = np.array([1, 2, 3])
    trace = MODEL.run(tokens)
    tokens[0] = 9
    assert trace.tokens.tolist() == [1, 2, 3]


@pytest.mark.filterwarnings("error")
def test_an_overflow_raises_and_says_where() -> None:
    huge = zero_layer_bigram([[1.0, 1.0], [1.0, 1e308]])
    weights = type(huge.weights)(**huge.weights.arrays() | {"W_E": np.diag([1.0, 1e10])})
    model = Model(huge.config, weights)
    assert model.run([0]).logits[0, 1] == 1
    with pytest.raises(WeightsError, match=r"a logit is inf, at \(position, token\) = \(2, 1\)"):
        model.run([0, 0, 1])


@pytest.mark.filterwarnings("error")
def test_an_overflow_inside_attention_raises() -> None:
    plain = random_model(positions="none", layers=1)
    large = {name: plain.weights.arrays()[name] * 1e200 for name in ("W_Q", "W_K")}
    weights = type(plain.weights)(**plain.weights.arrays() | large)
    with pytest.raises(
        WeightsError, match=r"a score of layer 0 is .*inf, at \(head, query, key\) = \(0, 0, 0\)"
    ):
        Model(plain.config, weights).run([1, 2, 3])


def test_later_tokens_change_nothing_before_them() -> None:
    tokens = run(MODEL).tokens
    for length in (1, 2, 5):
        np.testing.assert_allclose(
            MODEL.run(tokens[:length]).logits, run(MODEL).logits[:length], rtol=0, atol=1e-13
        )


def test_reprs_are_short() -> None:
    trace = LETTERS.run("ab")
    assert repr(trace) == "Trace(1 tokens of Model('': 2 layers × 3 heads, d_model 24, d_vocab 4))"
    assert repr(trace.logit("a")).startswith("Target(logit of 'a' at position 0: ")
    assert len(repr(MODEL.weights)) < 150
