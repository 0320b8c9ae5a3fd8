"""Attention entropy, by hand and by definition."""

import json

import numpy as np
import pytest

import pathexp as px
from tests.commands import json_of, printed
from tests.zoo import ZOO


def test_even_attention_has_the_most_and_one_key_none():
    even = px.random_model(layers=1, heads=1, biases=False, seed=1)
    arrays = even.weights.arrays() | {"W_Q": np.zeros_like(even.weights.W_Q)}
    (row,) = px.entropy(px.Model(even.config, px.Weights(**arrays)).run([1, 2, 3, 4])).records()
    assert row["entropy"] == pytest.approx(np.log([1, 2, 3, 4]).mean()) and row["even"] == pytest.approx(1)
    alone = px.entropy(px.random_model(layers=1, heads=2, windows=1).run([1, 2, 3])).records()
    assert [row["entropy"] for row in alone] == [0.0, 0.0] and alone[0]["even"] is None


@pytest.mark.parametrize("name", ["2L-gqa", "2L-plain"])
def test_it_is_its_definition(name):
    trace = ZOO[name]().run([1, 2, 3, 4, 1])
    rows = {row["head"]: row["entropy"] for row in px.entropy(trace).records()}
    for (layer, head), _ in np.ndenumerate(trace.patterns[:, :, 0, 0]):
        each = [-sum(a * np.log(a) for a in query if a > 0) for query in trace.patterns[layer, head]]
        assert rows[f"L{layer}H{head}"] == pytest.approx(np.mean(each))
    assert list(rows.values()) == sorted(rows.values())


def test_the_command_is_the_question(capsys):
    text = "Macbeth shall sleep no more. Macbeth shall"
    found = px.entropy(px.load("attn-2l").run(text))
    assert json_of(capsys, "entropy", "attn-2l", text) == json.loads(found.to_json())
    assert "L0H2" in printed(capsys, "entropy", "attn-2l", text, "--top", "1")
