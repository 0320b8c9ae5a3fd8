"""The account of the stream: at every depth the sum of what was written, on every architecture."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.attribution.decompose import stream_points, written_by
from pathexp.cli import main
from tests.circuits.attribution.test_lens import MODELS, run_of


@pytest.mark.sampled(3)
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


def test_the_account_can_fail():
    trace = run_of("gpt2")
    other = MODELS["gpt2"]().run(trace.tokens[::-1])
    wrong = px.decompose(replace(trace, residuals=other.residuals))
    assert not wrong.ok and "does not hold" in str(wrong.balances()[0])


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
    with pytest.raises(px.PathexpError, match=r"no account at 'L0.mid'"):
        px.decompose(parts.trace, point="L0.mid")


@pytest.mark.parametrize("name", ["2L-plain", "gpt2", "original"])
def test_shares_are_those_of_the_squared_length_and_add_up_to_one(name):
    """By plain numpy: what each entry has of the direction of the stream."""
    trace = run_of(name)
    for point in px.decompose(trace).points:
        found = px.decompose(trace, point=point)
        stream = trace.residuals[point]
        rows = {row["entry"]: row for row in found.records()}
        assert sum(row["share"] for row in rows.values()) == pytest.approx(1, abs=1e-12)
        for label, each in found.at(point).items():
            expected = (each * stream).sum() / (stream * stream).sum()
            assert rows[label]["share"] == pytest.approx(expected, abs=1e-12)
            assert rows[label]["length"] == pytest.approx(np.linalg.norm(each, axis=-1).mean())


def test_the_command_prints_the_same_answer(capsys):
    command = ["decompose", "attn-2l", "the king", "--point", "L0.out"]
    assert main([*command, "--json"]) == 0
    found = px.decompose(px.load("attn-2l").run("the king"), point="L0.out")
    assert json.loads(capsys.readouterr().out) == json.loads(found.to_json())
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "sum of 9 entries" in printed and "+100.0 %" in printed and "at 3 depths" in printed
    assert str(pickle.loads(pickle.dumps(found))) == str(found)
    assert main(["decompose", "attn-2l", "the king", "--point", "L7.out"]) == 2
    assert "no account at 'L7.out'" in capsys.readouterr().err


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", MODELS)
def test_what_some_components_wrote_is_what_the_account_holds(name):
    """Streams of the run in place of sums of entries: 1e-12 of the largest is thousands of roundings."""
    trace = run_of(name)
    whole = px.decompose(trace)
    found = written_by(trace, whole.labels)
    assert set(found) == set(whole.labels)
    for label in whole.labels:
        size = np.abs(whole.written(label)).max() + np.abs(trace.residuals["embed"]).max()
        assert np.abs(found[label] - whole.written(label)).max() <= 1e-12 * size
