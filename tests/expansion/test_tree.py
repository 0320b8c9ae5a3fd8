"""Trees of exact sums against brute force over listed paths, on every architecture, in both directions."""

from __future__ import annotations

import pickle
import re
import signal
from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.answer import Matrix
from pathexp.expansion.tree import limits, numbers
from tests.expansion.test_every_architecture import freezings, random_switches, run
from tests.shared_models import shared_file
from tests.zoo import FAMILIES, ZOO

DIRECTIONS = ("back", "forward")
QUERIES = (
    "S .* L0 .* U",
    "S .* . U",
    "~(S .* L1H0 .* U)",
    "(S H* U) | S . M .* U",
    "S (. .)* U",
    "E .* U | S L0H0 .* U",
)


def listed(terms: px.Expansion, target: px.Target) -> dict[tuple[str, ...], float]:
    """Every path with its value, one by one."""
    return dict(zip(terms.paths(), terms.values(target).tolist(), strict=True))


def bundle(node, paths: dict[tuple[str, ...], float], direction: str) -> list[float]:
    """The values of the listed paths that share a node's word; shares no code with the tree."""
    word, long = node.word, len(node.word)
    if node.count == 1 and node.word in paths:
        return [paths[word]]
    same = (
        (lambda path: path[len(path) - long :] == word)
        if direction == "back"
        else (lambda path: path[:long] == word)
    )
    return [value for path, value in paths.items() if same(path)]


def check(terms: px.Expansion, target: px.Target, direction: str, nodes: int = 60) -> None:
    """Hold every node against the listed paths, and children against their parents."""
    paths = listed(terms, target)
    tree = terms.tree(target, nodes=nodes, direction=direction)
    size = sum(map(abs, paths.values())) + 1.0
    assert tree.root.count == len(paths) == sum(leaf.count for leaf in tree.leaves())
    for node in tree:
        found = bundle(node, paths, direction)
        assert len(found) == node.count
        assert abs(sum(found) - node.value) < 1e-10 * size
        if node.opened:
            assert sum(child.count for child in node.children) == node.count
            assert abs(sum(child.value for child in node.children) - node.value) < 1e-10 * size
    assert tree.ok, tree.balance
    for node in list(tree)[:12]:
        assert node.by_position().sum() == pytest.approx(node.value, abs=1e-10 * size)
    for node in list(tree)[:25]:
        assert terms.where(node.query).count() == node.count
    assert sum(leaf.value for leaf in tree.leaves()) == pytest.approx(terms.value(target), abs=1e-10 * size)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", [*ZOO, *FAMILIES])
def test_every_node_of_the_zoo_is_the_sum_of_its_paths(name, direction):
    model = (ZOO | FAMILIES)[name]()
    trace = model.run(np.random.default_rng(1).integers(0, model.config.d_vocab, 7))
    check(px.expand(trace), trace.logit(2, position=4), direction)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("seed", range(24))
def test_every_switch_within_queries(seed, direction):
    trace = run(random_switches(seed), seed)
    target = trace.direction(np.linspace(-1, 1, trace.config.d_vocab))
    for graph in freezings(trace):
        terms = px.expand(graph)
        if graph.before_cap or terms.count() > 5_000:
            continue
        check(terms, target, direction)
        rng = np.random.default_rng(seed)
        for text in rng.choice(QUERIES, 2, replace=False):
            try:
                part = terms.where(str(text))
            except px.PathexpError:  # it names what this model does not have
                continue
            check(part, target, direction)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_complete_trees_are_all_paths(direction):
    trace = px.random_model(layers=3, heads=2, biases=True, norm="layernorm", d_mlp=5, seed=3).run([1, 2, 3])
    terms, target = px.expand(trace), trace.logit(4)
    tree = terms.tree(target, nodes=10**6, direction=direction)
    assert tree.stopped == "complete"
    assert {leaf.path for leaf in tree.leaves()} == set(terms.paths())
    assert all(
        leaf.value == pytest.approx(terms[leaf.path].value(target), abs=1e-12) for leaf in tree.leaves()
    )
    assert tree.share == pytest.approx(1.0)


