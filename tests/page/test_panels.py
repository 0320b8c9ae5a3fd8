"""What the page is told equals what the same questions return."""

import json
from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.graph import push
from pathexp.page.panels import PANELS
from pathexp.page.panels.paths import prove
from pathexp.page.session import KEPT, Session
from pathexp.page.view import View, view_of

TEXT = "Macbeth shall sleep no more. Macbeth shall"
OTHER = "Macbeth doth sleep no more. Macbeth shall"


@pytest.fixture(scope="module")
def session():
    return Session(px.load("attn-2l"), View(TEXT), "attn-2l")


@pytest.fixture(scope="module")
def trace():
    return px.load("attn-2l").run(TEXT)


def ask(session, panel, **given):
    found = session.ask(panel, {"text": TEXT} | given)
    json.dumps(found, allow_nan=False)
    return found


def boxes(box):
    yield box
    for child in box.get("children", ()):
        yield from boxes(child)


@pytest.mark.parametrize("by", ["endings", "beginnings"])
@pytest.mark.parametrize("other", ["", OTHER])
def test_every_box_is_the_exact_sum_of_its_query_and_children_add_up(session, trace, by, other):
    root = ask(session, "tree", by=by, other=other)["root"]
    graph = px.contrast(trace, trace.model.run(other)) if other else trace
    terms, target = px.expand(graph), trace.logit(" sleep")
    for box in boxes(root):
        asked = terms.where(box["query"])
        assert abs(asked.value(target) - box["value"]) < 1e-10
        assert f"{asked.count():,}" == box["count"]
        if box.get("children"):
            parts = sum(child["value"] for child in box["children"]) + box["rest"]["value"]
            assert abs(parts - box["value"]) < 1e-10
            assert abs(box["up"]["value"] + box["down"]["value"] - box["value"]) < 1e-10


def test_a_click_opens_a_branch_and_leaves_the_others_as_they_are(trace):
    deep = px.random_model(layers=6, heads=4, d_model=16, d_head=4, d_vocab=9, seed=3)
    session = Session(deep, View("1 2 3"))
    before = session.ask("tree", {"text": "1 2 3"})["root"]
    closed = next(box for box in boxes(before) if "children" not in box and not box["single"])
    after = session.ask("tree", {"text": "1 2 3", "open": [closed["query"]]})["root"]
    values = {box["query"]: box["value"] for box in boxes(after)}
    assert all(values[box["query"]] == box["value"] for box in boxes(before))
    opened = next(box for box in boxes(after) if box["query"] == closed["query"])
    assert (
        abs(sum(c["value"] for c in opened["children"]) + opened["rest"]["value"] - closed["value"]) < 1e-12
    )


def test_a_branch_that_is_not_in_the_tree_is_refused(session):
    with pytest.raises(px.PathexpError, match="no branch"):
        ask(session, "tree", open=["S .* L9H9 U"])


def test_the_run_tells_tokens_successors_and_target(session, trace):
    run = ask(session, "run")
    assert run["text"]["ids"] == trace.tokens.tolist() and run["position"] == len(trace) - 1
    assert run["asked"]["target"]["id"] == trace.top_token() and run["asked"]["versus"] is None
    chances = np.exp(trace.log_probs)
    for row, following in zip(chances, run["text"]["next"], strict=True):
        assert [each["id"] for each in following] == np.argsort(-row, kind="stable")[:5].tolist()
        assert all(each["said"] == f"{row[each['id']]:.3f}" for each in following)


def test_a_rival_makes_everything_about_the_difference(session, trace):
    target = trace.logit_difference(" sleep", " fall")
    assert ask(session, "run", target=" sleep", versus=" fall")["target"]["value"] == pytest.approx(
        target.value
    )
    root = ask(session, "tree", target=" sleep", versus=" fall")["root"]
    assert root["value"] == pytest.approx(target.value)


def test_the_verdict_is_the_expansions(session, trace):
    check = next(part for part in ask(session, "verify")["parts"] if part["part"] == "check")
    assert check["outcome"] == "holds" and check["text"] == str(px.expand(trace).verify().check)


