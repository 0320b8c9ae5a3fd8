"""Interventions: nothing cut is the run, everything patched is the other run, values cost nothing, keys everything."""

import json
import pickle

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.interventions.cuts import paths_along, paths_through
from pathexp.circuits.interventions.kept_paths import read_by
from pathexp.circuits.interventions.mean_kl import mean_kl
from pathexp.circuits.interventions.means import given
from pathexp.cli import main
from pathexp.errors import PathexpError
from pathexp.graph import freeze
from pathexp.model.forward import rerun
from pathexp.model.parts import mlp_output
from tests.shared_models import induction_2l_1h
from tests.zoo import FAMILIES, ZOO

EVERY = {**ZOO, **FAMILIES}
DEEP = ["2L-gqa", "3L-layernorm", "gpt2", "gptj", "original", "gemma2", "llama"]


def intervene(trace, cut, **given):
    """One intervention, whatever the target."""
    (found,) = px.intervene(trace, trace.logit(0), cut=cut, **given)
    return found


def pair(model):
    n, rng = min(5, model.config.n_ctx), np.random.default_rng(3)
    return (model.run(rng.integers(0, model.config.d_vocab, n)) for _ in range(2))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", EVERY)
def test_patching_every_path_is_the_other_run_and_cutting_none_is_this_one(name):
    trace, other = pair(EVERY[name]())
    everything = intervene(trace, "S? .* U", patch_from=other)
    np.testing.assert_allclose(everything.live, other.logits, atol=1e-11)
    nothing = intervene(trace, px.query("E U") & ~px.query("E U"))
    assert nothing.paths == 0
    np.testing.assert_allclose(nothing.live, trace.logits, atol=1e-11)
    np.testing.assert_allclose(nothing.frozen, trace.logits, atol=1e-11)


def test_values_cost_nothing_where_nothing_else_is_frozen():
    """Queries and keys read the run as it was, so patterns are the same, and live is frozen."""
    model = px.random_model(layers=3, heads=3, biases=True, seed=4)
    trace, other = pair(model)
    for cut in (
        paths_through("L0H1"),
        paths_along("L0H2", "L2H0"),
        px.query("E L0H1 L2H2 U"),
        paths_through("E"),
    ):
        for run in (None, other):
            found = intervene(trace, cut, patch_from=run, inputs="v")
            np.testing.assert_allclose(found.live, found.frozen, atol=1e-12)
    assert not np.allclose(
        *(getattr(intervene(trace, paths_through("L0H1")), kind) for kind in ("live", "frozen"))
    )


def test_keys_are_invisible_to_frozen_patterns():
    trace, _ = pair(px.random_model(layers=2, heads=2, seed=2))
    found = intervene(trace, paths_along("L0H0", "L1H1"), inputs="k")
    target = trace.logit(3)
    frozen, live = found.effect(target)
    assert abs(frozen) < 1e-12 and live != 0 and abs(found.price(target) + live) < 1e-12


def test_live_cut_of_a_node_is_the_run_without_what_it_writes():
    """Against another way: the forward pass itself, its head's W_O zero."""
    model = px.random_model(layers=3, heads=2, norm="layernorm", d_mlp=7, biases=True, seed=6)
    trace, _ = pair(model)
    W_O = model.weights.W_O.copy()
    W_O[1, 0] = 0.0
    without = px.Model(model.config, _with(model.weights, W_O=W_O)).run(trace.tokens)
    np.testing.assert_allclose(intervene(trace, paths_through("L1H0")).live, without.logits, atol=1e-12)


def test_patched_node_is_the_run_with_the_other_runs_output():
    model = px.random_model(layers=2, heads=2, norm="rmsnorm", seed=6)
    trace, other = pair(model)
    change = (other.head_results - trace.head_results)[0, 1]
    again = rerun(trace, {"L0.attn_out": lambda x: x + change})
    np.testing.assert_allclose(
        intervene(trace, paths_through("L0H1"), patch_from=other).live, again.logits, atol=1e-12
    )


def _with(weights, **arrays):
    from dataclasses import replace

    return replace(weights, **arrays)


def test_what_cannot_be_asked_says_so():
    model = px.random_model(layers=1)
    trace = model.run([1, 2, 3])
    for wrong in ({"inputs": "x"}, {"inputs": ""}, {"patch_from": model.run([1, 2])}):
        with pytest.raises(PathexpError):
            intervene(trace, "E U", **wrong)
    with pytest.raises(PathexpError, match="no point"):
        rerun(trace, {"L7.out": lambda x: x})
    with pytest.raises(PathexpError, match="shape"):
        rerun(trace, {"L0.out": lambda x: x[0]})
    with pytest.raises(PathexpError, match="L9H9"):
        intervene(trace, paths_through("L9H9"))
    with pytest.raises(PathexpError, match="space"):
        intervene(trace, "E U").effect(trace.direction(np.ones(model.config.d_model), space="residual"))


def test_an_edited_run_does_not_pass_for_a_proven_one():
    trace = px.random_model(layers=1).run([1, 2, 3])
    assert not px.expand(rerun(trace, {"L0.attn_out": lambda x: x + 1.0})).verify().ok


