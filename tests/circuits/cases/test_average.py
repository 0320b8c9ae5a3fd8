"""An average of answers: what numpy says of the rows, whatever the order, the executor and the faults on the way."""

import json
import os
import pickle
import signal
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pathexp as px
from pathexp.answer import Report, Table, columns
from pathexp.circuits.cases.joined import JoinedTable
from pathexp.circuits.cases.mean_branches import Branch, largest
from pathexp.circuits.cases.moments import Moments
from pathexp.circuits.cases.workers import Workers
from pathexp.circuits.cases.zero_point import mean_over, slots_of
from pathexp.errors import PathexpError

MODEL = px.load("attn-2l")
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


def drawn(amount=6, seed=0, equal=False):
    """Cases that repeat a few tokens; of unequal length unless asked otherwise."""
    rng, cases = np.random.default_rng(seed), []
    for number in range(amount):
        length = 6 if equal else 5 + number % 3
        words = rng.choice(np.arange(5, MODEL.config.d_vocab), 2 * length, replace=False).tolist()
        copy, other = words[:length], words[length:]
        cases.append(
            px.Case([*copy, *copy[:3]], copy[3], wrong=copy[1], corrupted=[*other, *copy[:3]], roles={"S": 2})
        )
    return cases


CASES = drawn()


# Exact sums ------------------------------------------------------------------------------------------------


