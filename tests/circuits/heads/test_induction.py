"""Induction heads: by hand, trained, and where there are none."""

import json
import pickle
from functools import cache
from itertools import islice

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.heads.head_types import head_types
from pathexp.circuits.heads.induction import induction
from pathexp.circuits.heads.induction_pairs import induction_pairs
from pathexp.circuits.heads.induction_score import Makers, induction_score, induction_scores
from pathexp.circuits.heads.positional_patterns import positional_patterns, previous_token_share
from pathexp.circuits.heads.repeated_tokens import (
    CURRENT,
    FIRST,
    INDUCTION,
    PREVIOUS,
    RepeatedTokens,
    repeated_runs,
)
from tests.commands import json_of, printed, saved
from tests.shared_models import induction_2l_1h
from tests.zoo import FAMILIES, ZOO


@cache
def trained():
    return induction(px.load("attn-2l"))


# By hand ------------------------------------------------------------------------------------------------


def test_by_hand():
    found = induction(px.induction_model(d_vocab=9, n_ctx=20))
    assert found.from_weights == found.from_attention == ("L1H0",) and found.agree
    (pair,) = found.pairs
    assert pair.matching.score == pair.copying.score == pair.on_diagonal == 1.0 and pair.previous > 0.999
    np.testing.assert_allclose(pair.matching.eigenvalues, np.log(20) + 12)
    assert found.types["L0H0"].type == PREVIOUS and found.types["L1H0"].type == INDUCTION


def test_each_part_of_the_circuit_is_needed():
    """Take the previous-token head's OV, the induction head's OV or its QK away: no induction head is left."""
    model = px.induction_model()
    for name, place in (("W_O", (0, 0)), ("W_O", (1, 0)), ("W_Q", (1, 0)), ("W_Q", (0, 0))):
        array = np.array(getattr(model.weights, name))
        array[place] = 0
        broken = px.Model(model.config, _with(model.weights, name, array))
        assert not any(pair.is_induction for pair in induction_pairs(broken)), (name, place)


def _with(weights, name, array):
    return px.Weights(**weights.arrays() | {name: array})


def test_an_anti_copying_head_is_none():
    model = px.induction_model()
    array = np.array(model.weights.W_O)
    array[1] *= -1
    (pair,) = induction_pairs(px.Model(model.config, _with(model.weights, "W_O", array)))
    assert pair.copying.score == -1.0 and not pair.is_induction


def test_random_models_have_none():
    for name in ("2L-plain", "2L-qk", "3L-layernorm", "2L-gqa"):
        found = induction(ZOO[name]())
        assert found.from_weights == found.from_attention == () and found.agree is None, name
    for name in ("llama", "qwen3", "gptj", "bloom", "gemma2", "mistral"):
        assert not any(pair.is_induction for pair in induction_pairs(FAMILIES[name]())), name


def test_positions_of_repeated_runs():
    model = px.random_model(d_vocab=11, n_ctx=40)
    (text,) = repeated_runs(model, length=5, runs=1, prefix=[7, 7], seed=3)
    assert len(text.trace) == 12 and list(text.second) == [7, 8, 9, 10, 11]
    copy = text.trace.tokens[2:]
    np.testing.assert_array_equal(copy[:5], copy[5:])
    assert len(set(copy[:5])) == 5
    for query in list(text.second)[:-1]:
        assert text.trace.tokens[text.key(query)] == text.trace.tokens[query + 1]  # what comes next


def test_kinds_of_a_model_that_sees_only_itself_or_the_first():
    """W_Q = 0 leaves even attention; a window of 1 leaves the token itself."""
    model = px.random_model(layers=1, heads=2, windows=1, d_vocab=11)
    kinds = head_types(model)
    assert kinds.of_type(CURRENT) == ("L0H0", "L0H1") and kinds["L0H1"].attention[CURRENT] == 1.0
    assert kinds.of_type(FIRST) == ()


def test_bad_input():
    with pytest.raises(px.PathexpError, match="from 3 to 11 tokens per copy"):
        head_types(px.random_model(d_vocab=11), length=12)
    with pytest.raises(
        px.PathexpError, match="unknown attention type 'previous'; choose from: previous token"
    ):
        head_types(px.random_model(d_vocab=11)).of_type("previous")


def test_positional_patterns_are_those_of_one_repeated_token():
    """With one token in the vocabulary, the mean embedding is its embedding."""
    for options in (
        {"positions": "qk"},
        {"norm": "layernorm"},
        {"positions": "rotary"},
        {"positions": "alibi"},
    ):
        model = px.random_model(layers=2, heads=2, d_head=4, d_vocab=1, biases=True, **options)
        expected = model.run([0] * 9).patterns[0]
        np.testing.assert_allclose(positional_patterns(model, 0, 9), expected, atol=1e-13)
    assert previous_token_share(np.eye(4, k=-1)) == 1.0


# Trained ------------------------------------------------------------------------------------------------


def test_trained_weights_and_data_agree():
    found = trained()
    assert found.agree and len(found.from_attention) >= 2
    assert {found.strongest_pair(label).previous_head for label in found.from_weights} == set(
        found.types.of_type(PREVIOUS)
    )
    assert found.types.second_loss < 0.2 * found.types.first_loss


