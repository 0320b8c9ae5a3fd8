"""A score as a pair of trees: both, and the pairs of their branches, add up to it; every number is a sum of terms."""

from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from tests.commands import json_of, printed, refusal
from tests.zoo import FAMILIES, ZOO

MODELS = {**ZOO, **FAMILIES}


def scored(name):
    model = MODELS[name]()
    trace = model.run(np.random.default_rng(3).integers(0, model.config.d_vocab, 5))
    return px.score(trace, f"L{model.config.n_layers - 1}H0", query=-1, key=2)


@pytest.mark.parametrize(
    "name", ["2L-gqa", "gpt2", "gemma2", "bloom", "qwen3", "2L-qk", "3L-layernorm", "original"]
)
def test_trees_and_pairs_are_sums_of_terms(name):
    terms = scored(name)
    found = terms.tree(nodes=12)
    bias = 0.0 if terms.position_bias is None else terms.position_bias.value
    assert found.ok and found.value == pytest.approx(terms.value() - bias, abs=1e-9)
    for side, tree in (("query", found.queries), ("key", found.keys)):
        assert tree.value == pytest.approx(found.value, abs=1e-9)
        for node in list(tree)[:10]:
            part = terms.where(**{side: node.query})
            assert part.value() == pytest.approx(node.value, abs=1e-8)
    pairs = found.pairs()
    assert pairs.values.sum() == pytest.approx(found.value, abs=1e-9)
    query, key = found.queries.root.children[0], found.keys.root.children[0]
    both = terms.where(query=query.query, key=key.query)
    assert pairs.values[0, 0] == pytest.approx(both.value(), abs=1e-9)
    if both.count() < 500:
        assert sum(term.value for term in both) == pytest.approx(pairs.values[0, 0], abs=1e-9)


def test_both_directions_and_limits():
    terms = scored("gpt2")
    back, forward = terms.tree(nodes=4), terms.tree(nodes=4, direction="forward")
    assert back.value == forward.value and forward.ok and forward.keys.direction == "forward"
    assert back.queries.nodes == back.keys.nodes == 4 and back.complete


def test_no_node_opened_is_one_bundle_a_side():
    found = scored("gpt2").tree(nodes=0)
    assert found.ok and found.pairs().values.shape == (1, 1)


def test_the_checks_can_fail():
    found = scored("gpt2").tree(nodes=4)
    assert not replace(found, value=found.value + 1e-3).ok
    assert not replace(found, pair=replace(found.pair, form=replace(found.pair.form, scale=1.01))).ok
    assert not replace(found, all_keys=found.all_keys.where("S .* L0 K")).ok


def test_chosen_kinds_have_no_tree():
    with pytest.raises(px.PathexpError, match="every kind"):
        scored("gpt2").where(kind="direct").tree()


def test_an_attended_token_of_a_trained_model():
    trace = px.load("attn-2l").run("Macbeth shall sleep no more. Macbeth shall")
    found = px.score(trace, "L1H3").tree(nodes=5)
    assert found.ok and found.queries.count == found.keys.count == 10


def test_the_command(capsys):
    out = printed(
        capsys, "score", "attn-2l", "the king and the", "--head", "L1H0", "--nodes", "3", "--top", "2"
    )
    assert "query paths, meeting the whole key" in out and "pairs add up to the score" in out
    data = json_of(capsys, "score", "attn-2l", "the king and the", "--head", "L1H0", "--nodes", "3")
    assert {"query_nodes", "key_nodes", "terms"} <= set(data["tables"])
    assert "--nodes" in refusal_of_zero(capsys)


def refusal_of_zero(capsys):
    with pytest.raises(SystemExit):
        refusal(capsys, "score", "attn-2l", "--nodes", "0")
    return capsys.readouterr().err


def test_a_narrowed_score_tree_names_its_queries():
    trace = px.load("attn-2l").run("To be, or not")
    whole = px.score(trace, "L1H0", query=3, key=1)
    part = px.score(trace, "L1H0", query=3, key=1, query_paths="E .* Q", key_paths="S .* L0H2 K").tree(
        nodes=2
    )
    assert abs(part.value - whole.tree(nodes=2).value) > 1e-3
    assert "(query paths matching 'E .* Q', key paths matching 'S .* L0H2 K')" in part.headline()
    assert "matching" not in whole.tree(nodes=2).headline()


def test_a_tree_of_some_kinds_is_refused_before_anything_is_shown():
    trace = px.load("attn-2l").run("To be, or not")
    with pytest.raises(px.PathexpError, match="pairs of every kind, got kind='direct'; leave out"):
        px.score(trace, "L1H0", query=3, key=1, kind="direct", nodes=2)


def test_a_score_tree_names_the_position_bias_that_it_leaves_out():
    trace = px.random_model(layers=2, heads=2, positions="alibi", seed=1).run([1, 2, 3, 4])
    found = px.score(trace, "L1H0", query=3, key=1)
    tree = found.tree(nodes=2)
    assert abs(found.position_bias.value) > 0.01
    assert tree.value + found.position_bias.value == pytest.approx(found.value(), abs=1e-12)
    assert "(without the position bias)" in tree.headline()


def test_pairs_are_told_apart_for_six_branches_of_a_side_and_the_rest_together():
    trace = px.random_model(layers=3, heads=6, d_head=2, positions="none", seed=4).run([3, 1, 4])
    found = px.score(trace, "L2H0", query=2, key=1).tree(nodes=4)
    pairs = found.pairs()
    assert len(found.queries.root.children) > 7
    assert len(pairs.rows) == len(pairs.columns) == 7
    assert np.sum(pairs.values) == pytest.approx(found.value)