@pytest.mark.parametrize("query", ["S .* U", "E .* L1H0 U", "E L0H3 L1H0 U", "E U", "~(E .* U)"])
def test_a_branch_tells_count_sum_and_tokens(session, trace, query):
    terms, target = px.expand(trace).where(query), trace.logit(" sleep")
    found = ask(session, "branch", query=query)
    assert found["count"] == f"{terms.count():,}" and abs(found["value"] - terms.value(target)) < 1e-12
    assert abs(sum(each["value"] for each in found["positions"]) - found["value"]) < 1e-10
    assert (found["formula"] is None) == (terms.count() != 1)
    if found["formula"]:
        assert found["formula"]["latex"] == next(iter(terms)).latex()


def test_a_query_tells_its_sum_or_its_error_with_the_caret(session, trace):
    assert ask(session, "query", query="E .* L1H0 U")["value"] == px.expand(trace).where("E .* L1H0 U").value(
        trace.logit(" sleep")
    )
    lines = ask(session, "query", query="E .* L9H0 U")["error"]
    assert any(line.strip() == "^" for line in lines) and "L9H0" in lines[0]


def test_paths_and_the_proof_are_the_rankings(session, trace):
    best = px.expand(trace).top(12, trace.logit(" sleep"))
    for found in (ask(session, "paths"), prove(session.subject(View(TEXT)), {}, lambda _: None)):
        table = next(part for part in found["parts"] if part["part"] == "table")
        assert found["proven"] and [row[0] for row in table["rows"]] == [str(term.path) for term in best]
        assert [row[2] for row in table["rows"]] == [f"{value:+.4f}" for value in best.values]
        assert table["rest"][-1][2] == f"{best.remainder:+.4f}"
        assert len(table["maths"]) == 12


def test_paths_that_nobody_lists_are_found_and_not_called_proven():
    deep = px.random_model(layers=8, heads=6, d_model=16, d_head=3, d_vocab=9, n_ctx=8, seed=3)
    session = Session(deep, View("1 2 3"))
    found = session.ask("paths", {"text": "1 2 3"})
    assert found["proven"] is False and any("not proven" in p.get("text", "") for p in found["parts"])
    said = []
    proof = prove(session.subject(View("1 2 3")), {"k": 3, "seconds": 60}, said.append)
    assert proof["proven"] and said
    target = session.subject(View("1 2 3")).target
    best = px.expand(session.subject(View("1 2 3")).graph).top(3, target)
    rows = next(part for part in proof["parts"] if part["part"] == "table")["rows"]
    assert [row[0] for row in rows] == [str(term.path) for term in best]


def test_flow_is_conserved_with_what_was_pruned(session, trace):
    whole = px.flow(trace, trace.logit(" sleep"))
    found = ask(session, "flow", percent=70)
    assert found["all"] == len(whole.edges) and found["kept"] < found["all"]
    for edge in found["edges"]:
        assert edge["flow"] == whole[edge["source"], edge["target"]]
    for node in found["nodes"]:
        entering = sum(e["flow"] for e in found["edges"] if e["target"] == node["label"])
        leaving = sum(e["flow"] for e in found["edges"] if e["source"] == node["label"])
        for lost, drawn in ((node["lost_in"], entering), (node["lost_out"], leaving)):
            assert lost is None or abs(lost + drawn - node["value"]) < 1e-10
        assert (node["lost_in"] is None) == (node["label"] == "E")
        assert (node["lost_out"] is None) == (node["label"] == "U")
    assert ask(session, "flow", percent=100)["kept"] == min(len(whole.edges), 150)


def test_heads_are_the_attribution_and_add_up_with_the_rest(session, trace):
    found, direct = ask(session, "heads"), px.attribution(trace, trace.logit(" sleep"), by="head")
    assert found["values"][1][0] == direct["L1H0"]
    total = sum(map(sum, found["values"])) + sum(each["value"] for each in found["rest"])
    assert abs(total - trace.logit(" sleep").value) < 1e-10


@pytest.mark.parametrize("by", ["previous-token", "induction", "copying"])
def test_heads_measured_whatever_the_text(session, by):
    values = ask(session, "heads", by=by)["values"]
    assert np.shape(values) == (2, 8)
    rows = {row["head"]: row for row in px.heads(px.load("attn-2l")).records()}
    assert values[1][3] == rows["L1H3"]["ov" if by == "copying" else by.replace("-", "_")]