def test_graphs_by_hand_with_steering_and_rank_one_components():
    trace = px.load("attn-2l").run("To be, or not")
    rng = np.random.default_rng(0)
    graph = px.freeze(trace).with_source("steer", rng.standard_normal(trace.config.d_model), depth=1)
    graph = graph.with_component(
        "feature", weight=tuple(rng.standard_normal((2, trace.config.d_model))), at=1
    )
    for direction in DIRECTIONS:
        check(px.expand(graph), trace.logit(5), direction)


def test_targets_on_the_final_stream_and_neurons():
    trace = px.random_model(layers=2, heads=2, d_mlp=6, norm="rmsnorm", biases=True, seed=5).run([1, 2, 3])
    target = trace.direction(np.arange(24.0), space="residual")
    for direction in DIRECTIONS:
        check(px.expand(px.freeze(trace, neurons={1: [0, 4]})), target, direction)


@pytest.mark.parametrize("condition", ["E U", "E L0H0 U", "E L0H0 U & E L0H1 U"])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_one_path_or_none(condition, direction):
    trace = px.random_model(layers=2, heads=2, seed=1).run([1, 2, 3])
    terms, target = px.expand(trace).where(condition), trace.logit(4)
    tree = terms.tree(target, direction=direction)
    (root,) = tree
    assert root.count == terms.count() and root.value == pytest.approx(terms.value(target))
    assert root.path == next(iter(terms.paths()), None) and tree.stopped == "complete"


def test_a_tree_is_the_beginning_of_a_larger_one():
    trace = px.random_model(layers=4, heads=4, d_mlp=8, seed=2).run([1, 2, 3, 4])
    terms, target = px.expand(trace), trace.logit(5)
    small, large = (terms.tree(target, nodes=nodes) for nodes in (30, 120))
    opened = lambda tree: [opening.spot.word for opening in tree.growth.openings]  # noqa: E731
    assert opened(large)[:30] == opened(small) == opened(terms.tree(target, nodes=120))[:30]
    grown = small.grow(90)
    assert opened(grown) == opened(large) and small.nodes == 30


def test_any_leaf_can_be_opened_at_any_time():
    trace = px.random_model(layers=3, heads=2, seed=2).run([1, 2, 3, 4])
    tree = px.expand(trace).tree(trace.logit(5), nodes=2)
    smallest = min((leaf for leaf in tree.leaves() if leaf.count > 1), key=lambda leaf: abs(leaf.value))
    more = tree.open(smallest)
    again = next(node for node in more if node.word == smallest.word)
    assert not smallest.opened and again.opened
    assert sum(child.value for child in again.children) == pytest.approx(smallest.value, abs=1e-12)
    assert more.nodes == 3 and more.grow(10**6).share == pytest.approx(1.0)
    with pytest.raises(px.PathexpError, match="not to be opened"):
        more.open(again)


def test_fields_that_were_let_go_are_made_again(monkeypatch):
    trace = px.random_model(layers=4, heads=3, d_mlp=8, norm="layernorm", norm_placement="post", seed=2).run(
        [1, 2, 3, 4]
    )
    terms, target = px.expand(trace), trace.logit(5)
    whole = [node.value for node in terms.tree(target, nodes=80)]
    monkeypatch.setattr(numbers, "MEMORY", 0)
    assert [node.value for node in terms.tree(target, nodes=80)] == pytest.approx(whole, abs=1e-12)


