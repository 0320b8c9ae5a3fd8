"""Circuits of edges: all edges are the model, none of them its zero point, and in between exact sums of paths."""

import json
import pickle
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.cases import edge_run, kept_runs
from pathexp.circuits.cases.edge_run import VALUES, EdgeList, EdgeRun, summed, written
from pathexp.circuits.cases.edge_scores import EdgeScores, read_eap
from pathexp.errors import LoadError, PathexpError
from pathexp.graph import freeze
from tests.circuits.cases.test_average import drawn
from tests.zoo import FAMILIES, ZOO

MODEL = px.load("attn-2l")
CASES = drawn()
EVERY = {**ZOO, **FAMILIES}
NO_NORM_BEHIND = [
    name for name in EVERY if not any(n.endswith("_post") for n in EVERY[name]().config.block_norms)
]


def pair(model):
    n, rng = min(5, model.config.n_ctx), np.random.default_rng(3)
    return [model.run(rng.integers(0, model.config.d_vocab, n)) for _ in range(2)]


def target_of(trace):
    return trace.direction(np.arange(1.0, 1 + trace.logits.shape[-1]), at="logits", position=-1)


@pytest.mark.parametrize("name", EVERY)
def test_all_edges_frozen_are_the_run(name):
    trace, other = pair(EVERY[name]())
    run = EdgeRun(trace, written(other))
    assert abs(run.value(run.edges.all(), target_of(trace)) - target_of(trace).value) < 1e-9


@pytest.mark.parametrize("name", NO_NORM_BEHIND)
def test_all_edges_live_are_the_run_and_none_is_the_other_run(name):
    trace, other = pair(EVERY[name]())
    run, target = EdgeRun(trace, written(other), live=True), target_of(trace)
    every = run.edges.all()
    assert abs(run.value(every, target) - target.value) < 1e-9
    assert abs(run.value(np.zeros_like(every), target) - target_of(other).value) < 1e-9


def test_edges_are_scored_by_the_mean_of_their_flows():
    scores = px.faithfulness(MODEL, CASES, edges=(0.1,)).scores
    runs = [(MODEL.run(case.tokens), case) for case in CASES]
    flows = [
        {(e.writer, e.reader): e.flow for e in px.flow(run, case.target(run)).edges} for run, case in runs
    ]
    for writer, reader, port, score in scores.ranked():
        mean = np.mean([each.get((writer, reader), 0.0) for each in flows])
        assert port == "v" and score == pytest.approx(mean, abs=1e-9)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", EVERY)
def test_flows_are_those_of_px_flow_and_what_a_single_cut_takes(name):
    trace, other = pair(EVERY[name]())
    target, exact = target_of(trace), {}
    for edge in px.flow(trace, target).edges:
        exact[edge.writer, edge.reader] = edge.flow
    for instead in ({}, written(other)):
        run = EdgeRun(trace, instead)
        flows, every = run.flows(target), run.edges.all()
        for row, column in np.argwhere(run.edges.there)[::3]:
            kept = every.copy()
            kept[:, row, column] = False
            cut = run.value(every, target) - run.value(kept, target)
            assert abs(flows[row, column] - cut) < 1e-9
            if not instead:
                ends = run.edges.writers[row], run.edges.readers[column]
                assert abs(flows[row, column] - exact.get(ends, 0.0)) < 1e-9


def test_some_edges_are_the_paths_along_them():
    case = CASES[0]
    trace = MODEL.run(case.tokens)
    run = EdgeRun(trace)
    kept = np.zeros_like(run.edges.all())
    for ends in (("E", "L0H2"), ("L0H2", "L1H3"), ("E", "L1H3"), ("L1H3", "U"), ("L0H2", "U"), ("E", "L1H0")):
        kept[(VALUES, *run.edges.place(*ends))] = True
    target = case.target(trace)
    paths = "E L1H3 U | E L0H2 L1H3 U | E L0H2 U"
    assert abs(run.value(kept, target) - px.expand(trace, paths).value(target)) < 1e-9
    pairs = [("E", "L1H3"), ("L1H3", "U")]
    by_edges = px.faithfulness(MODEL, CASES, circuit=pairs, edges=()).records()[0]
    by_paths = px.faithfulness(MODEL, CASES, circuit="E L1H3 U").records()[0]
    assert abs(by_edges["mean"] - by_paths["mean"]) < 1e-9 and (by_edges["kept"], by_paths["kept"]) == (2, 1)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("how", ["frozen", "live"])