def test_heads_are_measured_once_for_all_texts_and_again_only_if_stopped(monkeypatch):
    asked = []

    def measure(model):
        asked.append(model)
        found = px.heads(model)
        cut = replace(found.types, tally=replace(found.tally, interrupted=True))
        return found if len(asked) > 1 else replace(found, types=cut)

    monkeypatch.setattr("pathexp.page.measured.heads", measure)
    session = Session(px.load("attn-1l"), View(TEXT))
    with pytest.raises(px.PathexpError, match="ask again"):
        ask(session, "heads", by="induction")
    for text in (TEXT, OTHER):
        for by in ("induction", "copying", "previous-token"):
            assert session.ask("heads", {"text": text, "by": by})["by"] == by
    assert len(asked) == 2


@pytest.mark.parametrize("other", ["", OTHER])
def test_the_lens_is_the_librarys_with_its_picture(session, trace, other):
    found = ask(session, "lens", other=other)["runs"]
    assert len(found) == (2 if other else 1)
    for run, text in zip(found, (TEXT, OTHER), strict=False):
        one = px.load("attn-2l").run(text)
        lens, picture = px.lens(one, one.logit(" sleep")), run["picture"]
        assert picture["values"] == lens.figures()["lens"].data["values"]
        assert [row[picture["asked"]] for row in picture["values"]] == lens.values("own").tolist()
        states = next(part for part in run["parts"] if part.get("name") == "states")
        assert [row[picture["asked"]] for row in picture["said"]] == [row[3] for row in states["rows"]]
        assert [f"{top['token']} {top['said']}" for top in picture["tops"]] == [
            f"{row[1]} {row[2]}" for row in states["rows"]
        ]
        assert picture["left"] == 0 and len(picture["positions"]) == len(one)


@pytest.mark.parametrize("position", [0, 59, 60, 99])
def test_the_picture_of_a_long_text_ends_where_it_is_asked_and_says_what_it_leaves_out(position):
    model = px.random_model(layers=1, heads=2, d_vocab=9, n_ctx=100, seed=3)
    text = " ".join(str(place % 9) for place in range(100))
    picture = Session(model, View(text)).ask("lens", {"text": text, "position": position})["runs"][0][
        "picture"
    ]
    run = model.run(list(map(int, text.split())))
    lens = px.lens(run, run.logit(run.top_token(position), position=position))
    assert picture["positions"][picture["asked"]] == f'{position} "{position % 9}"'
    assert [row[picture["asked"]] for row in picture["values"]] == lens.values("own").tolist()
    assert len(picture["positions"]) == 60 and picture["left"] == 40


def test_a_heads_attention_and_what_it_writes_add_up(session, trace):
    run = ask(session, "head", head="L1H0")["runs"][0]
    assert run["attention"] == trace.patterns[1, 0, -1].tolist()
    direct = px.attribution(trace, trace.logit(" sleep"), by="head")["L1H0"]
    assert abs(sum(each["value"] for each in run["brings"]) + float(run["constant"]) - direct) < 1e-4
    assert run["outputs"]["6"][0] == '" sleep"'


def test_a_heads_outputs_are_those_of_its_own_result():
    """Over all keys together, what a head moves is what it wrote: the outputs of one key alone that has all attention."""
    model = px.random_model(layers=2, heads=2, d_mlp=8, norm="rmsnorm", seed=5)
    session = Session(model, View("3"))
    run = session.ask("head", {"text": "3", "head": "L1H1"})["runs"][0]
    trace = model.run([3])
    rows = push(px.freeze(trace).sink.operator, trace.head_results[1, 1][None])[0, 0]
    assert run["outputs"]["0"] == [f'"{token}"' for token in np.argsort(-rows, kind="stable")[:4]]


