"""A search that starts from the finds of a tree: the same answer, whatever is handed to it, and no false proof."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

import pathexp as px
from pathexp.errors import PathexpError
from pathexp.expansion.ranking import searched
from pathexp.expansion.search import Budget, Goal, search, tables
from pathexp.expansion.search.cost import SearchCost, _block, _union, search_cost, sets_operations
from pathexp.expansion.search.finds import threshold, valued
from pathexp.expansion.search.found import Valued
from pathexp.expansion.summary import summary
from tests.expansion.adversaries import LARGEST, Oracle, RandomDice, check_claims, drawn_case
from tests.zoo import FAMILIES, ZOO

MODELS = {**ZOO, **FAMILIES}


def run(name, length=4):
    model = MODELS[name]()
    return model.run(np.random.default_rng(0).integers(0, model.config.d_vocab, length))


@pytest.mark.parametrize("mode", ["gate", "source"])
@pytest.mark.parametrize("name", ["3L-layernorm", "2L-gqa", "gpt2", "gemma2", "parallel-no-norm"])
def test_the_answer_does_not_depend_on_what_was_known(name, mode):
    trace = run(name)
    terms, target = px.expand(px.freeze(trace, mlp=mode)), trace.logit(1)
    total = terms.value(target)
    alone = searched(terms.walk, 7, target, total, Budget())
    every = list(islice(terms.walk.words(), 400))
    for known in (
        [tuple(path) for path in terms.tree(target, nodes=9).finds(7)],
        [tuple(term.path) for term in alone],
        every,
        every[:2] + every[:2],
    ):
        found = searched(terms.walk, 7, target, total, Budget(), known)
        np.testing.assert_allclose(np.abs(found.values), np.abs(alone.values), rtol=1e-9, atol=1e-12)
        assert found.exact == alone.exact and len({term.path for term in found}) == len(found)


@pytest.mark.parametrize("name", ["3L-layernorm", "2L-gqa", "gpt2", "gemma2", "parallel-no-norm"])
def test_values_are_those_of_the_terms(name):
    """Constants inside components, skips that are norms, several sources: every path, within its error."""
    trace = run(name)
    terms, target = px.expand(trace), trace.logit_difference(0, 2, position=2)
    words = [tuple(term.path) for term in islice(terms, 500)]
    words = [word for word in words if not (len(word) == 2 and terms.graph.by_label[word[0]].into)]
    goal = Goal.of(target, terms.graph)
    found = valued(tables(terms.walk).layout, goal, words)
    assert {path.word for path in found} == set(words)
    for path in found:
        wrong = abs(goal.units(path.value) - terms[" ".join(path.word)].value(target))
        assert wrong <= 2 * goal.most(path.error) + 1e-13
        assert goal.most(path.error) < 1e-6


def test_no_false_proof_where_paths_are_known():
    """150 adversarial searches that start from paths drawn at random, against an oracle without rounding."""
    seen = proven = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        case = drawn_case(RandomDice(rng))
        if case is None or not 0 < case.terms.count() <= LARGEST:
            continue
        walk, every = case.terms.walk, list(case.terms.walk.words())
        known = [every[i] for i in rng.choice(len(every), min(len(every), 2 * case.k), replace=False)]
        try:
            with np.errstate(all="ignore"):
                found = searched(walk, case.k, case.target, 0.0, case.budget, known)
        except PathexpError as error:
            assert "contradicts" not in str(error), error
            continue
        oracle = Oracle(case.terms.graph, case.target)
        check_claims(found, {word: oracle.value(word) for word in every}, case.k)
        seen, proven = seen + 1, proven + found.exact
    assert seen > 90 and proven > 40


def test_a_threshold_is_of_as_many_as_are_wanted_and_less_than_their_errors():
    paths = [Valued(3.0, ("a",), 0.5), Valued(-2.0, ("b",), 1.5), Valued(1.0, ("c",), 0.0)]
    assert [threshold(paths, k) for k in (0, 1, 2, 3, 4)] == [0.0, 2.5, 1.0, 0.5, 0.0]


def test_a_path_that_is_known_twice_counts_once():
    """As two it would set the threshold of the two largest to its own size, and lose the second."""
    trace = px.random_model(layers=3, heads=2, d_mlp=5, seed=1).run([1, 2, 3])
    terms, target = px.expand(trace), trace.logit(1)
    alone = searched(terms.walk, 2, target, terms.value(target), Budget())
    largest = tuple(alone[0].path)
    found = searched(terms.walk, 2, target, terms.value(target), Budget(), [largest, largest])
    assert found.exact and found.values == pytest.approx(alone.values)


def test_finds_are_the_largest_single_paths_of_a_tree():
    trace = run("3L-layernorm")
    tree = px.tree(trace, trace.logit(1), nodes=12)
    leaves = sorted((leaf for leaf in tree.leaves() if leaf.path), key=lambda leaf: -abs(leaf.value))
    assert len(leaves) > 5 and tree.finds(5) == tuple(leaf.path for leaf in leaves[:5])
    assert len(tree.finds(10**6)) == len(leaves)


def test_finds_of_another_query_are_left_out():
    trace = run("3L-layernorm")
    terms, target = px.expand(trace), trace.logit(1)
    part = terms.where("E .* U")
    found = part.top(5, target, tree=terms.tree(target, nodes=9))
    assert found.values == pytest.approx(part.top(5, target).values)


def test_what_is_no_tree_is_refused_by_name():
    trace = run("2L-gqa")
    with pytest.raises(PathexpError, match="tree"):
        px.expand(trace).top(2, trace.logit(1), tree="a tree")


def test_time_that_is_up_leaves_the_finds():
    """Not even sets were made: the tree's paths are what there is, with lengths alone to bound the others."""
    model = px.random_model(layers=8, heads=6, d_model=16, d_head=3, d_mlp=9, d_vocab=9, n_ctx=8, seed=3)
    trace = model.run([1, 2, 3])
    terms, target = px.expand(trace), trace.logit(4)
    tree = terms.tree(target, nodes=30)
    found = terms.top(5, target, seconds=0, tree=tree)
    assert not found.exact and len(found) == 5 and np.isfinite(found.bound)
    known = [terms[path].value(target) for path in tree.finds(5)]
    assert abs(found.values[-1]) >= abs(known[-1]) - 1e-12