@pytest.mark.parametrize("zero", ["zero", "mean", "corrupted"])
def test_curves_go_from_one_to_zero_whatever_stands_in_place_of_what_is_cut(how, zero):
    curve = px.faithfulness(MODEL, CASES, edges=(1.0, 0.3, 0.0), how=how, zero=zero)
    rows = curve.records()
    assert curve.ok and abs(rows[0]["faithfulness"] - 1) < 1e-9 and abs(rows[-1]["faithfulness"]) < 1e-9
    if how == "live" and zero == "corrupted":
        corrupted = [case.target(MODEL.run(case.corrupted)).value for case in CASES]
        assert abs(rows[-1]["mean"] - np.mean(corrupted)) < 1e-9
    values = [case.target(MODEL.run(case.tokens)).value for case in CASES]
    assert abs(rows[0]["mean"] - np.mean(values)) < 1e-9


@pytest.mark.sampled(2)
@pytest.mark.parametrize("how", ["frozen", "live"])
@pytest.mark.parametrize("zero", ["zero", "mean", "corrupted"])
def test_circuits_of_all_paths_and_of_their_complement(how, zero):
    options = {"how": how, "zero": zero}
    everything = px.faithfulness(MODEL, CASES, circuit="S? .* U", **options)
    nothing = px.faithfulness(MODEL, CASES, circuit="S? .* U", cut=True, **options)
    assert everything.ok and abs(everything.records()[0]["faithfulness"] - 1) < 1e-9
    assert abs(nothing.records()[0]["faithfulness"]) < 1e-9
    assert everything.records()[0]["paths"] == 1.0 and nothing.records()[0]["kept"] == 0


def test_a_circuit_and_what_it_leaves_add_up_frozen_and_cut_to_zero():
    kept, left = (
        px.faithfulness(MODEL, CASES, circuit="E L0H2 .* U", cut=cut).records()[0]["mean"]
        for cut in (False, True)
    )
    assert abs(kept + left - np.mean([c.target(MODEL.run(c.tokens)).value for c in CASES])) < 1e-9


def test_areas_are_trapezoids_over_shares_above_zero():
    shares = (1.0, 0.5, 0.2, 0.1, 0.0)
    curve = px.faithfulness(MODEL, CASES, edges=shares)
    points = sorted((row["edges"], row["faithfulness"]) for row in curve.records() if row["edges"])
    x, y = np.array(points).T
    assert abs(curve.cpr - np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2)) < 1e-12
    z = np.abs(1 - y)
    assert abs(curve.cmd - np.sum(np.diff(x) * (z[1:] + z[:-1]) / 2)) < 1e-12
    assert px.faithfulness(MODEL, CASES, edges=(1.0,)).cpr is None


def test_live_ranking_is_what_each_cut_takes_live():
    curve = px.faithfulness(MODEL, CASES[:1], edges=(1.0,), how="live", ranking="live")
    row = curve.records("edges")[0]
    left = px.faithfulness(
        MODEL, CASES[:1], circuit=[(row["writer"], row["reader"])], edges=(), cut=True, how="live"
    ).records()[0]
    assert abs(curve.records()[0]["mean"] - left["mean"] - row["score"]) < 1e-9


def test_faithfulness_of_nothing_is_undefined():
    """A target that the model does not move: the answer is also what is wrong."""
    same = [px.Case(case.tokens, case.answer, wrong=case.answer) for case in CASES]
    assert [row["faithfulness"] for row in px.faithfulness(MODEL, same, edges=(1.0, 0.0)).records()] == [
        None,
        None,
    ]


def test_executors_change_no_digit():
    options = {"edges": (1.0, 0.1), "zero": "mean"}
    with ThreadPoolExecutor(2) as pool:
        there = px.faithfulness(MODEL, CASES, executor=pool, **options)
    assert there.to_dict() == px.faithfulness(MODEL, CASES, **options).to_dict()