def test_cut_is_the_intervention_in_both_runs(session, trace):
    found = ask(session, "cut", query="E .* L1H0 U", other=OTHER)
    for run, text in zip(found["runs"], (TEXT, OTHER), strict=True):
        one = px.load("attn-2l").run(text)
        made = px.intervene(one, one.logit(" sleep"), cut="E .* L1H0 U")[0]
        assert (run["effect"]["frozen"], run["effect"]["live"]) == made.effect(one.logit(" sleep"))
        for state, logits in (("before", one.logits), ("frozen", made.frozen), ("live", made.live)):
            assert [each["id"] for each in run["tokens"][state]] == np.argsort(-logits[-1], kind="stable")[
                :5
            ].tolist()


def test_a_contrasts_ports_are_cut_as_their_components(session):
    assert ask(session, "cut", query="E L0H2.V L1H3.K U", other=OTHER)["query"] == "E L0H2 L1H3 U"
    assert ask(session, "cut", query="E (L0H2.V|L0H1.V) .* U", other=OTHER)["query"] == "E (L0H2|L0H1) .* U"


def test_neurons_and_all_others_add_up_to_the_branch():
    model = px.random_model(layers=2, heads=2, d_mlp=24, norm="rmsnorm", gated=True, seed=4)
    session = Session(model, View("1 2 3"))
    query = "S? .* L1M .* U"
    found = session.ask("neurons", {"text": "1 2 3", "query": query, "mlp": "L1M"})
    subject = session.subject(View("1 2 3"))
    whole = subject.terms.where(query).value(subject.target)
    assert abs(sum(row["value"] for row in found["rows"]) + found["rest"]["value"] - whole) < 1e-12
    one = found["rows"][0]
    graph = px.freeze(subject.trace, neurons={1: [int(one["label"][3:])]})
    assert px.expand(graph).where(one["query"]).value(subject.target) == pytest.approx(
        one["value"], abs=1e-12
    )


def test_the_views_that_were_asked_about_lately_are_kept_and_no_more():
    session = Session(px.load("attn-1l"), View("To be"))
    kept = session.subject(View("To be"))
    for text in range(2 * KEPT):
        session.subject(View(f"To be {text}"))
    assert len(session._subjects) == KEPT and session.subject(View("To be")) is not kept


def test_a_click_on_a_token_does_not_run_the_text_again(session):
    first = session.subject(View(TEXT))
    assert first.trace.tokens.size == 16
    second = session.subject(View(TEXT, 3))
    assert first.trace is session.subject(View(TEXT, 4)).trace and second.trace is first.trace


@pytest.mark.parametrize("given", [
    {"text": 5}, {"text": "x" * 20_001}, {"position": "1"}, {"position": True}, {"position": 10**9}, {"target": []},
    {"query": {}}, {"open": "x"}, {"open": ["x"] * 201}, {"versus": "x" * 300}, {"position": 99},
    {"target": "no such token at all"}, {"other": "one"}, {"head": "L9H9"}, {"k": 0}, {"percent": 101},
])  # fmt: skip
@pytest.mark.parametrize("panel", list(PANELS))
def test_bad_input_is_refused_or_does_not_concern_the_panel(session, panel, given):
    needed = {"branch": {"query": "E U"}, "cut": {"query": "E L1H0 U"}, "head": {"head": "L1H0"}, "score": {"head": "L1H0"},
              "neurons": {"query": "E U", "mlp": "L0M"}, "query": {"query": "E U"}}  # fmt: skip
    try:
        found = ask(session, panel, **needed.get(panel, {}) | given)
    except px.PathexpError as error:
        assert str(error)
    else:
        assert not set(given) & {"text", "other"} or panel == "heads"
        assert json.dumps(found, allow_nan=False)


def test_views_are_read_from_plain_data():
    assert view_of({}) == View() and view_of({"target": "#17"}).target == 17
    assert view_of({"target": "#x", "versus": " a"}) == View(target="#x", versus=" a")


@pytest.mark.filterwarnings("ignore:overflow")
def test_numbers_that_are_not_finite_are_null_on_the_page():
    model = px.random_model(layers=1, heads=1, d_vocab=5, seed=1)
    huge = replace(model, weights=replace(model.weights, W_U=model.weights.W_U * 1e300))
    session = Session(huge, View("1 2"))
    for panel in ("run", "verify", "tree", "paths", "flow", "heads", "lens"):
        try:
            json.dumps(session.ask(panel, {"text": "1 2"}), allow_nan=False)
        except px.PathexpError as error:
            assert str(error)