def test_limits():
    trace = px.random_model(layers=6, heads=6, seed=2).run([1, 2, 3, 4])
    terms, target = px.expand(trace), trace.logit(5)
    assert terms.tree(target).nodes == 100 and terms.tree(target, nodes=0).nodes == 0
    assert terms.tree(target, seconds=0).stopped == "seconds"
    half = terms.tree(target, share=0.5)
    assert half.stopped == "share" and abs(half.share - 1) <= 0.5
    seen = []
    terms.tree(target, nodes=5, progress=seen.append)
    assert seen == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({"nodes": -1}, "nodes"),
        ({"nodes": True}, "nodes"),
        ({"seconds": "x"}, "seconds"),
        ({"share": 2.0}, "share"),
        ({"direction": "up"}, "direction"),
    ],
)
def test_what_is_no_limit_is_refused(how, text):
    trace = px.random_model(layers=1).run([1, 2])
    with pytest.raises(px.PathexpError, match=text):
        px.expand(trace).tree(trace.logit(1), **how)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_node_by_source_position_is_what_changes_when_that_token_does(direction):
    """The frozen graph is linear in the embedding of every position: what one token brings, by another graph."""
    trace = px.load("attn-2l").run("To be, or not")
    terms, target = px.expand(trace), trace.logit(5)
    values = trace.model.weights.W_E[:, trace.tokens].T
    alone = np.zeros_like(values)
    alone[2] = values[2]
    by_hand = px.expand(px.freeze(trace).without("E").with_source("E", alone))
    for node in terms.tree(target, nodes=3, direction=direction):
        part = by_hand.where(node.query.replace("S ", "E "))
        assert node.by_position()[2] == pytest.approx(part.value(target), abs=1e-10)


def test_printed_and_kept():
    trace = px.load("attn-2l").run("To be, or not")
    tree = px.tree(trace, trace.logit(" the"), nodes=5)
    text = str(tree)
    assert "more" in text and "cancel" in text and "children add up to their parents" in text
    records = tree.records()
    assert records[0]["query"] == "S .* U" and len(records) == len(tree)
    assert {record["query"] for record in records} == {node.query for node in tree}
    (figure,) = tree.figures().values()
    assert figure.kind == "flame" and len(figure.data["nodes"]) == len(tree)
    copied = pickle.loads(pickle.dumps(tree))
    assert str(copied) == text and copied.records() == records


def test_the_check_fails_on_a_changed_value():
    trace = px.load("attn-2l").run("To be, or not")
    tree = px.tree(trace, trace.logit(" the"), nodes=5)
    assert tree.ok
    tree.growth.openings[2].values[0] += 1e-9
    fresh = tree.open(next(leaf for leaf in tree.leaves() if leaf.count > 1))
    assert not fresh.ok and "does not hold" in str(fresh.balance)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_trained_models(direction):
    attention_only = px.load("attn-2l").run("To be, or not to be, that is the")
    check(px.expand(attention_only), attention_only.logit(attention_only.top_token()), direction)
    deep = px.load(shared_file("stories260K.bin")).run("Once upon a time, there was")
    terms, target = px.expand(deep), deep.logit(deep.top_token())
    tree = terms.tree(target, nodes=200, direction=direction)
    assert tree.ok and tree.root.count == 1_889_568
    for node in list(tree)[:30]:
        assert terms.where(node.query).count() == node.count
        assert terms.where(node.query).value(target) == pytest.approx(node.value, abs=1e-9)
    paths = [leaf for leaf in tree.leaves() if leaf.count == 1]
    assert all(terms[leaf.path].value(target) == pytest.approx(leaf.value, abs=1e-9) for leaf in paths[:40])


def test_an_interrupt_leaves_what_there_is():
    trace = px.random_model(layers=6, heads=6, seed=2).run([1, 2, 3, 4])

    def press(nodes: int) -> None:
        if nodes == 7:
            signal.raise_signal(signal.SIGINT)

    tree = px.tree(trace, trace.logit(5), nodes=500, progress=press)
    assert tree.nodes == 7 and tree.stopped == "interrupted" and not tree.complete
    assert "interrupted" in tree.headline() and tree.ok


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_branches_by_source_position_add_up_to_their_values(direction):
    trace = px.load("attn-2l").run("To be, or not")
    tree = px.tree(trace, trace.logit(" the"), nodes=5, direction=direction, positions=True)
    (matrix,) = (part for part in tree.parts() if isinstance(part, Matrix))
    assert matrix.columns[0] == '0 "To"' and "by source position" in str(tree)
    values = {node.query: node.value for node in tree}
    for query, row in zip(matrix.rows, matrix.values, strict=True):
        assert row.sum() == pytest.approx(values[query], abs=1e-12)


