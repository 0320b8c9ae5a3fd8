"""What the detectors say of models that do induction another way, at one length only, or not at all."""

import json
from pathlib import Path

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.heads.diagonal import diagonal_shares
from pathexp.circuits.heads.head_types import FIXED_OFFSET, POSITIONAL, THRESHOLD, _named
from pathexp.circuits.heads.induction_score import InductionScore, induction_score
from pathexp.circuits.heads.losses import CopyLosses
from pathexp.circuits.heads.positional_patterns import previous_token_share
from pathexp.circuits.heads.removal import removals
from pathexp.circuits.heads.repeated_measures import _offsets
from pathexp.circuits.heads.repeated_tokens import DUPLICATE, INDUCTION, RepeatedTokens, coprime_lengths
from pathexp.circuits.heads.role_attention import role_attention
from tests.commands import json_of, printed
from tests.handmade_circuits import BEGIN, looks_back, pointer_induction

PERIODIC = Path(__file__).resolve().parents[2] / "models" / "periodic-2l.npz"


# H-01: induction by queries, with a sink -----------------------------------------------------------------


def test_induction_by_queries_with_a_sink_is_found_both_ways():
    found = px.induction(pointer_induction(), prefix=[BEGIN])
    assert found.verdict == "induction" and found.agree
    assert found.from_attention == found.from_weights == ("L1H0",)
    assert not any(pair.is_induction for pair in found.pairs), "no previous-token head is there"
    assert found.types["L0H0"].type == DUPLICATE
    (score,) = found.scores
    assert score.query_share == pytest.approx(1) and score.share == pytest.approx(0)
    assert score.by_kind["Q-composition"] == pytest.approx(score.advantage)


def test_keys_and_queries_are_told_apart():
    by_keys = px.induction(px.induction_model()).scores[0]
    assert by_keys.share > 0.8 > 0.01 > abs(by_keys.query_share)


def test_without_the_queries_nothing_is_found_and_nothing_is_claimed():
    """The earlier head's output taken away: no head is left, by either list."""
    model = pointer_induction()
    W_O = np.array(model.weights.W_O)
    W_O[0] = 0
    broken = px.Model(model.config, px.Weights(**model.weights.arrays() | {"W_O": W_O}))
    found = px.induction(broken, prefix=[BEGIN])
    assert found.from_weights == found.from_attention == () and found.agree is None


def test_what_works_at_some_places_only_is_undecided():
    """Places from 4 on are never asked for: at longer copies most are missed."""
    found = px.induction(pointer_induction(reach=4), prefix=[BEGIN], length=[11, 3])
    assert found.types["L1H0"].only_at == (3,)
    assert found.verdict == "undecided" and "at length 3 only" in str(found)


def test_a_falling_loss_without_a_head_is_no_agreement():
    """The head that copies is cut from the list by attending evenly; the loss still falls for another reason."""
    falling = CopyLosses(9, 5.6, 3.4, 2.2**2 + 0.01, 8)
    steady = CopyLosses(9, 5.6, 5.59, 0.01**2 + 0.04, 8)
    from pathexp.circuits.heads.induction_verdict import model_verdict

    assert (
        model_verdict([], [falling], ())[0] == "undecided" and "2.200" in model_verdict([], [falling], ())[1]
    )
    assert model_verdict([], [steady], ())[0] == "none"
    assert model_verdict([], [], ())[0] == "none"


# H-02: fixed offsets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [2, 7, 8])
def test_a_fixed_offset_is_named(offset):
    found = px.heads(looks_back(offset))
    assert found["L0H0"].type == FIXED_OFFSET and found["L0H0"].offsets == pytest.approx(
        {offset: 1.0}, abs=1e-4
    )
    assert f"L0H0: {offset} back 1.00" in str(found)


def test_an_offset_that_suits_one_length_is_induction_there_only():
    found = px.induction(looks_back(11))
    assert found.types.lengths == (12, 7) and found.types["L0H0"].only_at == (12,)
    assert found.from_attention == () and found.verdict == "undecided"


