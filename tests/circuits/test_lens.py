"""The account of the stream, the logit lens in its two modes, and the check that a model tells order."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

import pathexp as px
from pathexp.circuits.attribution.decompose import stream_points
from pathexp.cli import main
from tests.drawn import models
from tests.shared_models import shared_file
from tests.zoo import FAMILIES, ZOO

MODELS = {**ZOO, **FAMILIES}


def run_of(name, length=9):
    model = MODELS[name]()
    n = min(length, model.config.n_ctx)
    return model.run(np.random.default_rng(len(name)).integers(0, model.config.d_vocab, n))


@pytest.mark.parametrize("name", MODELS)
def test_the_stream_is_the_sum_of_what_was_written_at_every_depth(name):
    trace = run_of(name)
    parts = px.decompose(trace)
    assert parts.points == ("embed", *stream_points(trace.config)) and parts.ok
    for point in parts.points:
        entries = parts.at(point)
        np.testing.assert_allclose(sum(entries.values()), trace.residuals[point], atol=1e-11)
        np.testing.assert_allclose(sum(parts.branches(point).values()), trace.residuals[point], atol=1e-11)
    np.testing.assert_allclose(sum(parts.logits().values()), trace.logits, atol=1e-10)


@pytest.mark.parametrize("name", [name for name in MODELS if MODELS[name]().config.norm_placement != "post"])
def test_branches_are_what_the_forward_pass_added(name):
    """h_l = h_0 + Σ attention + Σ MLP, with the arrays of the forward pass; case A-06 where branches are normed."""
    trace = run_of(name)
    branches = px.decompose(trace).branches(px.decompose(trace).points[-1])
    np.testing.assert_allclose(branches["embed"], trace.residuals["embed"], atol=1e-12)
    for layer in range(trace.config.n_layers):
        for kind in ("attn", "mlp")[: 1 + bool(trace.config.d_mlp)]:
            np.testing.assert_allclose(
                branches[f"L{layer}.{kind}"], trace.residuals[f"L{layer}.{kind}_out"], atol=1e-11
            )


@settings(max_examples=25, deadline=None)
@given(model=models())
def test_every_switch_at_once(model):
    trace = model.run(np.random.default_rng(0).integers(0, model.config.d_vocab, 5))
    parts = px.decompose(trace)
    assert parts.ok, list(map(str, parts.balances()))
    size = np.abs(trace.logits).max()
    np.testing.assert_allclose(sum(parts.logits().values()), trace.logits, atol=1e-9 * (1 + size))
    for mode in ("own", "frozen"):
        lens = px.logit_lens(trace, mode, between=True)
        np.testing.assert_allclose(lens.logits[-1], trace.logits, atol=1e-9 * (1 + size))


def test_the_account_can_fail():
    trace = run_of("gpt2")
    other = MODELS["gpt2"]().run(trace.tokens[::-1])
    wrong = px.decompose(replace(trace, residuals=other.residuals))
    assert not wrong.ok and "≠" in str(wrong.balances()[0])


def test_entries_in_a_post_norm_model_are_carried_over_the_norms():
    trace = run_of("original")
    parts = px.decompose(trace)
    assert np.abs(parts["E"] - parts.written("E")).max() > 0.1
    np.testing.assert_allclose(parts.at("embed")["E"], parts.written("E"), atol=0)
    assert parts.points == ("embed", "L0.mid", "L0.out", "L1.mid", "L1.out")


def test_entries_and_points_that_are_not_there():
    parts = px.decompose(run_of("2L-plain"))
    with pytest.raises(px.PathexpError, match="no entry 'L9H9'; entries are E, P, L0H0"):
        parts["L9H9"]
    with pytest.raises(
        px.PathexpError, match=r"no account at 'L0.mid'; there is one at embed, L0.out, L1.out"
    ):
        parts.at("L0.mid")


def test_twelve_layers_give_twelve_intermediate_states_and_the_last():
    trace = px.random_model(layers=12, heads=2, norm="layernorm", biases=True, d_mlp=9).run([1, 2, 3])
    for mode in ("own", "frozen"):
        lens = px.logit_lens(trace, mode)
        assert len(lens.points) == 12 + 1 and lens.points[0] == "embed" and lens.points[-1] == "L11.out"
        np.testing.assert_allclose(lens.logits[-1], trace.logits, atol=1e-11)
        assert lens.logits.shape == (13, 3, 11)
    assert len(px.logit_lens(trace, between=True).points) == 25


def test_the_lens_reads_a_stream_as_the_model_would():
    """Mode own, by plain numpy; rank and top token by counting."""
    trace = run_of("3L-layernorm")
    lens, w = px.logit_lens(trace), trace.model.weights
    x = trace.residuals["L0.out"]
    centered = x - x.mean(-1, keepdims=True)
    normed = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5) * w.g_final + w.b_final
    np.testing.assert_allclose(lens["L0.out"], normed @ w.W_U.T + w.b_U, atol=1e-12)
    assert lens.top_tokens()[-1] == trace.top_token()
    assert lens.ranks(trace.top_token())[-1] == 1
    assert lens.ranks(int(lens["embed"][-1].argmin()))[0] == 11
    np.testing.assert_allclose(np.exp(lens.log_probs).sum(-1), 1, atol=1e-12)


def test_only_frozen_components_add_up():
    trace = run_of("3L-layernorm")
    frozen, own = px.logit_lens(trace, "frozen"), px.logit_lens(trace, "own")
    straight = trace.model.weights.W_U @ trace.model.weights.b_final + trace.model.weights.b_U

    def steps(lens):
        return np.diff(lens.logits, axis=0).sum(axis=0) + lens["embed"]

    np.testing.assert_allclose(steps(frozen), trace.logits, atol=1e-11)
    parts = px.decompose(trace).logits()
    first = sum(parts[label] for label in ("E", "P"))
    np.testing.assert_allclose(frozen["embed"], first + straight, atol=1e-11)
    assert np.abs(own["embed"] - first - straight).max() > 1e-2


def test_the_lens_refuses():
    lens = px.logit_lens(run_of("2L-plain"))
    with pytest.raises(px.PathexpError, match="'own' normalizes"):
        px.logit_lens(lens.trace, "last")
    with pytest.raises(
        px.PathexpError, match=r"no state 'L0.mid' in this lens; there are embed, L0.out, L1.out"
    ):
        lens["L0.mid"]
    with pytest.raises(px.PathexpError):
        lens.ranks(99)
    with pytest.raises(px.PathexpError, match="position 9 is not in this run"):
        lens.top_tokens(9)


def test_the_command(capsys, tmp_path):
    """Every state of both modes, entries that add up, and its exit code."""
    model = px.rewrite.fold_norms(
        px.random_model(layers=2, heads=2, norm="layernorm", biases=True, d_mlp=7, seed=3)
    )
    path = str(tmp_path / "model.npz")
    model.save(path)
    assert main(["lens", path, "--tokens", "1,2,3", "--target", "#4", "--between", "--json"]) == 0
    data, trace = json.loads(capsys.readouterr().out), model.run([1, 2, 3])
    assert [state["point"] for state in data["states"]] == ["embed", "L0.mid", "L0.out", "L1.mid", "L1.out"]
    assert data["states"][-1]["own"] == pytest.approx(float(trace.logits[-1, 4]), abs=1e-12)
    assert data["states"][-1]["top_token"] == trace.top_token() and data["ok"]
    assert sum(data["entries"].values()) == pytest.approx(data["target"]["value"], abs=1e-10)
    assert data["history"] == ["fold_norms(attn, mlp, final)"]
    assert main(["lens", path, "--tokens", "1,2,3", "--top", "3"]) == 0
    printed = capsys.readouterr().out
    assert "rewritten: fold_norms" in printed and "add up to the target" in printed and "others" in printed


@pytest.mark.parametrize("call", [px.decompose, px.logit_lens, lambda what: px.expand_score(what, "L0H0")])
def test_what_is_no_run_is_refused_by_name(call):
    with pytest.raises(px.PathexpError, match="expected a trace, got <ResidualGraph"):
        call(px.freeze(run_of("2L-plain")))


def test_a_trained_llama():
    """Accounts, both modes and every rewrite that is valid, on real weights; a Llama's stream can be turned."""
    model = px.load(shared_file("stories260K.bin"))
    trace = model.run("Once upon a")
    parts, lens = px.decompose(trace), px.logit_lens(trace)
    assert parts.ok and len(lens.points) == 6
    assert model.token_string(lens.top_tokens()[-1]) == " time"
    np.testing.assert_allclose(sum(parts.logits().values()), trace.logits, atol=1e-10)
    turned = px.rewrite.rotate(px.rewrite.fold_norms(model), 1)
    assert turned.history == ("fold_norms(attn, mlp, final)", "rotate") and not turned.config.tied
    np.testing.assert_allclose(turned.run("Once upon a").logits, trace.logits, atol=1e-10)