@given(st.lists(NUMBERS, min_size=2, max_size=12), st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_moments_are_rounded_once_and_know_no_order(numbers, random):
    exact = [Fraction(number) for number in numbers]
    mean = sum(exact) / len(exact)
    spread = sum((each - mean) ** 2 for each in exact) / (len(exact) - 1) / len(exact)
    found = Moments()
    for number in numbers:
        found.add(number)
    shuffled = Moments()
    for number in random.sample(numbers, len(numbers)):
        shuffled.add(number)
    assert found == shuffled and found.mean == float(mean)
    squared = Fraction(found.error) ** 2
    assert abs(squared - spread) <= Fraction(1, 10**14) * spread or found.error < 1e-300


def test_moments_of_few_numbers_are_undefined():
    assert (Moments().mean, Moments().error) == (None, None)
    one = Moments()
    one.add(5e-324)
    assert (one.mean, one.error) == (5e-324, None)
    assert one.with_zeros(2).mean == 0.0 or one.with_zeros(2).mean == 5e-324


# Joined rows -----------------------------------------------------------------------------------------------


def table(rows, absent="unknown", **more):
    head = (columns.text("name"), columns.number("adds"), columns.count("paths"), columns.text("said"))
    return Table(head, rows, key=("name",), value="adds", absent=absent, **more)


def test_missing_rows_are_zero_where_that_is_what_they_mean_and_counted_elsewhere():
    for absent, mean, count in (("zero", 1.0, 3), ("unknown", 1.5, 2)):
        joined = JoinedTable(table([], absent), quantiles=(0.0, 1.0))
        for rows in ([("a", 1.0, 2, "x")], [("a", 2.0, 2, "y"), ("b", 9.0, 1, "z")], []):
            joined.add(table(rows, absent))
        row = {each["name"]: each for each in joined.table().records()}["a"]
        assert (row["mean"], row["cases"], row["said"]) == (mean, count, None)
        assert (row["q0"], row["q100"]) == (0.0 if absent == "zero" else 1.0, 2.0)
        assert joined.partial == (0 if absent == "zero" else 2)


def test_an_undefined_number_is_not_zero():
    joined = JoinedTable(table([], "zero"))
    for value in (1.0, float("nan"), float("inf"), 3.0):
        joined.add(table([("a", value, 1, "")], "zero"))
    (row,) = joined.table().records()
    assert (row["mean"], row["cases"], row["paths_mean"]) == (2.0, 2, 1.0) and joined.partial == 1


def test_tables_that_do_not_fit_are_refused():
    joined = JoinedTable(table([]))
    with pytest.raises(PathexpError, match="two rows"):
        joined.add(table([("a", 1.0, 1, ""), ("a", 2.0, 1, "")]))
    with pytest.raises(PathexpError, match="other columns"):
        joined.add(Table((columns.text("name"),), [], key=("name",)))


# Averages of questions -------------------------------------------------------------------------------------

QUESTIONS = {
    "attribution": (px.attribution, {"by": "component"}, "name", "adds"),
    "flow": (px.flow, {}, "writer reader kind", "flow"),
    "lens": (px.lens, {}, "state", "own"),
    "intervene": (px.intervene, {}, "name", "live"),
    "position_flow": (px.position_flow, {}, "block source destination", "flow"),
}


def answer(question, case, **options):
    trace = MODEL.run(case.tokens)
    return question(trace, trace.logit(case.answer) - trace.logit(case.wrong), **options)


@pytest.mark.parametrize("name", QUESTIONS)
def test_means_are_those_of_the_single_answers(name):
    question, options, keys, value = QUESTIONS[name]
    mean = px.average(question, MODEL, CASES, **options)
    key = lambda row: tuple(row[each] for each in keys.split())  # noqa: E731
    singles = [
        {key(row): row[value] for row in answer(question, case, **options).records()} for case in CASES
    ]
    assert mean.ok and mean.cases == len(CASES)
    for row in mean.records():
        there = [single[key(row)] for single in singles if key(row) in single]
        zeros = [0.0] * (row["cases"] - len(there))
        values = np.array([*there, *zeros])
        assert abs(row["mean"] - values.mean()) < 1e-9
        assert row["error"] is None or abs(row["error"] - values.std(ddof=1) / len(values) ** 0.5) < 1e-9
    assert {key(row) for row in mean.records()} == set().union(*singles)


def test_scores_take_positions_by_role():
    mean = px.average(px.score, MODEL, CASES, head="L1H3", query=-1, key="@S")
    singles = [px.score(MODEL.run(c.tokens), "L1H3", query=-1, key=2).records()[0]["value"] for c in CASES]
    assert abs(mean.records()[0]["mean"] - np.mean(singles)) < 1e-9
    with pytest.raises(PathexpError, match=r"case 1 .*no role 'IO'"):
        px.average(px.score, MODEL, CASES, head="L1H3", query=-1, key="@IO")


def test_live_effects_of_many_components_are_means_over_all_cases():
    """px.intervene computes 48 of them by default, others in each case: their means would be of the largest."""
    model = px.random_model(layers=10, heads=5)
    cases = [px.Case([1, 2, 3], 5), px.Case([4, 1, 2, 2], 6)]
    singles = [
        {row["name"]: row["live"] for row in px.intervene(trace, case.target(trace), live=50).records()}
        for case in cases
        for trace in [model.run(case.tokens)]
    ]
    mean = px.average(px.intervene, model, cases)
    assert len(mean.records()) == 50 and "chooses rows by size" not in str(mean)
    for row in mean.records():
        assert row["cases"] == 2 and abs(row["mean"] - np.mean([s[row["name"]] for s in singles])) < 1e-9
    same = px.average(px.intervene, model, cases, cut=None, zero="zero", inputs="qkvm", live=None)
    assert same.to_dict() == mean.to_dict()
    some = px.average(px.intervene, model, cases, live=3)
    assert {row["cases"] for row in some.records()} >= {0} and "too large where a question chooses" in str(
        some
    )


def test_prices_of_contrasts_are_averaged():
    mean = px.average(px.intervene, MODEL, CASES[:2], contrast=True)
    runs = [[MODEL.run(tokens) for tokens in (case.tokens, case.corrupted)] for case in CASES[:2]]
    found = [
        px.intervene(px.contrast(*both), case.target(both[0]))
        for both, case in zip(runs, CASES, strict=False)
    ]
    exact = [{row["name"]: row["exact"] for row in each.records()} for each in found]
    assert len(mean.records()) == 16
    for row in mean.records():
        assert row["cases"] == 2 and abs(row["mean"] - np.mean([each[row["name"]] for each in exact])) < 1e-9


def test_contrasts_are_with_the_corrupted_run():
    mean = px.average(px.attribution, MODEL, CASES, contrast=True, by="port")
    whole = [
        case.target(MODEL.run(case.tokens)).value - case.target(MODEL.run(case.corrupted)).value
        for case in CASES
    ]
    assert mean.ok and abs(mean.value - np.mean(whole)) < 1e-9
    assert abs(sum(row["mean"] for row in mean.records()) - np.mean(whole)) < 1e-9
    with pytest.raises(PathexpError, match="no corrupted prompt"):
        px.average(px.attribution, MODEL, [px.Case([5, 6], 7)], contrast=True)


def test_layers_of_nodes_are_names_and_no_numbers_to_average():
    rows = px.average(px.flow, MODEL, CASES[:2]).to_dict()["tables"]["nodes"]["rows"]
    assert {(row["node"], row["layer"]) for row in rows} >= {("L1H3", 1), ("L0H2", 0)}
    assert all("layer_mean" not in row for row in rows)


def test_means_of_counts_are_shown_without_a_sign():
    found = str(px.average(px.intervene, MODEL, CASES[:2], cut="E L0H2 .* U"))
    assert " 9.00 " in found and "+9.0" not in found


def test_no_order_of_the_cases_changes_a_digit():
    there = px.average(px.flow, MODEL, CASES, quantiles=(0.1, 0.5)).records()
    back = px.average(px.flow, MODEL, CASES[::-1], quantiles=(0.1, 0.5)).records()
    assert there == back and {"q10", "q50"} <= set(there[0])


def test_paths_that_are_not_listed_are_not_taken_for_zero():
    mean = px.average(px.attribution, MODEL, CASES, by="path", k=2)
    rare = [row for row in mean.records() if row["cases"] < len(CASES)]
    assert rare and "not in every case" in str(mean)


def test_the_average_is_an_answer_of_every_form():
    mean = px.average(px.attribution, MODEL, CASES[:3])
    again = pickle.loads(pickle.dumps(mean))
    assert again.to_dict() == mean.to_dict() and json.loads(mean.to_json())
    assert "L1H3" in mean.to_html() and "L1H3" in mean.to_latex() and mean.to_csv() and mean.figures()
    assert mean.complete and "the mean over 3 cases" in repr(mean)


# Trees -----------------------------------------------------------------------------------------------------


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "options", [{}, {"direction": "forward"}, {"query": "E .* L1H3 U"}, {"contrast": True}]
)
def test_nodes_of_the_mean_tree_are_the_mean_of_what_their_paths_add(options):
    mean = px.average(px.tree, MODEL, CASES, nodes=6, **options)
    assert mean.ok and ("paths matching" in str(mean)) == ("query" in options)
    for row in mean.records()[:20]:
        values = []
        for case in CASES:
            trace = MODEL.run(case.tokens)
            what = px.contrast(trace, MODEL.run(case.corrupted)) if "contrast" in options else trace
            terms = px.expand(what, options.get("query", "S? .* U"))
            values.append(terms.where(row["query"]).value(case.target(trace)))
        assert abs(row["mean"] - np.mean(values)) < 1e-9
        assert abs(row["error"] - np.std(values, ddof=1) / len(values) ** 0.5) < 1e-9


