"""Cases: checked once, read from files, and refused with what is wrong and where."""

import json
import pickle

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.cases.checked_cases import checked_cases
from pathexp.circuits.cases.read_cases import read_cases
from pathexp.errors import LoadError, PathexpError, TokenError

MODEL = px.load("attn-2l")


def test_a_case_of_texts_gets_its_ids_from_a_model():
    case = px.Case(
        "To be, or not to be",
        " the",
        wrong=[" a", " not"],
        corrupted="To be, or not to we",
        roles={"end": -1},
    )
    with pytest.raises(PathexpError, match="come with a model"):
        _ = case.tokens
    ready = case.on(MODEL)
    trace = MODEL.run(ready.tokens)
    assert ready.tokens == tuple(MODEL.encode("To be, or not to be"))
    assert ready.roles == {"end": len(ready.tokens) - 1}
    expected = trace.logit(" the").value - np.mean([trace.logit(" a").value, trace.logit(" not").value])
    assert abs(ready.target(trace).value - expected) < 1e-12
    again = pickle.loads(pickle.dumps(ready))
    assert again == ready and hash(again) == hash(ready)


def test_the_answer_is_read_at_the_role_target():
    case = px.Case([5, 6, 7], 8, roles={"target": 1}).on(MODEL)
    trace = MODEL.run(case.tokens)
    assert case.target(trace).value == trace.logit(8, position=1).value


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"prompt": [], "answer": 1}, "token ids"),
        ({"prompt": [1.5], "answer": 1}, "token ids"),
        ({"prompt": [True], "answer": 1}, "token ids"),
        ({"prompt": None, "answer": 1}, "token ids"),
        ({"prompt": [1], "answer": None}, "a token"),
        ({"prompt": [1], "answer": []}, "a token"),
        ({"prompt": [1], "answer": 1, "wrong": -3}, "a token"),
        ({"prompt": [1], "answer": 1, "roles": {"a": 1.0}}, "positions by name"),
        ({"prompt": [1], "answer": 1, "roles": ["a"]}, "positions by name"),
        ({"prompt": [1], "answer": 1, "name": 3}, "a string"),
    ],
)
def test_fields_of_another_kind_are_refused(given, said):
    with pytest.raises(PathexpError, match=said):
        px.Case(**given)


def test_all_cases_that_cannot_be_used_are_named_at_once():
    vocabulary, longest = MODEL.config.d_vocab, MODEL.config.n_ctx
    cases = [
        px.Case([1, 2], 3),
        px.Case([1, vocabulary], 3, name="outside"),
        px.Case([1, 2], vocabulary),
        px.Case([1, 2], 3, corrupted=[1], name="short"),
        px.Case([1] * (longest + 1), 3, name="long"),
        px.Case([1, 2], 3, roles={"S": 2}),
        px.Case("To be", " that is not one token at all"),
    ]
    with pytest.raises(PathexpError) as caught:
        checked_cases(cases, MODEL)
    said = str(caught.value)
    assert said.startswith("6 of 7 cases") and "case 2 (outside)" in said and "case 4 (short)" in said
    assert "has 2 tokens and the corrupted one 1" in said and str(longest + 1) in said and "role 'S'" in said


@pytest.mark.parametrize("cases", [[], None, 3, px.Case([1], 2), [None]])
def test_what_is_no_list_of_cases_is_refused(cases):
    with pytest.raises(PathexpError, match="case"):
        checked_cases(cases, MODEL)


def test_files_hold_what_python_holds(tmp_path):
    cases = (
        px.Case("To be", " the", wrong=(" a", 7), corrupted="To we", roles={"S2": 1}, name="one"),
        px.Case([3, 4], 5),
    )
    lines = [
        {
            "prompt": "To be",
            "answer": " the",
            "wrong": [" a", 7],
            "corrupted": "To we",
            "roles": {"S2": 1},
            "name": "one",
        },
        {"prompt": [3, 4], "answer": 5, "wrong": None},
    ]
    file = tmp_path / "cases.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)) + "\n\n", encoding="utf-8")
    assert read_cases(file) == cases
    table = tmp_path / "cases.csv"
    table.write_text(
        "prompt,answer,wrong,corrupted,role:S2,name\nTo be, the, a|#7,To we,1,one\n#3 #4,#5,,,,\n"
    )
    assert read_cases(table) == cases


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.jsonl", "", "no cases"),
        ("a.jsonl", "[1]", "line 1: expected an object"),
        ("a.jsonl", '{"prompt": "a", "answer": 1}\n{"prompt"', "line 2"),
        ("a.jsonl", '{"answer": 1}', "needs prompt"),
        ("a.jsonl", '{"prompt": "a", "answer": 1, "anwser": 2}', "no field"),
        ("a.jsonl", '{"prompt": "a", "answer": NaN}', "a token"),
        ("a.jsonl", '{"prompt": ' + "[" * 100_000, "line 1"),
        ("a.jsonl", "x" * 2_000_000, "longer than"),
        ("a.csv", "prompt,answer\n#1", "expected 2 values"),
        ("a.csv", "prompt,answer\n#1,#2,#3", "expected 2 values"),
        ("a.csv", "prompt,answer,role:S\n#1,#2,x", "role:S: expected a position"),
        ("a.txt", "", "jsonl or .csv"),
    ],
)
def test_files_that_hold_no_cases_are_refused_by_line(tmp_path, name, text, said):
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(LoadError, match=said):
        read_cases(file)


def test_files_that_cannot_be_read_are_refused(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"\xff\xfe\x00")
    for file in (tmp_path / "a.csv", tmp_path / "none.jsonl", tmp_path):
        with pytest.raises(LoadError):
            read_cases(file)


def test_an_answer_of_several_tokens_says_so():
    with pytest.raises(TokenError):
        px.Case("To be", " Macbeth shall").on(MODEL)
