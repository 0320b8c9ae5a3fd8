"""What `expand` says: few paths are listed, very many are bundled in a tree, and the search runs when asked."""

import json
from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.answer import Check
from pathexp.cli import main
from pathexp.expansion.summary import summary


@pytest.fixture(scope="module")
def deep():
    model = px.random_model(layers=8, heads=6, d_model=16, d_head=3, d_vocab=9, n_ctx=8, seed=3)
    return model.run([1, 2, 3])


def test_few_paths_are_listed_and_no_tree_is_made(deep):
    trace = px.load("attn-1l").run("the king")
    found = summary(trace, trace.logit(1), k=3)
    assert found.ranked and list(found.tables()) == ["paths", "orders"] and len(found.records()) == 3
    assert found.ok and found.complete


def test_very_many_paths_are_a_tree_before_anything_is_searched(deep):
    found = summary(deep, deep.logit(4), nodes=5)
    assert not found.ranked and found.complete and "paths" not in found.tables()
    assert found.tree.nodes == 5 and found.document.checks[-1].what == "paths add up to the forward pass"
    assert abs(sum(found.totals) - deep.logit(4).value) < 1e-9
    assert "--prove" in str(found)


def test_the_search_runs_when_it_is_asked_for(deep):
    found = summary(deep, deep.logit(4), k=2, prove=True, nodes=1)
    assert found.ranking.exact and found.tables()["paths"].records()[0]["path"] == str(found.ranking[0].path)


def test_orders_that_cancel_are_said_to(deep):
    found = summary(deep, deep.logit(4), nodes=1)
    size, total = sum(map(abs, found.totals)), abs(sum(found.totals))
    assert ("orders cancel" in str(found)) == (size > 10 * total)


def test_the_first_parts_need_no_work(deep, monkeypatch):
    found = summary(deep, deep.logit(4))
    monkeypatch.setattr(type(found.terms), "tree", lambda *_, **__: pytest.fail("too early"))
    parts = found.parts()
    titles = [getattr(next(parts), "title", "") for _ in range(3)]
    assert titles[-1] == "frozen"


def test_an_interrupt_leaves_what_there_is(deep, monkeypatch, capsys, tmp_path):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("pathexp.expansion.expansion.Expansion.verify", stop)
    deep.model.save(tmp_path / "deep.npz")
    assert main(["expand", str(tmp_path / "deep.npz"), "--tokens", "1 2 3", "--nodes", "2"]) == 1
    out = capsys.readouterr().out
    assert "frozen" in out and "S .* U" in out and "interrupted" in out and "Traceback" not in out


@pytest.mark.parametrize("given", [{"k": 0}, {"k": 1.5}, {"nodes": 0}])
def test_bad_numbers_are_refused(deep, given):
    with pytest.raises(px.PathexpError, match=next(iter(given))):
        summary(deep, deep.logit(4), **given)


def test_the_command_tree_prints_the_same_answer(capsys):
    assert main(["tree", "attn-2l", "the king", "--nodes", "4", "--json"]) == 0
    trace = px.load("attn-2l").run("the king")
    assert (
        json.loads(capsys.readouterr().out)
        == px.tree(trace, trace.logit(trace.top_token()), nodes=4).to_dict()
    )


def test_an_interrupted_tree_is_not_complete_and_has_its_exit_code(deep, monkeypatch, capsys, tmp_path):
    def press(tree, *_, **__):
        return replace(tree, stopped="interrupted")

    grown = px.tree(deep, deep.logit(4), nodes=3)
    assert summary(deep, deep.logit(4), nodes=3).complete
    monkeypatch.setattr("pathexp.expansion.expansion.Expansion.tree", lambda *_, **__: press(grown))
    assert not summary(deep, deep.logit(4), nodes=3).complete
    deep.model.save(tmp_path / "deep.npz")
    assert main(["expand", str(tmp_path / "deep.npz"), "--tokens", "1 2 3", "--nodes", "3"]) == 3
    assert "interrupted" in capsys.readouterr().out


def test_a_list_is_checked_where_that_is_asked_for():
    trace = px.load("attn-1l").run("To be, or not to be")
    found = summary(trace, trace.logit(" the"), check=True)
    assert found.ok and found.proof.paths == 9
    names = [part.name for part in found.parts() if isinstance(part, Check)]
    assert {"the_ranking_agrees_with_itself", "inclusions", "known_paths", "verdict"} <= set(names)
    assert "checked without the search" in str(found)


def test_a_list_that_nothing_bounds_is_undecided():
    trace = px.random_model(layers=7, heads=6, d_model=8, d_head=2, d_vocab=6, seed=1).run([1, 2, 3])
    found = summary(trace, trace.logit(1), nodes=2, check=True, seconds=0.0)
    proof = [part for part in found.parts() if isinstance(part, Check) and part.name == "proof"]
    if not np.isfinite(found.ranking.bound):
        assert proof[0].outcome == "undecided" and not found.ok


def test_neurons_are_components(capsys):
    """Every neuron of every layer as a component of its own: the same sum, more paths."""
    trace = px.random_model(layers=2, heads=1, d_mlp=3, positions="none").run([1, 2, 3])
    whole, each = (summary(trace, trace.logit(4), mlp=mlp) for mlp in ("gate", "neurons"))
    assert each.terms.count() > whole.terms.count() and each.ok
    assert each.terms.value(trace.logit(4)) == pytest.approx(whole.terms.value(trace.logit(4)))
    assert any("L1N2" in str(term.path) for term in each.terms)
    plain = px.load("attn-2l").run("To be")
    with pytest.raises(px.PathexpError, match="no MLPs, so there are no neurons"):
        summary(plain, plain.logit(3), mlp="neurons")


def test_a_summary_inside_a_query_names_it():
    trace = px.load("attn-1l").run("the king")
    few = summary(trace, trace.logit(1), query="E .* L0H3 .* U")
    assert few.headline() == "1 path matching 'E .* L0H3 .* U': 1 of order 1"
    assert summary(trace, trace.logit(1), query="E L0H3 L0H3 U").headline().startswith("no paths matching")
    assert "matching" not in summary(trace, trace.logit(1)).headline()