def test_a_mean_tree_of_one_case_opens_what_its_tree_opens():
    (case,) = CASES[:1]
    whole = px.average(px.tree, MODEL, [case], nodes=100)
    single = answer(px.tree, case, nodes=100)
    there = {row["query"]: row["value"] for row in single.records()}
    assert {row["query"] for row in whole.records()} == set(there)
    assert all(abs(row["mean"] - there[row["query"]]) < 1e-12 for row in whole.records())


@pytest.mark.parametrize(
    "options", [{"seconds": 1.0}, {"share": 0.5}, {"quantiles": [0.5]}, {"nodes": 0}, {"direction": "up"}]
)
def test_limits_of_one_tree_are_refused_for_the_mean(options):
    with pytest.raises(PathexpError):
        px.average(px.tree, MODEL, CASES, **options)


# Zero points -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", ["E L0H2 .* U", "S? .* L1H3 .* U"])
def test_the_mean_over_cases_of_one_length_is_the_mean_over_their_runs(cut):
    cases = drawn(4, equal=True)
    runs = [MODEL.run(case.tokens) for case in cases]
    found = px.average(px.intervene, MODEL, cases, cut=cut, zero="mean").records()[0]
    singles = [answer(px.intervene, case, cut=cut, zero="mean", means=runs).records()[0] for case in cases]
    for ours, theirs in (("mean", "live"), ("frozen_mean", "frozen")):
        assert abs(found[ours] - np.mean([row[theirs] for row in singles])) < 1e-9


