"""Attention scores as answers, and the command that prints them."""

import json
import pickle

import pytest

import pathexp as px
from tests.commands import json_of, printed, refusal, saved
from tests.zoo import FAMILIES, ZOO


def test_the_command_is_the_question(capsys, tmp_path):
    path = saved(tmp_path, biases=True)
    command = ["score", path, "abcabc", "--head", "L1H0", "--key", "2", "--top", "4"]
    data, terms = (
        json_of(capsys, *command),
        px.score(px.load(path).run("abcabc"), "L1H0", query=5, key=2, k=4),
    )
    assert data == json.loads(terms.to_json())
    assert data["count"] == terms.count() and data["checks"][0]["ok"]
    assert len(data["tables"]["terms"]["rows"]) == 4
    assert data["value"] + data["remainder"] == pytest.approx(data["score"], abs=1e-12)
    totals = [row["value"] for row in data["tables"]["orders"]["rows"]]
    assert sum(totals) == pytest.approx(terms.value(), abs=1e-12)
    kinds = [row["kind"] for row in data["tables"]["kinds"]["rows"]]
    assert kinds == ["direct", "Q-composition", "K-composition", "joint"]
    narrowed = json_of(capsys, *command, "--key-paths", "S L0H1 K")
    assert narrowed["count"] < data["count"] and narrowed["score"] == data["score"]
    most = json_of(capsys, "score", path, "abcabc", "--head", "L1H0")
    assert most["key"] == int(px.load(path).run("abcabc").patterns[1, 0, -1].argmax())


def test_an_answer_is_kept_without_its_run():
    terms = px.score(px.load("attn-2l").run("to be or not to be"), "L1H0")
    again = pickle.loads(pickle.dumps(terms))
    assert str(again) == str(terms) and repr(again) == repr(terms) and again.ok
    ranking = terms.top(3)
    assert len(ranking) == 3 and ranking[0] is ranking.terms[0] and list(ranking) == list(ranking.terms)
    for answer in (ranking, terms.verify()):
        assert str(pickle.loads(pickle.dumps(answer))) == str(answer)
    rows = terms.figures()["keys"].data
    assert rows["rows"] == list(terms.rows_by_kind()) and len(rows["columns"]) == len(terms.trace)


def test_slopes_are_a_row(capsys, tmp_path):
    command = [
        "score",
        saved(tmp_path, positions="alibi"),
        "abcabc",
        "--head",
        "L1H1",
        "--key",
        "0",
        "--top",
        "99",
    ]
    rows = json_of(capsys, *command)["tables"]["terms"]["rows"]
    (slope,) = [row for row in rows if row["kind"] == "position bias"]
    assert slope["value"] < 0 and slope["query_path"] == "ALiBi"
    assert "ALiBi" in printed(capsys, *command)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", [name for name, make in (ZOO | FAMILIES).items() if make().config.n_layers])
def test_scores_in_every_architecture(name):
    """Rotary, slopes, positions in queries and keys alone, every norm: proven, and what the softmax makes of it."""
    model = (ZOO | FAMILIES)[name]()
    terms = px.score(model.run([1, 4, 2, 2, 5]), f"L{model.config.n_layers - 1}H0", key=3)
    text = str(terms)
    assert "pairs of paths add up to the score" in text and "attention if removed" in text
    assert "does not hold" not in text


def test_a_score_too_deep_to_list(capsys, tmp_path):
    """Totals and verdict stand; what cannot be listed says why and what to do."""
    path = saved(tmp_path, px.random_model(layers=8, heads=6, d_head=2, d_model=8, n_ctx=8))
    command = ["score", path, "--tokens", "1,2,3", "--head", "L7H0", "--key", "1"]
    out = printed(capsys, *command)
    assert "cannot be ranked" in out and "top_keys" in out and "add up to the score" in out
    data = json_of(capsys, *command)
    assert "terms" not in data["tables"] and data["count"] == (2 * 7**7) ** 2
    assert len(data["tables"]["orders"]["rows"]) == 64


def test_a_score_of_a_changed_graph_says_that_it_is_not_verified():
    trace = px.load("attn-2l").run("to be or not to be")
    terms = px.score(trace, "L1H0", graph=px.freeze(trace).without("L0H0"))
    assert "not verified: L0H0 was removed" in str(terms)


def test_refused(capsys, tmp_path):
    path = saved(tmp_path)
    assert "no head 'L7H0'" in refusal(capsys, "score", path, "abc", "--head", "L7H0")
    assert "cannot attend to key 2" in refusal(capsys, "score", path, "abc", "--query", "0", "--key", "2")
    assert "query 9 is not in this run" in refusal(capsys, "score", path, "abc", "--query", "9")


def test_no_row_stands_for_others_where_every_term_is_listed(capsys):
    assert "0 other" not in printed(capsys, "score", "attn-2l", "the king", "--head", "L0H0")