def test_a_tree_opened_to_its_end_has_no_unopened_rest_and_no_negative_zero():
    trace = px.load("attn-1l").run("the king")
    tree = px.tree(trace, trace.logit(1), nodes=500)
    assert "no bundle of paths is left unopened" in str(tree) and "-0.0000" not in str(tree)
    assert "unopened bundle" in str(px.tree(trace, trace.logit(1), nodes=1, direction="forward"))


def test_notebooks_and_latex_keep_the_indentation_of_a_tree():
    trace = px.load("attn-2l").run("the king")
    tree = px.tree(trace, trace.logit(1))
    assert "<br>&nbsp;&nbsp;&nbsp;&nbsp;" in tree._repr_html_()
    lines = tree.to_latex().splitlines()
    indents = [line.split("}")[0] for line in lines if line.startswith(r"\hspace*")]
    assert {r"\hspace*{1em", r"\hspace*{2em"} == set(indents)


def test_a_tree_in_a_query_names_it_where_its_value_is_not_the_target_s():
    trace = px.load("attn-2l").run("To be, or not")
    target, query = trace.logit(" the"), "E .* L1H3 .* U"
    tree = px.tree(trace, target, query, nodes=3)
    assert abs(tree.value - target.value) > 1e-3
    assert f"9 paths matching {query!r}" in tree.headline() and tree.to_dict()["query"] == query
    assert str(px.expand(trace).query) == px.tree(trace, target, nodes=3).to_dict()["query"]
    assert "matching" not in px.tree(trace, target, nodes=3).headline()


def test_a_tree_of_one_path_is_finished_by_it_and_a_tree_of_none_leaves_nothing():
    trace = px.load("attn-2l").run("To be, or not")
    target = trace.logit(" the")
    one, none = (px.tree(trace, target, query) for query in ("E L1H0 U", "E L0H0 L0H1 U"))
    assert one.finished == one.value != 0 and one.share == 1 and none.share == 0
    assert one.finds(3) == (one.root.path,) and one.finds(0) == none.finds(3) == ()
    assert "1 single path in the tree adds" in str(one) and "the sum of 1 path matching" in one.headline()
    assert "0 paths" in none.headline()
    assert all("no bundle of paths is left unopened" in str(tree) for tree in (one, none))


def test_words_agree_in_number():
    trace = px.load("attn-2l").run("To be, or not")
    tree = px.tree(trace, trace.logit(" the"), "E .* L1H3 .* U", nodes=1)
    assert "(1 node opened)" in tree.headline() and "at 1 opened node:" in str(tree)
    assert "1 unopened bundle of paths adds" in str(tree)
    assert "(1 node opened)" in str(px.score(trace, "L1H0", query=3, key=1).tree(nodes=1))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("factor", [1e-280, 1e150, 1e250])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_huge_and_tiny_weights_are_balanced_within_a_tolerance_of_their_size(factor, direction):
    model = px.random_model(layers=3, heads=2, norm="rmsnorm", seed=3)
    large = px.Model(model.config, replace(model.weights, W_U=model.weights.W_U * factor))
    usual, scaled = (
        px.tree(trace, trace.logit(3), nodes=4, direction=direction)
        for trace in (model.run([1, 2, 3]), large.run([1, 2, 3]))
    )
    assert scaled.ok and scaled.value == pytest.approx(usual.value * factor, rel=1e-9)
    assert 0 < scaled.balance.tolerance < 1e-9 * abs(scaled.value)
    assert re.search(r"\d{20}", str(scaled)) is None
    scaled.growth.openings[0].values[0] *= 1 + 1e-6
    assert not scaled.grow(1).ok


