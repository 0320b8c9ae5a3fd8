"""The account of the stream, the logit lens in its two modes, and the check that a model tells order."""

import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings

import pathexp as px
from pathexp.cli import main
from tests.drawn import models
from tests.shared_models import shared_file
from tests.zoo import FAMILIES, ZOO

MODELS = {**ZOO, **FAMILIES}


def states(trace, mode="own", mid=False):
    return getattr(px.lens(trace, trace.logit(0), mid=mid), mode)


def run_of(name, length=9):
    model = MODELS[name]()
    n = min(length, model.config.n_ctx)
    return model.run(np.random.default_rng(len(name)).integers(0, model.config.d_vocab, n))


@settings(max_examples=25, deadline=None)
@given(model=models())
def test_every_switch_at_once(model):
    trace = model.run(np.random.default_rng(0).integers(0, model.config.d_vocab, 5))
    parts = px.decompose(trace)
    assert parts.ok, list(map(str, parts.balances()))
    size = np.abs(trace.logits).max()
    np.testing.assert_allclose(sum(parts.logits().values()), trace.logits, atol=1e-9 * (1 + size))
    for mode in ("own", "frozen"):
        lens = states(trace, mode, mid=True)
        np.testing.assert_allclose(lens.logits[-1], trace.logits, atol=1e-9 * (1 + size))


def test_twelve_layers_give_twelve_intermediate_states_and_the_last():
    trace = px.random_model(layers=12, heads=2, norm="layernorm", biases=True, d_mlp=9).run([1, 2, 3])
    for mode in ("own", "frozen"):
        lens = states(trace, mode)
        assert len(lens.points) == 12 + 1 and lens.points[0] == "embed" and lens.points[-1] == "L11.out"
        np.testing.assert_allclose(lens.logits[-1], trace.logits, atol=1e-11)
        assert lens.logits.shape == (13, 3, 11)
    assert len(states(trace, mid=True).points) == 25


def test_the_lens_reads_a_stream_as_the_model_would():
    """Mode own, by plain numpy; rank and top token by counting."""
    trace = run_of("3L-layernorm")
    lens, w = states(trace), trace.model.weights
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
    frozen, own = states(trace, "frozen"), states(trace, "own")
    straight = trace.model.weights.W_U @ trace.model.weights.b_final + trace.model.weights.b_U

    def steps(lens):
        return np.diff(lens.logits, axis=0).sum(axis=0) + lens["embed"]

    np.testing.assert_allclose(steps(frozen), trace.logits, atol=1e-11)
    parts = px.decompose(trace).logits()
    first = sum(parts[label] for label in ("E", "P"))
    np.testing.assert_allclose(frozen["embed"], first + straight, atol=1e-11)
    assert np.abs(own["embed"] - first - straight).max() > 1e-2


def test_the_lens_refuses():
    trace = run_of("2L-plain")
    lens = states(trace)
    with pytest.raises(px.PathexpError, match="expected the mode 'own' or 'frozen', got 'last'"):
        px.lens(trace, trace.logit(0)).values("last")
    with pytest.raises(px.PathexpError, match="another run"):
        px.lens(trace, MODELS["2L-plain"]().run([3, 3, 3]).logit(1))
    with pytest.raises(px.PathexpError, match="space 'residual'"):
        px.lens(trace, trace.direction(np.ones(trace.config.d_model), space="residual"))
    with pytest.raises(
        px.PathexpError, match=r"no state 'L0.mid' in this lens; there are embed, L0.out, L1.out"
    ):
        lens["L0.mid"]
    with pytest.raises(px.PathexpError):
        lens.ranks(99)
    with pytest.raises(px.PathexpError, match="position 9 is not in this run"):
        lens.top_tokens(9)


def folded(path):
    model = px.random_model(layers=2, heads=2, norm="layernorm", biases=True, d_mlp=7, seed=3)
    model = px.rewrite.fold_norms(model)
    model.save(path)
    return model


def test_the_command(capsys, tmp_path):
    """Every state of both modes, entries that add up, and the answer's own JSON."""
    path = str(tmp_path / "model.npz")
    trace = folded(path).run([1, 2, 3])
    assert main(["lens", path, "--tokens", "1,2,3", "--target", "#4", "--mid", "--json"]) == 0
    data, found = json.loads(capsys.readouterr().out), px.lens(trace, trace.logit(4), mid=True)
    expected = json.loads(found.to_json())
    assert data["tables"] == expected["tables"] and data["checks"] == expected["checks"] and found.ok
    states = data["tables"]["states"]["rows"]
    assert [row["state"] for row in states] == ["embed", "L0.mid", "L0.out", "L1.mid", "L1.out"]
    assert states[-1]["own"] == pytest.approx(float(trace.logits[-1, 4]), abs=1e-12)
    added = [row["adds"] for row in data["tables"]["entries"]["rows"]]
    assert sum(added) == pytest.approx(data["target_value"], abs=1e-10)
    assert data["notes"][0] == "rewritten: fold_norms(attn, mlp, final)"
    assert main(["lens", path, "--tokens", "1,2,3", "--top", "3"]) == 0
    printed = capsys.readouterr().out
    assert "rewritten: fold_norms" in printed and "add up to the target" in printed and "more" in printed


def test_a_copied_lens_keeps_its_tables():
    trace = run_of("2L-plain")
    found = px.lens(trace, trace.logit(1))
    again = pickle.loads(pickle.dumps(found))
    assert str(again) == str(found) and again.added == found.added
    with pytest.raises(AttributeError, match="ask again"):
        again.own  # noqa: B018


@pytest.mark.parametrize(
    "call", [px.decompose, lambda what: px.lens(what, None), lambda what: px.score(what, "L0H0")]
)
def test_what_is_no_run_is_refused_by_name(call):
    with pytest.raises(px.PathexpError, match="expected a trace, got <ResidualGraph"):
        call(px.freeze(run_of("2L-plain")))


def test_a_trained_llama():
    """Accounts, both modes and every rewrite that is valid, on real weights; a Llama's stream can be turned."""
    model = px.load(shared_file("stories260K.bin"))
    trace = model.run("Once upon a")
    parts, lens = px.decompose(trace), states(trace)
    assert parts.ok and len(lens.points) == 6
    assert model.token_string(lens.top_tokens()[-1]) == " time"
    np.testing.assert_allclose(sum(parts.logits().values()), trace.logits, atol=1e-10)
    turned = px.rewrite.rotate(px.rewrite.fold_norms(model), 1)
    assert turned.history == ("fold_norms(attn, mlp, final)", "rotate") and not turned.config.tied
    np.testing.assert_allclose(turned.run("Once upon a").logits, trace.logits, atol=1e-10)