@pytest.mark.parametrize("point", ["embed", "L0.attn_out", "L1.out", "final_out"])
def test_paths_of_an_edited_run_are_not_intervened_on(point):
    """Live and frozen paths start from tokens and weights: they would leave the edit out and say nothing."""
    trace = px.random_model(layers=2, heads=2, norm="rmsnorm").run([1, 2, 3])
    edited = rerun(trace, {point: lambda x: x + 1.0})
    with pytest.raises(px.PathexpError, match=rf"made by rerun\(\) with other numbers at {point},"):
        intervene(edited, px.paths_through("L0H1"))
    with pytest.raises(px.PathexpError, match="made by rerun"):
        intervene(trace, px.paths_through("L0H1"), patch_from=edited)
    again = rerun(edited, {})
    assert not again.edited and (again.logits == trace.logits).all()


def test_distance_of_distributions():
    a = np.log([[0.5, 0.5], [0.5, 0.5]])
    b = np.log([[0.25, 0.75], [0.5, 0.5]])
    assert mean_kl(a, a) == 0
    np.testing.assert_allclose(mean_kl(a, b), 0.5 * (0.5 * np.log(2) + 0.5 * np.log(2 / 3)))


@pytest.mark.slow
def test_published_ablations_of_a_trained_model():
    """Keys without the first layer .00, queries .92, values .92, keys only by it .84."""
    model, rng = induction_2l_1h(), np.random.default_rng(0)
    edge, around = paths_along("L0H0", "L1H0"), px.query("S L1H0 U")
    asked = {"keys": (edge, "k"), "queries": (edge, "q"), "values": (edge, "v"), "keys only": (around, "k")}
    right = dict.fromkeys(asked, 0)
    runs = 250
    for _ in range(runs):
        tokens = rng.permutation(26)[:7]
        j = rng.integers(0, 6)
        trace = model.run([*tokens, tokens[j]])
        for name, (cut, sides) in asked.items():
            right[name] += intervene(trace, cut, inputs=sides).live[-1].argmax() == tokens[j + 1]
    shares = {name: count / runs for name, count in right.items()}
    expected = {"keys": 0.0, "queries": 0.92, "values": 0.92, "keys only": 0.84}
    assert all(abs(shares[name] - expected[name]) < 0.07 for name in expected), shares


def test_trained_induction_head_reads_the_previous_token_head_by_its_keys():
    trace = px.load("attn-2l").run("Macbeth shall sleep no more. Macbeth shall")
    target = trace.logit(" sleep")
    by_keys, by_values = (
        intervene(trace, paths_along("L0H2", "L1H0"), inputs=side).effect(target)[1] for side in "kv"
    )
    assert by_keys < -4 and abs(by_values) < 0.3
    frozen, live = intervene(trace, paths_through("L0H2")).effect(target)
    assert abs(frozen) < 0.1 and live < -14


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda trace: paths_along("L0H0.V", "L1H0"), "port"),
        (lambda trace: paths_along("L0H0", "L1H0.O"), "Q, K and V"),
        (lambda trace: paths_along("L0H0", None), "label of a node"),
        (lambda trace: paths_through("L1H0.K"), "port"),
        (lambda trace: paths_through(3), "label of a node"),
        (lambda trace: intervene(trace, "S .* L1H0.K .* U"), r"along\(writer, 'L1H0\.K'\)"),
        (lambda trace: intervene(trace, paths_along("E", "L0M.K")), "not a head"),
        (lambda trace: intervene(trace, paths_along("E", "L7H0.K")), "L7H0"),
        (lambda trace: intervene(trace, 3), "cut is a query"),
        (lambda trace: px.intervene(None, None, cut="E U"), "expected a trace"),
        (lambda trace: intervene(trace, "E U", patch_from=3), "text|token|tokens"),
        (lambda trace: intervene(trace, "E U", inputs=None), "inputs"),
        (lambda trace: px.intervene(trace, None, cut="E U"), "a target such as"),
        (lambda trace: intervene(trace, "E U").effect(trace.model.run([3, 3, 3]).logit(1)), "another run"),
    ],
)
def test_misuse_is_refused_by_name(ask, text):
    trace = px.random_model(layers=2, heads=2, d_mlp=7).run([1, 2, 3])
    with pytest.raises(PathexpError, match=text):
        ask(trace)


def test_a_port_is_one_side_of_one_head():
    """What stands behind the head reads live what it then gives; other heads read all sides along the paths."""
    model = px.random_model(layers=3, heads=2, seed=5)
    trace, _ = pair(model)
    by_port = intervene(trace, paths_along("L0H0", "L1H0.K"))
    assert (
        by_port.cut.ports == {"L1H0": "k"}
        and by_port.paths == intervene(trace, paths_along("L0H0", "L1H0")).paths
    )
    by_sides = intervene(trace, paths_along("L0H0", "L1H0"), inputs="k")
    assert not np.allclose(by_port.live, by_sides.live)
    np.testing.assert_allclose(by_port.frozen, trace.logits, atol=1e-12)


