"""What the difference of two runs is made of: every partition adds up to what the runs themselves differ by."""

from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.attribution.contrast_summary import contrast_summary
from pathexp.cli import main
from tests.expansion.test_contrast import EVERY, two_runs

UNITS = ("port", "head", "layer", "component", "token", "path")


@pytest.mark.parametrize("by", UNITS)
@pytest.mark.parametrize("name", ["gpt2", "bert", "gemma2", "olmo2", "2L-qk", "0L-final-layernorm", "neox"])
def test_every_partition_adds_up(name, by):
    here, there = two_runs(EVERY[name](), length=5)
    target = here.logit_difference(1, 2)
    found = px.attribution(px.contrast(here, there), target, by=by, k=3)
    assert found.ok and found.target.value == target.value - there.logit_difference(1, 2).value


def test_heads_are_the_sums_of_their_ports_and_ports_follow_the_paths():
    here, there = two_runs(px.random_model(layers=2, heads=2, d_mlp=5, seed=1))
    graph, target = px.contrast(here, there), here.logit(3)
    heads = px.attribution(graph, target, by="head")
    parts = px.attribution(graph, target, by="component")
    assert abs(heads["L1H0"] - sum(parts[f"L1H0.{port}"] for port in "VKQ")) < 1e-14
    ports = px.attribution(graph, target, by="port")
    through_keys = sum(
        value
        for term, value in zip(px.expand(graph), px.expand(graph).values(target), strict=True)
        if any(label.endswith(".K") for label in term.path)
        and not any(label.endswith(".Q") for label in term.path)
    )
    assert abs(ports["keys"] - through_keys) < 1e-13


def test_tokens_that_agree_have_no_row():
    model = px.random_model(layers=2, heads=2, norm="layernorm", d_mlp=5, seed=1)
    here, there = model.run([1, 2, 3, 4]), model.run([1, 5, 3, 6])
    found = px.attribution(px.contrast(here, there), here.logit(3), by="token")
    assert found.names == ("1:2/5", "3:4/6") and found.ok


def test_a_repeat_that_is_broken_runs_through_keys():
    """Case of the induction circuit: the earlier copy of the last token replaced (attn-2l)."""
    model = px.load("attn-2l")
    rng = np.random.default_rng(0)
    first = rng.choice(np.arange(5, model.config.d_vocab), 20, replace=False)
    clean = [int(token) for token in (*first, *first[:9])]
    other = list(clean)
    other[8] = int(rng.integers(5, model.config.d_vocab))
    here, there = model.run(clean), model.run(other)
    found = px.attribution(px.contrast(here, there), here.logit(int(first[9])), by="port")
    assert found["keys"] / found.target.value > 0.85


def test_a_run_has_no_ports():
    trace = px.random_model(seed=1).run([1, 2])
    with pytest.raises(px.PathexpError, match=r"px\.contrast"):
        px.attribution(trace, trace.logit(1), by="port")


def test_the_command_takes_two_texts(capsys):
    assert main(["contrast", "attn-2l", "To be, or not to be", "To be, or not to do", "--top", "3"]) == 0
    printed = capsys.readouterr().out
    assert "the 3 largest in absolute value" in printed and "paths add up" in printed and "keys" in printed
    assert main(["contrast", "attn-2l", "To be", "To be, or not to do"]) == 2
    assert "tokens" in capsys.readouterr().err


def test_without_arguments_the_command_shows_the_induction_circuit(capsys):
    assert main(["contrast"]) == 0
    printed = capsys.readouterr().out
    for part in ("by port", "by head", "S .* L1H3.K U", "E L0H2.V L1H3.K U", "the 10 largest"):
        assert part in printed, part
    assert printed.count("predicts ") == 2 and "differs by +6.1177" in printed


def test_the_command_takes_token_ids_and_a_difference_of_logits(capsys):
    ids = ["--tokens", "5,6,7", "--other-tokens", "5 9 7", "--target", "#3", "--versus", "#4"]
    assert main(["contrast", "attn-2l", *ids]) == 0
    assert "minus" in capsys.readouterr().out
    assert main(["contrast", "attn-2l", "so", "no", "--other-tokens", "5"]) == 2
    assert "not both" in capsys.readouterr().err
    assert main(["contrast", "attn-2l", "To be"]) == 2
    assert "nothing to compare" in capsys.readouterr().err


def test_the_command_takes_another_model(capsys, tmp_path):
    model = px.load("attn-2l")
    silenced = model.weights.W_O.copy()
    silenced[0, 2] = 0
    replace(model, weights=replace(model.weights, W_O=silenced)).save(tmp_path / "without.npz")
    assert main(["contrast", "attn-2l", "--against", str(tmp_path / "without.npz")]) == 0
    printed = capsys.readouterr().out
    assert "by source" in printed and "dW_O_L0H2" in printed and printed.count("2 layers") == 2
    assert main(["contrast", "attn-2l", "--against", "attn-1l"]) == 2
    assert "one shape" in capsys.readouterr().err


EVERY_SWITCH = {
    "layernorm": {"layers": 2, "heads": 2, "d_mlp": 8, "norm": "layernorm"},
    "gated": {
        "layers": 2,
        "heads": 4,
        "kv_heads": 2,
        "d_head": 6,
        "d_mlp": 8,
        "gated": True,
        "norm": "rmsnorm",
        "positions": "rotary",
    },
    "post-norm": {
        "layers": 2,
        "heads": 2,
        "d_mlp": 8,
        "norm": "layernorm",
        "norm_placement": "post",
        "biases": True,
    },
    "learned positions": {"layers": 1, "heads": 2, "positions": "learned"},
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("other", [[1, 2, 3], [1, 4, 3]])
@pytest.mark.parametrize("name", EVERY_SWITCH)
def test_partitions_of_two_models_add_up_and_sources_follow_the_paths(name, other):
    here = px.random_model(seed=1, **EVERY_SWITCH[name]).run([1, 2, 3])
    there = px.random_model(seed=2, **EVERY_SWITCH[name]).run(other)
    graph, target = px.contrast(here, there), here.logit(3)
    for by in (*UNITS, "source"):
        assert px.attribution(graph, target, by=by).ok, by
    by_source = px.attribution(graph, target, by="source")
    terms = px.expand(graph)
    for label, value in zip(by_source.names, by_source.values, strict=True):
        assert abs(terms.where(f"{label} .* U").value(target) - value) < 1e-10, label
    assert ("weights" in px.attribution(graph, target, by="token").names) and len(by_source.names) > 5


def test_a_summary_needs_something_to_compare_with():
    trace = px.random_model(seed=1).run([1, 2, 3])
    with pytest.raises(px.PathexpError, match=r"`other`.*`against`"):
        contrast_summary(trace, trace.logit(1))
    other = px.random_model(seed=2)
    found = contrast_summary(trace, trace.logit(1), against=other)
    assert found.ok and found.two_models and found.sources.ok