def test_a_find_that_the_search_loses_is_a_contradiction(monkeypatch):
    """The lists are compared: a search that drops what was known above its bound is at fault."""
    trace = run("3L-layernorm")
    terms, target = px.expand(trace), trace.logit(1)
    real = search(terms.walk, 3, target, Budget()).paths[0]
    wrong = [Valued(1e3, real.word, 0.0), *(Valued(1e3, (f"x{i}",), 0.0) for i in range(3))]
    monkeypatch.setattr("pathexp.expansion.search.certified.valued", lambda *_: wrong)
    with pytest.raises(PathexpError, match="contradicts"):
        search(terms.walk, 3, target, Budget(), [real.word])


# What it will cost ---------------------------------------------------------------------------------------


def test_a_search_says_beforehand_what_it_will_cost(capsys):
    model = px.random_model(layers=8, heads=6, d_model=16, d_head=3, d_mlp=9, d_vocab=9, n_ctx=8, seed=3)
    trace = model.run([1, 2, 3])
    px.expand(trace).top(1, trace.logit(4), seconds=0.2, progress=True)
    said = capsys.readouterr().err.splitlines()
    assert "estimate" in said[0] and "reachable sets" in said[0] and len(said) > 1
    found = summary(trace, trace.logit(4), k=1, nodes=2, prove=True, seconds=0.01)
    assert sum("reachable sets" in str(part) for part in found.document.parts) == 1


def test_more_of_anything_costs_more():
    def operations(positions=3, **sizes):
        made = px.random_model(
            **{"layers": 2, "heads": 2, "d_model": 8, "d_head": 2, "d_mlp": 6, "d_vocab": 9, **sizes}
        )
        return sets_operations(tables(px.expand(made.run(range(positions))).walk).layout)

    least = operations()
    assert [operations(positions=6), operations(layers=4)] == pytest.approx([2 * least] * 2)
    assert min(operations(heads=3), operations(d_model=12), operations(d_mlp=60)) > least


def test_sets_that_are_kept_cost_nothing_more():
    trace = run("gpt2")
    terms = px.expand(trace)
    assert "estimate" in str(search_cost(terms.walk))
    tables(terms.walk).set_bounds(lambda b: False)
    assert search_cost(terms.walk).operations == 0 and "from before" in str(search_cost(terms.walk))


def test_an_estimate_is_a_range():
    low, high = SearchCost(1e12, 0, 1e10, False, False).seconds
    assert low < 100 < high and "50 to 200 s" in str(SearchCost(1e12, 0, 1e10, False, False))


def test_the_cost_of_a_union_has_three_dimensions():
    """Twice the width of everything costs eight times as much: products of matrices, and nothing else."""
    assert _union(24, 8, 40) == pytest.approx(8 * _union(12, 4, 20))
    assert _union(24, 8, 40) > _union(24, 8, 20) > 0 and _union(24, 8, 40) > _union(24, 4, 40)


def test_the_threshold_is_what_the_kth_largest_has_at_least():
    paths = [Valued(-3.0, ("a",), 0.5), Valued(2.0, ("b",), 0.25), Valued(0.5, ("c",), 1.0)]
    assert [threshold(paths, k) for k in (1, 2, 3, 4, 0)] == [2.5, 1.75, 0.0, 0.0, 0.0]
    assert threshold(paths[1:2], 1) == 1.75
    assert threshold([Valued(1e-9, ("a",), 0.0)], 1) == 1e-9


def test_a_block_of_nothing_costs_the_triangles_of_its_sets():
    """A Cholesky factorization of d × d takes d³ / 3 multiplications (Golub and Van Loan 2013, §4.2)."""
    assert _block(12, (), ()) == pytest.approx(12**3 / 3)