def test_one_length_cannot_tell():
    found = px.induction(looks_back(11), length=12)
    assert found.from_attention == ("L0H0",) and found.verdict == "undecided"
    assert "one length" in str(found)


def test_the_periodic_model_has_no_induction_head():
    """At copies of 8 tokens, its period, all heads attend where induction heads would; at 9 none does."""
    model = px.load(PERIODIC)
    seeming = px.heads(model, length=8).of_type(INDUCTION)
    assert len(seeming) == 8
    found = px.induction(model, length=[9, 8])
    assert found.from_attention == found.from_weights == () and found.verdict == "undecided"
    for label in seeming:
        assert found.types[label].only_at == (8,) or found.types[label].type in (FIXED_OFFSET, POSITIONAL)
        assert found.types[label].by_length[9][INDUCTION] < 0.1


def test_the_periodic_model_at_two_periods():
    """Copies of 16: attention is spread over 7, 15 and 23 back, so induction gets a third of it, and at 9 nothing."""
    found = px.heads(px.load(PERIODIC), length=[16, 9])
    for head in found.types.heads:
        assert head.by_length[16][INDUCTION] > 0.25 and head.by_length[9][INDUCTION] < 0.1


def test_the_periodic_model_at_the_lengths_of_the_house():
    found = px.induction(px.load(PERIODIC))
    assert found.from_attention == () and found.verdict != "induction"


@pytest.mark.parametrize("longest", range(3, 60))
def test_lengths_share_no_divisor(longest):
    lengths = coprime_lengths(longest)
    assert lengths[0] == longest and all(np.gcd(longest, n) == 1 and 3 <= n < longest for n in lengths[1:])
    assert len(lengths) == 2 or longest == 3


def test_bad_lengths_are_refused():
    model = px.random_model(d_vocab=11)
    for bad, said in (([5, 5], "lengths differ"), ([], "no length"), ([12, 5], "got 12"), ([2], "got 2")):
        with pytest.raises(px.PathexpError, match=said):
            RepeatedTokens(model, bad)
    with pytest.raises(px.PathexpError, match="length"):
        RepeatedTokens(model, "5,6")


# H-03: no losses where they mean nothing -----------------------------------------------------------------


@pytest.mark.parametrize("options", [{"causal": False}, {"d_out": 3}])
def test_no_losses_where_no_next_token_is_predicted(options):
    model = px.random_model(layers=2, heads=2, **options)
    found = px.heads(model, runs=2)
    assert found.types.losses == () and found.types.first_loss is None
    assert "no losses" in str(found) and "nats" not in str(found)
    assert json.loads(found.to_json())["first_loss"] is None


# H-04: the diagonal beside the score ---------------------------------------------------------------------


def test_a_rank_one_table_copies_next_to_nothing():
    """Its one eigenvalue is positive, so the score is +1; only the largest entry of its column can win."""
    model = px.random_model(layers=1, heads=1, d_model=14, d_head=1, d_vocab=14, positions="none")
    rng = np.random.default_rng(0)
    u, v = rng.random(14) + 0.1, rng.random(14) + 0.1
    arrays = model.weights.arrays() | {
        "W_E": np.eye(14), "W_U": np.eye(14), "W_V": v[None, None, None], "W_O": u[None, None, :, None],
    }  # fmt: skip
    rank_one = px.Model(model.config, px.Weights(**arrays))
    (row,) = px.heads(rank_one, runs=1).records()
    assert row["ov"] == pytest.approx(1) and row["ov_diagonal"] == pytest.approx(1 / 14)


def test_a_tie_copies_nothing():
    model = px.induction_model()
    array = np.array(model.weights.W_O)
    array[1] = 0
    assert (
        diagonal_shares(px.Model(model.config, px.Weights(**model.weights.arrays() | {"W_O": array}))).shares[
            "L1H0"
        ]
        == 0.0
    )


# H-05: sequences and roles of the user -------------------------------------------------------------------