def test_cutting_everything_for_the_corrupted_run_gives_the_corrupted_run():
    found = px.average(px.intervene, MODEL, CASES, cut="S? .* U", zero="corrupted").records()[0]
    changes = [c.target(MODEL.run(c.corrupted)).value - c.target(MODEL.run(c.tokens)).value for c in CASES]
    for column in ("mean", "frozen_mean"):
        assert abs(found[column] - np.mean(changes)) < 1e-9


def test_cutting_everything_for_the_mean_takes_what_tells_cases_apart():
    """Frozen, what is left is the mean of the logits at the target, whatever the lengths; so the mean of changes is that."""
    found = px.average(px.intervene, MODEL, CASES, cut="S? .* U", zero="mean").records()[0]
    targets = [case.target(MODEL.run(case.tokens)) for case in CASES]
    mean = np.mean([MODEL.run(case.tokens).logits[-1] for case in CASES], axis=0)
    changes = [float(mean @ target.direction) - target.value for target in targets]
    assert abs(found["frozen_mean"] - np.mean(changes)) < 1e-9
    with pytest.raises(PathexpError, match="all of its inputs"):
        px.average(px.intervene, MODEL, CASES, node="L1H3", zero="mean", inputs="v")


def test_zero_points_that_are_none_are_refused():
    for options in ({"zero": "median"}, {"zero": "mean", "means": [1]}):
        with pytest.raises(PathexpError, match="zero"):
            px.average(px.intervene, MODEL, CASES, cut="E U", **options)


# Executors -------------------------------------------------------------------------------------------------