@pytest.mark.parametrize("arguments", [["--edge", "L0H0 L1H0.K"], ["--node", "L0M"], ["--cut", "E U"]])
def test_the_command_in_a_post_norm_model(capsys, tmp_path, arguments):
    path = str(tmp_path / "model.npz")
    FAMILIES["original"]().save(path)
    assert main(["intervene", path, "--tokens", "1,2,3", *arguments, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["tables"]["interventions"]["rows"]
    assert row["paths"] > 0 and np.isfinite(row["live"])
    assert main(["intervene", path, "--tokens", "1,2,3", "--edge", "L0H0.V L1H0"]) == 2
    assert "port" in capsys.readouterr().err


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", DEEP)
def test_a_mean_over_one_run_is_that_run_and_over_itself_nothing(name):
    trace, other = pair(EVERY[name]())
    for cut in (
        paths_through("L0H0"),
        paths_through("L1H0"),
        paths_along("L0H0", "L1H0"),
        px.query("E L0 .* U"),
    ):
        same = intervene(trace, cut, zero="mean", means=[trace, trace])
        np.testing.assert_allclose(same.live, trace.logits, atol=1e-10)
        np.testing.assert_allclose(same.frozen, trace.logits, atol=1e-10)
    resampled = intervene(trace, paths_through("L0H0"), zero=other)
    patched = intervene(trace, paths_through("L0H0"), patch_from=other)
    np.testing.assert_allclose(resampled.live, patched.live, atol=1e-10)


@pytest.mark.parametrize("norm", [None, "rmsnorm"])
def test_mean_ablation_of_a_node_is_the_run_with_the_mean_of_its_outputs(norm):
    """Live against an edited forward pass; frozen against the sums of the cut paths in every run."""
    model = px.random_model(layers=2, heads=2, norm=norm, d_mlp=7, seed=6)
    trace, *others = (
        model.run(tokens) for tokens in ([1, 2, 3, 4], [4, 3, 2, 1], [5, 5, 1, 0], [2, 7, 1, 8])
    )
    change = np.mean([run.head_results[0, 1] for run in others], axis=0) - trace.head_results[0, 1]
    again = rerun(trace, {"L0.attn_out": lambda x: x + change})
    found = intervene(trace, paths_through("L0H1"), zero="mean", means=others)
    np.testing.assert_allclose(found.live, again.logits, atol=1e-11)
    sums = [px.expand(run, paths_through("L0H1")).logits() for run in (trace, *others)]
    expected = trace.logits - sums[0] + np.mean(sums[1:], axis=0)
    np.testing.assert_allclose(found.frozen, expected, atol=1e-11)


def test_the_zero_point_is_named_and_checked(tmp_path, capsys):
    model = px.load("attn-2l")
    trace = model.run("the king is dead")
    target = trace.logit(trace.top_token())
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("the queen is here and the king is not. " * 9)
    by_mean = px.intervene(trace, target, node="L0H2", zero="mean", means=str(corpus))
    assert "replaced by their mean over 16 runs" in str(by_mean)
    assert "set to zero" in str(px.intervene(trace, target, node="L0H2"))
    assert "another run" in str(px.intervene(trace, target, node="L0H2", zero=trace))
    for wrong in ({"zero": "mean"}, {"zero": "none"}, {"zero": "mean", "means": [model.run("a")]},
                  {"zero": trace, "patch_from": trace}, {"cut": "E U"}, {"edge": "L0H0"}):  # fmt: skip
        with pytest.raises(PathexpError):
            px.intervene(trace, target, node="L0H2", **wrong)
    command = [
        "intervene",
        "attn-2l",
        "the king is dead",
        "--node",
        "L0H2",
        "--zero",
        "mean",
        "--means",
        str(corpus),
    ]
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tables"] == json.loads(by_mean.to_json())["tables"]


def test_each_component_in_turn_and_the_same_answer_from_the_command(capsys):
    trace = px.load("attn-2l").run("the king")
    found = px.intervene(trace, trace.logit(trace.top_token()))
    assert len(found) == 16 and [each.paths for each in found] == [9] * 16
    assert main(["intervene", "attn-2l", "the king", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(found.to_json())
    assert main(["intervene", "attn-2l", "the king", "--top", "2"]) == 0
    printed = capsys.readouterr().out
    assert "frozen − live" in printed and "live KL" in printed and "14 more" in printed
    again = pickle.loads(pickle.dumps(found))
    assert str(again) == str(found) and again.effects == found.effects
    with pytest.raises(AttributeError, match="ask again"):
        again[0]


def test_where_a_mean_stands_in_an_input_that_reads_no_path_reads_the_run_itself():
    model = EVERY["gpt2"]()
    trace, other = pair(model)
    mlp = next(c for c in freeze(trace).components() if c.head is None)
    clean = read_by(trace, mlp)
    np.testing.assert_array_equal(given(mlp, other, "qkv", clean), mlp_output(model, mlp.label, clean))
    np.testing.assert_array_equal(
        given(mlp, other, "m", clean), mlp_output(model, mlp.label, read_by(other, mlp))
    )
    assert np.abs(given(mlp, other, "qkv", clean) - given(mlp, other, "m", clean)).max() > 1e-3