def cases():
    """Begin, three tokens, two more; the last repeats one, and the token after its copy answers."""
    rng, found = np.random.default_rng(0), []
    for _ in range(12):
        tokens = [BEGIN, *(rng.permutation(11)[:6] + 1)]
        copy = int(rng.integers(1, 6))
        found.append(
            px.Case([*tokens, tokens[copy]], int(tokens[copy + 1]), roles={"copy": copy, "answer": copy + 1})
        )
    return found


def test_roles_make_a_table_of_heads():
    found = px.heads(pointer_induction(), prefix=[BEGIN], cases=cases())
    assert found.roles.of("L1H0", "answer") > 0.99 and found.roles.of("L0H0", "copy") > 0.99
    rows = json.loads(found.to_json())["tables"]["roles"]["rows"]
    for row in rows:
        assert row["to_answer"] + row["to_copy"] + row["elsewhere"] == pytest.approx(1)
    with pytest.raises(px.PathexpError, match="no case has the role 'key'; there are: answer, copy"):
        found.roles.of("L1H0", "key")
    with pytest.raises(px.PathexpError, match="none of the cases has a role"):
        px.heads(pointer_induction(), cases=[px.Case([1, 2], 3)])


def test_errors_of_roles_are_over_the_cases_that_have_them():
    model = px.load("attn-2l")
    cases = [
        px.Case([5, 6, 7], 8, roles={"a": 0}), px.Case([9, 6, 11], 8, roles={"a": 1, "b": 0}), px.Case([4, 2, 9, 9], 8, roles={"a": 2})
    ]  # fmt: skip
    found = role_attention(model, cases)
    seen = [model.run(case.tokens).patterns[1, 3, -1, case.roles["a"]] for case in cases]
    assert found.of("L1H3", "a") == pytest.approx(np.mean(seen))
    assert found.error[1, 3, 0] == pytest.approx(np.std(seen, ddof=1) / np.sqrt(3))
    assert np.isnan(found.error[1, 3, 1]) and found.cases == (3, 1, 3)


def test_the_cost_of_removal_by_hand():
    model = px.load("attn-2l")
    texts = RepeatedTokens(model, 4)
    (found,) = removals(texts, ["L0H2"], 2)
    falls = []
    for copy, _ in zip(texts.random(), range(2), strict=False):
        run = model.run([*copy, *copy])
        without = px.rerun(run, {"L0.attn_result": lambda given, run=run: given - run.head_results[0, 2]})
        falls += [(run.log_probs - without.log_probs)[at, run.tokens[at + 1]] for at in range(4, 7)]
    assert found.fall == pytest.approx(np.mean(falls))
    assert found.standard_error == pytest.approx(np.std(falls, ddof=1) / np.sqrt(6))


def test_roles_from_the_command_line(capsys, tmp_path):
    file, model = tmp_path / "cases.csv", tmp_path / "model.npz"
    lines = [
        f"{' '.join(f'#{t}' for t in c.tokens)},#{c.answer},{c.roles['copy']},{c.roles['answer']}"
        for c in cases()
    ]
    file.write_text("prompt,answer,role:copy,role:answer\n" + "\n".join(lines))
    pointer_induction().save(model)
    found = json_of(capsys, "heads", str(model), "--prefix", "0", "--length", "7,5", "--cases", str(file))
    assert found["tables"]["roles"]["rows"][0]["head"] in ("L0H0", "L1H0") and found["lengths"] == "7 5"
    assert "12 cases" in printed(capsys, "heads", str(model), "--cases", str(file))


# Shares of negative advantages ---------------------------------------------------------------------------


def test_there_is_no_share_of_a_disadvantage():
    model = px.induction_model()
    W_Q = np.array(model.weights.W_Q)
    W_Q[1] *= -1
    turned = px.Model(model.config, px.Weights(**model.weights.arrays() | {"W_Q": W_Q}))
    found = induction_score(turned, "L1H0", "L0H0", runs=1)
    assert isinstance(found, InductionScore) and found.advantage < 0
    assert found.share is None and found.query_share is None and "nothing is a share" in str(found)
    assert json.loads(found.to_json())["share"] is None


# Trained -------------------------------------------------------------------------------------------------