def test_trained_scores_are_won_by_keys_through_the_previous_token_head():
    model, found = px.load("attn-2l"), trained()
    for label in found.from_attention:
        explained = induction_score(model, label, found.strongest_pair(label).previous_head, runs=1)
        assert explained.share > 0.5 and explained.by_kind["K-composition"] > 0.5 * explained.advantage
        np.testing.assert_allclose(sum(explained.by_kind.values()), explained.advantage, atol=1e-9)


def test_one_layer_has_none():
    found = induction(px.load("attn-1l"))
    assert found.from_weights == found.from_attention == () and found.pairs == ()


def test_the_trained_pair():
    """Known of it: layer 1 attends to the induction position with about .92, by its keys through L0H0."""
    model = induction_2l_1h()
    found = induction(model)
    assert found.from_weights == found.from_attention == ("L1H0",)
    share = induction_score(model, "L1H0", "L0H0", runs=10, queries=1).share
    print(f"share of the induction score by keys through L0H0: {share:.4f}")
    assert 0.97 < share < 1.03


def test_the_trained_pair_at_its_task():
    """The last of 8 tokens was said before: its score of the induction position, over 40 texts."""
    model, rng = induction_2l_1h(), np.random.default_rng(0)
    through, whole = [], []
    for _ in range(40):
        tokens = rng.permutation(26)[:8]
        earlier = int(rng.integers(0, 6))
        tokens[7] = tokens[earlier]
        terms = px.score(model.run(tokens), "L1H0", query=7, key=earlier + 1)
        assert terms.verify().ok
        path = terms["E Q", "E L0H0 K"]
        through.append(path.advantage)
        whole.append(terms.advantage())
        assert str(terms.top(1).terms[0]) == "E Q × E L0H0 K"
        assert terms.where(kind="K-composition").pattern_without()[earlier + 1] < 0.3
    assert 0.9 < np.mean(through) / np.mean(whole) < 1.1


# What is shown -----------------------------------------------------------------------------------------


def test_the_command_is_the_question(capsys, tmp_path):
    path = saved(tmp_path, px.induction_model())
    data, found = json_of(capsys, "induction", path, "--runs", "2"), induction(px.load(path), runs=2)
    assert data == json.loads(found.to_json())
    assert data["from_weights"] == data["from_attention"] == "L1H0" and data["agree"]
    (row,) = data["tables"]["scores"]["rows"]
    assert row["previous_head"] == "L0H0" and row["share"] > 0.8
    assert row["direct"] + row["q_composition"] + row["k_composition"] + row["joint"] == pytest.approx(
        row["advantage"]
    )
    assert pickle.loads(pickle.dumps(found)).from_attention == ("L1H0",)


def test_what_matters_stands_first_and_no_agreement_is_claimed_of_nothing(capsys, tmp_path):
    rows = trained().records()
    assert [row["head"] for row in rows[:5]] == ["L1H0", "L1H3", "L1H2", "L1H5", "L1H7"]
    assert [row["induction"] for row in rows] == [True] * 5 + [False] * 3
    out = printed(capsys, "induction", saved(tmp_path, layers=1))
    assert "by attention: none" in out and "by the weights: none" in out and "same" not in out


def test_an_expanded_score_is_an_answer():
    found = induction_score(px.induction_model(), "L1H0", "L0H0", runs=1)
    assert "through keys made by L0H0" in str(found)
    assert sum(row["advantage"] for row in found.records()) == pytest.approx(found.advantage)


def test_scores_of_several_heads_are_those_of_each_alone():
    """Every text is run once for all; sums, and the question they answer, are those of each head asked alone."""
    model = px.load("attn-2l")
    chosen = [Makers("L1H5", "L0H3", "L0H0"), Makers("L1H0", "L0H7", "L0H7")]
    texts = RepeatedTokens(model, 20, (), 3)
    together = induction_scores(texts, chosen, 2, queries=4)
    for makers, found in zip(chosen, together, strict=True):
        alone = induction_score(
            model,
            makers.head,
            makers.previous_head,
            query_head=makers.query_head,
            length=20,
            seed=3,
            queries=4,
        )
        assert str(found) == str(alone)
        assert (found.tally.question, found.tally.mark) == (alone.tally.question, alone.tally.mark)
        assert found.tally.sums.keys() == alone.tally.sums.keys()
        for name, value in alone.tally.sums.items():
            np.testing.assert_array_equal(found.tally.sums[name], value)
        both = scores_through(texts, makers, alone.queries // 4)
        assert found.through_both == pytest.approx(both, abs=1e-9)


def scores_through(texts, makers, runs):
    """The part through both makers, asked of each score in full."""
    found = []
    for copy in islice(texts.random(), runs):
        run = texts.run(copy)
        for query in run.second[-4:]:
            terms = px.score(run.trace, makers.head, query=query, key=run.key(query))
            some = terms.where(
                query=f"S .* {makers.query_head} .* Q", key=f"S .* {makers.previous_head} .* K"
            )
            found.append(some.advantage())
    return np.mean(found)


def test_the_head_of_the_query_is_named_by_a_text():
    for wrong in (5, 1.5, ["L0H0"]):
        with pytest.raises(px.errors.PathexpError, match="query_head"):
            induction_score(px.induction_model(), "L1H0", "L0H0", query_head=wrong)