def test_progress_is_a_function_or_lines_on_stderr(capsys, monkeypatch):
    monkeypatch.setattr(limits, "EVERY", 0.0)
    trace = px.random_model(layers=2, heads=2, seed=1).run([1, 2, 3])
    seen: list[int] = []
    tree = px.expand(trace).tree(trace.logit(4), nodes=2, progress=seen.append)
    assert seen == [1, 2] and not capsys.readouterr().err
    tree.grow(1, progress=True)
    assert "tree: 3 nodes opened" in capsys.readouterr().err


def test_a_tree_of_a_contrast_is_headed_as_a_difference():
    here = px.load("attn-2l").run("To be, or not")
    there = here.model.run("To me, or not")
    tree = px.tree(px.contrast(here, there), here.logit(" the"), nodes=3)
    assert f"differs by {tree.value:+.4f} = the sum of 625 paths" in tree.headline()
    difference = here.logit(" the").value - there.logit(" the").value
    assert tree.value == pytest.approx(difference, abs=1e-9)


@pytest.mark.parametrize("size", [1.0, 1e-9, 1e12])
def test_values_of_any_size_are_printed_with_digits(size):
    trace = px.load("attn-2l").run("To be, or not to be")
    tree = px.tree(trace, trace.direction(size * np.sin(np.arange(1024.0))), nodes=5)
    drawn = str(tree).splitlines()
    numbers = [re.match(r" *([+-][0-9.e+-]+)  ", line) for line in drawn]
    shown = [float(found[1]) for found in numbers if found]
    assert len(shown) > 5 and abs(shown[0] / tree.value - 1) < 1e-3
    assert np.median(np.abs(shown)) > 1e-4 * abs(tree.value)
    assert f"{shown[0]:+.4e}" in tree.headline() or f"{shown[0]:+.4f}" in tree.headline()


def test_a_share_of_all_is_reached_when_all_is_finished():
    whole = limits.Limits(share=1.0)
    assert whole.reached(1, 2.0, 2.0) == "share" and whole.reached(1, 2.0, 1.9) == ""
    assert whole.reached(0, 0.0, 0.0) == "", "before the first node nothing is finished"
    assert (
        limits.Limits(nodes=3).reached(3, 1.0, 0.0) == "nodes"
        and limits.Limits(nodes=3).reached(2, 1.0, 0.0) == ""
    )
    assert (
        limits.Limits(share=0.5).reached(1, 4.0, 2.0) == "share"
        and limits.Limits(share=0.5).reached(1, -4.0, -1.9) == ""
    )


def test_one_path_is_not_counted_in_the_drawing():
    trace = px.random_model(layers=1, heads=2, positions="none", seed=1).run([1, 2])
    drawn = str(px.expand(trace).tree(trace.logit(0), nodes=9))
    assert "E L0H0 U" in drawn and "1 paths" not in drawn


@pytest.mark.parametrize("query", ["E .* U", "b_O_L0 .* U", "S .* U", "E .* L1H2 .* U"])
def test_rows_of_one_stream_hold_what_accepted_sources_bring_and_nothing_else(query):
    """Where one state is met, what a block reads is what the rows before it add up to."""
    model = px.random_model(
        layers=3, heads=3, kv_heads=1, d_head=5, d_mlp=9, norm="layernorm", biases=True, seed=3
    )
    trace = model.run([3, 1, 4, 1, 5])
    for position in (4, 2):
        target = trace.logit(2, position=position)
        check(px.expand(trace).where(query), target, "back")


def test_a_tree_of_all_paths_keeps_no_stream_but_the_last():
    trace = px.random_model(layers=3, heads=2, seed=1).run([1, 2, 3])
    tree = px.tree(trace, trace.logit(4), nodes=9)
    assert len(tree.growth.numbers._summed) == 1
    assert abs(tree.value - trace.logit(4).value) < 1e-9 and tree.balance.ok