def test_attn_2l_has_positional_heads_and_five_induction_heads():
    found = px.heads(px.load("attn-2l"))
    assert found.of_type(POSITIONAL) == ("L0H4", "L0H6")
    assert set(found["L0H6"].offsets) == {1, 2}
    assert len(found.of_type(INDUCTION)) == 5
    for label in found.of_type(INDUCTION):
        assert found[label].copied > 0.4 and found[label].attention[INDUCTION] > THRESHOLD
    assert found["L0H2"].previous_at_keys > 0.95


def test_a_head_that_copies_through_a_later_layer_is_told_by_its_removal():
    """L1H0 writes to a block that no logit reads; a third layer moves it there. Straight it copies nothing."""
    two = px.induction_model(d_vocab=8, n_ctx=16)
    w, c = two.weights, two.config
    size, wide = c.d_model, c.d_model + 8
    arrays = {name: np.array(array) for name, array in w.arrays().items()}
    out = {"W_E": np.zeros((wide, 8)), "W_pos": np.zeros((wide, 16)), "W_U": np.zeros((8, wide))}
    out["W_E"][:size], out["W_pos"][:size], out["W_U"][:, :size] = (
        arrays["W_E"],
        arrays["W_pos"],
        arrays["W_U"],
    )
    for name in ("W_Q", "W_K", "W_V"):
        out[name] = np.zeros((3, 1, c.d_head, wide))
        out[name][:2, ..., :size] = arrays[name]
    out["W_O"] = np.zeros((3, 1, wide, c.d_head))
    out["W_O"][:2, :, :size] = arrays["W_O"]
    prediction = np.flatnonzero(arrays["W_U"].any(axis=0))
    out["W_O"][1, :, size:] = out["W_O"][1][:, prediction]  # to the new block instead
    out["W_O"][1][:, prediction] = 0
    place = np.flatnonzero(arrays["W_pos"].any(axis=1))
    out["W_Q"][2, 0, np.arange(16), place] = out["W_K"][2, 0, np.arange(16), place] = 30  # to itself
    out["W_V"][2, 0, np.arange(8), size + np.arange(8)] = 1
    out["W_O"][2, 0, prediction, np.arange(8)] = 1
    three = px.Model(
        px.Config(**vars(c) | {"n_layers": 3, "d_model": wide}), px.Weights(**out), name="indirect"
    )
    found = px.induction(three)
    assert found.from_attention == ("L1H0",) and found.types["L1H0"].copied == 0
    (removal,) = found.removals
    assert (
        removal.fall == pytest.approx(np.log(8), abs=1e-3)
        and found.verdict == "induction"
        and "removing it costs" in str(found)
    )
    alone = px.induction(three, score_runs=0)
    assert alone.verdict == "undecided" and alone.removals == ()


def test_attention_to_a_distance_is_the_mean_over_all_queries_that_have_it():
    """The query that is just so far from the first token among them."""
    model = px.random_model(layers=1, heads=2, d_vocab=40, n_ctx=24, positions="learned", seed=3)
    run = RepeatedTokens(model, 4).run(np.array([3, 1, 4, 15]))
    found = _offsets(run, 7)
    for distance in range(8):
        able = [query for query in run.second if query - distance >= 0]
        wanted = np.mean([run.trace.patterns[:, :, query, query - distance] for query in able], axis=0)
        np.testing.assert_allclose(found[:, :, distance], wanted, atol=1e-15)
    assert min(run.second) <= 7, "some distance is out of reach of some query"


def test_distances_are_named_from_a_tenth_on_the_most_attended_first():
    shares = np.array([0.05, 0.1, 0.3, 0.0999, 0.25])
    assert list(_named(shares, (5, 3)).items()) == [(2, 0.3), (4, 0.25), (1, 0.1)]
    assert list(_named(shares, (5,))) == [2, 1], "at one length that of the copies is left out"
    assert list(_named(shares, (3,))) == [4, 1], "and that of the token after the copy"


def test_attention_to_the_token_before_is_that_of_all_queries_that_have_one():
    assert previous_token_share(np.array([[1.0]])) == 0.0
    assert previous_token_share(
        np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.1, 0.9]])
    ) == pytest.approx(0.3)