# Exchange --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["2L-plain", "gpt2", "gptj", "2L-gqa"])
def test_scores_go_to_eap_and_back(name, tmp_path):
    model = EVERY[name]()
    trace, _ = pair(model)
    edges = EdgeList.of(freeze(trace))
    rng = np.random.default_rng(0)
    scores = EdgeScores(edges, np.where(edges.all(), rng.standard_normal((3, *edges.there.shape)), np.nan))
    file = tmp_path / "graph.json"
    scores.save_eap(file, model.config, amount=5)
    again = read_eap(file, edges)
    entering = [row for row, label in enumerate(edges.writers) if label[0] != "L"]
    rest = [row for row in range(len(edges.writers)) if row not in entering]
    heads = [column for column, label in enumerate(edges.readers) if "H" in label]
    np.testing.assert_array_equal(again.scores[:, rest][:, :, heads], scores.scores[:, rest][:, :, heads])
    for ours, theirs in ((again.scores, scores.scores),):
        np.testing.assert_allclose(ours[VALUES, entering].sum(axis=0), theirs[VALUES, entering].sum(axis=0))
    found = json.loads(file.read_text())
    assert set(found) == {"cfg", "nodes", "edges"} and found["cfg"]["n_layers"] == model.config.n_layers
    assert found["nodes"]["logits"] == {"in_graph": True} and "input" in found["nodes"]
    assert all(set(edge) == {"score", "in_graph"} for edge in found["edges"].values())
    assert any(name.endswith("<q>") for name in found["edges"])


@pytest.mark.parametrize("score", ["1" * 41, "-" + "1" * 400])
def test_scores_may_be_integers_of_any_size_that_a_double_holds(score, tmp_path):
    edges = EdgeList.of(freeze(MODEL.run([5, 6])))
    (tmp_path / "e.json").write_text(f'{{"edges": {{"a0.h1->logits": {{"score": {score}}}}}}}')
    if len(score) < 300:
        assert np.nansum(read_eap(tmp_path / "e.json", edges).scores) == float(score)
    else:
        with pytest.raises(LoadError, match="expected a finite score"):
            read_eap(tmp_path / "e.json", edges)


def test_a_file_of_edges_ranks_them_or_is_the_circuit(tmp_path):
    curve = px.faithfulness(MODEL, CASES, edges=(0.1,))
    curve.scores.save_eap(tmp_path / "importances.json", MODEL.config, amount=9)
    again = px.faithfulness(MODEL, CASES, edges=(), circuit=tmp_path / "importances.json")
    assert again.records()[0]["mean"] == pytest.approx(curve.records()[0]["mean"], abs=1e-9)
    ranked = px.faithfulness(MODEL, CASES, edges=(1.0, 0.0), circuit=str(tmp_path / "importances.json"))
    assert abs(ranked.records()[0]["faithfulness"] - 1) < 1e-9


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"edges": 3}', '{"edges": {"x": {}}}', '{"edges": {"a0.h1->a0.h2<q>": {}}}', '{"edges": {"a9.h1->logits": {}}}',
     '{"edges": {"input->logits": {"score": NaN}}}', '{"edges": {"input->logits": {"score": true}}}', '{"edges": {"input->logits": 3}}',
     '{"edges": ' + "[" * 100_000, '{"edges": {"a99999999999.h1->logits": {}}}'],
)  # fmt: skip
def test_files_that_hold_no_edges_are_refused(tmp_path, text):
    (tmp_path / "edges.json").write_text(text)
    with pytest.raises(LoadError, match="cannot read edges"):
        px.faithfulness(MODEL, CASES[:1], circuit=tmp_path / "edges.json")


@pytest.mark.parametrize(
    "wrong",
    [{"edges": (2.0,)}, {"edges": "all"}, {"how": "warm"}, {"zero": "one"}, {"ranking": "size"}, {"circuit": "E L9H9 U"},
     {"circuit": [("U", "E")]}, {"circuit": 3}, {"circuit": [("E", "L1H3")], "edges": (), "inputs": ""}, {"edges": ()},
     {"cut": "yes"}],
)  # fmt: skip
def test_what_is_no_circuit_is_refused(wrong):
    with pytest.raises(PathexpError):
        px.faithfulness(MODEL, CASES[:2], **wrong)


def test_live_circuits_with_norms_behind_branches_are_refused():
    model = EVERY["gemma2"]()
    with pytest.raises(PathexpError, match="norms behind branches"):
        px.faithfulness(model, [px.Case([1, 2, 3], 4)], how="live")