def slow_or_dead(trace, target, *, flag):
    """Attribute, and kill this process the first time it is asked in a worker."""
    if len(trace) == 10 and os.getpid() != int(os.environ["PATHEXP_TEST_PID"]) and not os.path.exists(flag):
        open(flag, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return px.attribution(trace, target)


def refused(trace, target):
    if len(trace) == 10:
        raise PathexpError("ten tokens are too many")
    return px.attribution(trace, target)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("pool", [partial(ThreadPoolExecutor, 2), partial(ProcessPoolExecutor, 2)])
def test_executors_change_no_digit_and_their_errors_name_the_case(pool):
    serial = px.average(px.attribution, MODEL, CASES).to_dict()
    tree = px.average(px.tree, MODEL, CASES, nodes=4).to_dict()
    cut = {"cut": "E L0H2 .* U", "zero": "mean"}
    with pool() as executor:
        assert px.average(px.attribution, MODEL, CASES, executor=executor).to_dict() == serial
        assert px.average(px.tree, MODEL, CASES, nodes=4, executor=executor).to_dict() == tree
        there = px.average(px.intervene, MODEL, CASES, executor=executor, **cut).to_dict()
        with pytest.raises(PathexpError, match=r"case 3 of 6 .*ten tokens"):
            px.average(refused, MODEL, CASES, executor=executor)
    assert there == px.average(px.intervene, MODEL, CASES, **cut).to_dict()


def test_a_killed_worker_loses_nothing_and_counts_nothing_twice(tmp_path, monkeypatch):
    monkeypatch.setenv("PATHEXP_TEST_PID", str(os.getpid()))
    cases, expected = drawn(30), px.average(px.attribution, MODEL, drawn(30)).records()
    with ProcessPoolExecutor(2) as pool, pytest.warns(UserWarning, match="a worker died"):
        found = px.average(slow_or_dead, MODEL, cases, executor=pool, flag=str(tmp_path / "dead"))
    assert (tmp_path / "dead").exists() and found.records() == expected and found.cases == 30


def test_the_model_is_sent_by_one_file_that_is_removed(tmp_path):
    with ProcessPoolExecutor(2) as pool:
        px.average(px.attribution, MODEL, CASES, executor=pool, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_was_changed_on_its_way_is_refused(tmp_path):
    from pathexp.circuits.cases.sent import SentModel

    sent = SentModel(MODEL, tmp_path)
    words = pickle.dumps(sent)
    assert pickle.loads(words).model.config == MODEL.config
    pickle_of_another = pickle.dumps(sent)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    from pathexp.circuits.cases.sent import _loaded

    _loaded.cache_clear()
    with pytest.raises(PathexpError, match="changed on its way"):
        pickle.loads(pickle_of_another)
    sent.close()


def test_questions_that_give_no_rows_are_refused():
    def nothing(trace, target):
        return Report("nothing", ())

    with pytest.raises(PathexpError, match="no table"):
        px.average(nothing, MODEL, CASES)
    with pytest.raises(PathexpError, match="no answer"):
        px.average(lambda trace, target: 3, MODEL, CASES)


@pytest.mark.parametrize(
    "wrong", [{"executor": 3}, {"quantiles": [2.0]}, {"quantiles": 3}, {"contrast": "yes"}, {"folder": 3}]
)
def test_arguments_of_another_kind_are_refused(wrong):
    with pytest.raises(PathexpError, match="average"):
        px.average(px.attribution, MODEL, CASES, **wrong)


def interrupting(trace, target):
    if len(trace) == 9:
        signal.raise_signal(signal.SIGINT)
    return px.attribution(trace, target)


def test_an_interrupt_ends_it_with_what_there_is():
    found = px.average(interrupting, MODEL, CASES)
    assert (found.cases, found.requested, found.complete) == (
        2,
        6,
        False,
    ) and "of 6 (interrupted)" in found.headline()


def test_means_by_slot_are_those_of_all_positions_of_that_slot():
    """Cases of unequal length: positions with a role are averaged by role, all others together."""
    rng = np.random.default_rng(0)
    arrays = {tuple(case.tokens): rng.standard_normal((len(case.tokens), 3)) for case in CASES}
    found = mean_over(lambda run: {"x": arrays[tuple(run.tokens)]}, MODEL, CASES, Workers())["x"]
    for slot in ("S", "target", "*"):
        rows = [
            row
            for case in CASES
            for row, name in zip(arrays[tuple(case.tokens)], slots_of(case, False), strict=True)
            if name == slot
        ]
        np.testing.assert_allclose(found[slot], np.mean(rows, axis=0), atol=1e-12)
    assert set(found) == {"S", "target", "*"}


def test_the_largest_branches_hang_together_and_know_their_depth():
    """The largest first among the children of what is taken already, however large those further down are."""

    def branch(name, mean, *children):
        return Branch(name, name, 1, mean, None, list(children))

    deep, shallow = branch("deep", 9.0), branch("shallow", -2.0)
    left = branch("left", 1.0, deep)
    root = branch("root", 0.5, left, shallow)
    found = [(b.label, None if p is None else p.label, depth) for b, p, depth in largest(root, 9)]
    assert found == [("root", None, 0), ("shallow", "root", 1), ("left", "root", 1), ("deep", "left", 2)]
    assert [b.label for b, *_ in largest(root, 2)] == ["root", "shallow"]