def test_cases_without_a_corrupted_prompt_cannot_be_cut_to_it():
    with pytest.raises(PathexpError, match="no corrupted prompt"):
        px.faithfulness(MODEL, [px.Case([5, 6], 7)], zero="corrupted")


def test_a_circuit_of_pairs_is_that_of_its_edges():
    """Writer and reader, as tuples or lists; anything else is refused."""
    pairs = [("E", "U"), ["L0H0", "U"]]
    curve = px.faithfulness(MODEL, CASES[:1], circuit=pairs)
    assert curve.records()
    for wrong in ([("E", "U", "U")], ["EU"], [], 3):
        with pytest.raises(px.PathexpError, match="pairs of writer and reader"):
            px.faithfulness(MODEL, CASES[:1], circuit=wrong)


def test_circuits_that_go_through_the_blocks_together_are_as_each_alone(monkeypatch):
    """Several sets of kept edges in one pass, in pieces of two, with and without something in place of what is cut."""
    model = px.random_model(layers=3, heads=4, kv_heads=2, d_mlp=20, norm="rmsnorm", biases=True, seed=3)
    trace, other = model.run([1, 2, 3, 4, 5]), model.run([5, 4, 3, 2, 1])
    target, rng = trace.logit(7), np.random.default_rng(0)
    for instead in ({}, written(other)):
        for live in (False, True):
            run = EdgeRun(trace, instead, live)
            every = run.edges.all()
            kept = [every & (rng.random(every.shape) < share) for share in (0.0, 0.1, 0.5, 0.9, 1.0)]
            monkeypatch.setattr(
                edge_run, "AT_ONCE", 2 * 8 * len(trace) * model.config.d_model * len(run.edges.writers)
            )
            np.testing.assert_allclose(
                run.values(kept, target), [run.value(each, target) for each in kept], rtol=1e-12, atol=1e-12
            )
            assert abs(run.value(every, target) - target.value) < 1e-10


def test_readers_get_what_they_keep_however_it_is_added_up():
    rng = np.random.default_rng(2)
    written = rng.normal(size=(7, 3, 5))
    for share in (0.0, 0.3, 1.0):
        kept = rng.random((7, 4)) < share
        np.testing.assert_allclose(summed(kept, written), np.einsum("wr,wnd->rnd", kept, written), atol=1e-14)


def test_runs_of_one_model_share_what_their_heads_read_and_write_with():
    model = px.random_model(layers=2, heads=4, kv_heads=2, seed=3)
    first, second = (px.freeze(model.run(tokens)).kernels[0].stacks[0] for tokens in ([1, 2, 3], [4, 5]))
    other = (
        px.freeze(px.random_model(layers=2, heads=4, kv_heads=2, seed=4).run([1, 2, 3])).kernels[0].stacks[0]
    )
    assert first.maps is second.maps is not other.maps
    assert not np.array_equal(first.raw[:, :2, :2], second.raw)


def test_a_case_is_run_once_for_ranks_and_circuits(monkeypatch):
    runs = Counter()
    run = type(MODEL).run

    def counted(model, tokens, *given, **options):
        runs[tuple(tokens)] += 1
        return run(model, tokens, *given, **options)

    monkeypatch.setattr(type(MODEL), "run", counted)
    kept = px.faithfulness(MODEL, CASES).to_dict()
    assert set(runs.values()) == {1} and len(runs) == len(CASES)
    monkeypatch.setattr(kept_runs, "SHARE", 2**60)  # no room
    assert px.faithfulness(MODEL, CASES).to_dict() == kept
    assert max(runs.values()) > 2


def test_runs_that_are_kept_stay_at_home_and_within_their_room():
    runs = kept_runs.KeptRuns()
    first, *others = [case.on(MODEL) for case in CASES]
    found = runs.of(MODEL, first)
    away = pickle.loads(pickle.dumps(runs))
    assert runs.of(MODEL, first) is found and away.of(MODEL, first) is not away.of(MODEL, first)
    small = kept_runs.KeptRuns(kept_runs.bytes_of_run(found))
    assert small.of(MODEL, first) is small.of(MODEL, first)
    assert all(small.of(MODEL, case) is not small.of(MODEL, case) for case in others)
