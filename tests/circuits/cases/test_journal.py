"""Averages that die go on where they were: what each case gave is kept, and files that do not fit are refused."""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import pytest

import pathexp as px
from pathexp.circuits.cases import journal as journal_module
from pathexp.circuits.cases import kept_runs
from pathexp.cli import main
from pathexp.errors import LoadError, PathexpError

MODEL = px.load("attn-2l")
TEXTS = [
    "To be, or not to be",
    "Macbeth shall sleep",
    "The king shall",
    "What is the",
    "Good morrow, my lord",
]
CASES = [
    px.Case(text, " the", wrong=" not", corrupted=MODEL.encode(text)[::-1], roles={"S": 1})
    for text in TEXTS[:2]
]
CASES += [px.Case(text, " the") for text in TEXTS[2:]]
ASKED: list[int] = []


def layers(trace, target, **options):
    """The attribution by layer, and how often it was asked for."""
    ASKED.append(len(trace.tokens))
    return px.attribution(trace, target, by="layer", **options)


def averaged(file, cases=CASES, question=layers, **options):
    return px.average(question, MODEL, cases, resume=file, **options).to_dict()


def test_only_new_cases_are_asked_and_no_digit_differs(tmp_path):
    file, whole = tmp_path / "kept.jsonl", px.average(layers, MODEL, CASES).to_dict()
    averaged(file, CASES[:3])
    ASKED.clear()
    assert averaged(file) == whole and len(ASKED) == 2
    assert averaged(file, CASES[::-1]) and len(ASKED) == 2
    assert len(file.read_text().splitlines()) == 1 + len(CASES)


@pytest.mark.parametrize("question", [px.lens, px.flow, px.decompose])
def test_every_table_check_and_value_comes_back(tmp_path, question):
    file, whole = tmp_path / "kept.jsonl", px.average(question, MODEL, CASES, quantiles=(0.5,)).to_dict()
    assert averaged(file, question=question, quantiles=(0.5,)) == whole
    assert averaged(file, question=question, quantiles=(0.5,)) == whole


@pytest.mark.parametrize("cut", range(1, 200, 20))
def test_a_last_line_that_was_cut_off_is_asked_again(tmp_path, cut):
    file = tmp_path / "kept.jsonl"
    whole = averaged(file)
    file.write_bytes(file.read_bytes()[:-cut])
    ASKED.clear()
    assert averaged(file) == whole and len(ASKED) == 1


def test_a_killed_average_goes_on_where_it_was(tmp_path):
    file = tmp_path / "kept.jsonl"
    work = (
        "import os, signal, pathlib\n"
        f"import {__name__} as t\n"
        f"file = pathlib.Path({str(file)!r})\n"
        "old = t.px.Case.target\n"
        "def target(case, trace):\n"
        "    if file.exists() and len(file.read_text().splitlines()) == 4: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return old(case, trace)\n"
        "t.px.Case.target = target\n"
        "t.averaged(file)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", work], env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    ASKED.clear()
    assert averaged(file) == px.average(layers, MODEL, CASES).to_dict() and len(ASKED) == 2 + len(CASES)


def test_two_averages_do_not_share_a_file(tmp_path):
    file = tmp_path / "kept.jsonl"

    def disturbed(trace, target):
        if ASKED:
            with file.open("a") as other:
                other.write("x")
        return layers(trace, target)

    disturbed.__qualname__ = "disturbed"
    ASKED.clear()
    with pytest.raises(LoadError, match="written to by someone else"):
        averaged(file, question=disturbed)
    assert len(ASKED) == 2


def test_processes_keep_what_they_find(tmp_path):
    file = tmp_path / "kept.jsonl"
    averaged(file, CASES[:2], px.attribution)
    with ProcessPoolExecutor(2) as pool:
        assert averaged(file, question=px.attribution, executor=pool) == px.average(px.attribution, MODEL, CASES).to_dict()  # fmt: skip


@pytest.mark.parametrize("other", [
    {"question": px.flow}, {"query": "E .* U"}, {"contrast": True, "cases": CASES[:2]},
])  # fmt: skip
def test_another_question_is_refused_with_the_reason(tmp_path, other):
    file = tmp_path / "kept.jsonl"
    averaged(file)
    before = file.read_bytes()
    with pytest.raises(LoadError, match=r"kept\.jsonl.* another question, model or version"):
        averaged(file, **{"question": layers, **other})
    assert file.read_bytes() == before


def test_another_model_or_version_is_refused(tmp_path, monkeypatch):
    file = tmp_path / "kept.jsonl"
    averaged(file)
    with pytest.raises(LoadError, match="another question, model"):
        px.average(layers, px.load("attn-1l"), CASES, resume=file)
    sharper = px.Model(replace(MODEL.config, attention_scale=0.3), MODEL.weights, MODEL.tokenizer, "attn-2l")
    with pytest.raises(LoadError, match="another question, model"):
        px.average(layers, sharper, CASES, resume=file)
    monkeypatch.setattr("pathexp.circuits.cases.journal.VERSION", "9.9")
    with pytest.raises(LoadError, match="another question, model"):
        averaged(file)


def test_means_over_cases_belong_to_their_cases(tmp_path):
    file, cut = tmp_path / "kept.jsonl", {"cut": "E L0H2 .* U", "zero": "mean", "question": px.intervene}
    whole = averaged(file, CASES[:3], **cut)
    assert averaged(file, CASES[:3], **cut) == whole
    with pytest.raises(LoadError, match="another question"):
        averaged(file, CASES[:4], **cut)


@pytest.mark.parametrize("at", [0, 70, 140, 300, 1000])
def test_damage_is_refused(tmp_path, at):
    file = tmp_path / "kept.jsonl"
    averaged(file)
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)
    with pytest.raises(LoadError, match=r"line [12] of .* damaged or edited"):
        averaged(file)


@pytest.mark.parametrize("text", ["x", "\n", "{}\n", "\x1b\n", "a b c\n", "asked\n" * 3])
def test_other_files_are_refused_and_left_as_they_are(tmp_path, text):
    file = tmp_path / "kept.jsonl"
    file.write_text(text)
    with pytest.raises(LoadError, match=r"kept\.jsonl"):
        averaged(file)
    assert file.read_text() == text


def test_what_a_file_cannot_name_is_refused(tmp_path):
    file = tmp_path / "kept.jsonl"
    with pytest.raises(PathexpError, match="resume"):
        averaged(file, question=lambda trace, target: px.attribution(trace, target))
    with pytest.raises(PathexpError, match="option by is a dict"):
        averaged(file, question=px.attribution, by={})
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LoadError, match="no file"):
        averaged(tmp_path / "pipe")
    with pytest.raises(LoadError, match="cannot write"):
        averaged(tmp_path / "none" / "a.jsonl")


def test_on_the_command_line(tmp_path, capsys):
    cases, file = tmp_path / "cases.jsonl", tmp_path / "kept.jsonl"
    cases.write_text("\n".join(json.dumps({"prompt": text, "answer": " the"}) for text in TEXTS))
    given = ["attribution", "attn-2l", "--cases", str(cases), "--json"]
    said = []
    for more in ([], ["--resume", str(file)], ["--resume", str(file), "--workers", "2"]):
        assert main([*given, *more]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] == said[2] and len(file.read_text().splitlines()) == 1 + len(TEXTS)
    for wrong in ([*given, "--resume", "kept.npz"], [*given, "--resume", str(tmp_path / "none" / "a.jsonl")],
                  ["attribution", "attn-2l", "--resume", str(file)]):  # fmt: skip
        assert main(wrong) == 2
        assert "--resume" in capsys.readouterr().err


# Work in several steps ---------------------------------------------------------------------------------------


@pytest.fixture
def runs(monkeypatch):
    """How often a model runs, where no run is kept from one step to the next."""
    monkeypatch.setattr(kept_runs, "SHARE", 2**60)
    counted, run = [], px.Model.run
    monkeypatch.setattr(px.Model, "run", lambda model, *given: counted.append(0) or run(model, *given))
    return counted


STEPS = {
    "tree": lambda file, cases: px.average(px.tree, MODEL, cases, nodes=7, resume=file),
    "tree of contrasts": lambda file, cases: px.average(
        px.tree, MODEL, cases, nodes=6, contrast=True, query="E .* U", resume=file
    ),
    "edges": lambda file, cases: px.faithfulness(MODEL, cases, edges=(1.0, 0.1, 0.0), resume=file),
    "edges cut live": lambda file, cases: px.faithfulness(
        MODEL, cases, edges=(0.5,), how="live", ranking="live", zero="corrupted", cut=True, resume=file
    ),
    "paths": lambda file, cases: px.faithfulness(MODEL, cases, circuit="S .* L0H2 .* U", zero="mean", resume=file),
    "pairs": lambda file, cases: px.faithfulness(
        MODEL, cases, circuit=[("E", "L1H0"), ("L1H0", "U")], edges=(), resume=file
    ),
}  # fmt: skip
PAIRED = CASES[:2] + [replace(case, name="again", answer=MODEL.encode(" and")[0]) for case in CASES[:2]]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", STEPS)
def test_steps_over_cases_are_kept(tmp_path, name, runs):
    ask, file = STEPS[name], tmp_path / "kept.jsonl"
    whole = ask(None, PAIRED).to_dict()
    alone = len(runs)
    assert ask(file, PAIRED).to_dict() == whole
    written = file.read_bytes()
    runs.clear()
    assert ask(file, PAIRED).to_dict() == whole
    assert len(runs) <= alone - len(PAIRED) and file.read_bytes() == written


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_steps_that_were_cut_off_go_on(tmp_path, name, share):
    ask, file = STEPS[name], tmp_path / "kept.jsonl"
    whole = ask(file, PAIRED).to_dict()
    written = file.read_bytes()
    file.write_bytes(written[: max(int(share * len(written)), written.index(b"\n") + 1)])
    assert ask(file, PAIRED).to_dict() == whole
    assert sorted(file.read_bytes().splitlines()) == sorted(written.splitlines())


def test_more_cases_and_more_sizes_cost_themselves(tmp_path, runs):
    file = tmp_path / "kept.jsonl"
    px.faithfulness(MODEL, CASES[:2], edges=(1.0, 0.0), resume=file)
    runs.clear()
    found = px.faithfulness(MODEL, CASES[:2], edges=(1.0, 0.1, 0.0), resume=file)
    assert (
        len(runs) <= 3
        and found.to_dict() == px.faithfulness(MODEL, CASES[:2], edges=(1.0, 0.1, 0.0)).to_dict()
    )
    longer = px.faithfulness(MODEL, CASES, edges=(1.0, 0.1, 0.0), resume=file)
    assert longer.to_dict() == px.faithfulness(MODEL, CASES, edges=(1.0, 0.1, 0.0)).to_dict()


@pytest.mark.parametrize("other", [{"how": "live"}, {"zero": "corrupted"}, {"inputs": "v"}])
def test_other_circuits_are_refused_or_kept_apart(tmp_path, other):
    file = tmp_path / "kept.jsonl"
    px.faithfulness(MODEL, CASES[:2], edges=(1.0,), resume=file)
    with pytest.raises(LoadError, match="another question"):
        px.faithfulness(MODEL, CASES[:2], edges=(1.0,), resume=file, **other)
    for circuit in ("S .* L0H2 .* U", "S .* L0H3 .* U"):
        for cut in (False, True):
            given = {"circuit": circuit, "cut": cut}
            kept = px.faithfulness(MODEL, CASES[:2], resume=file, **given).to_dict()
            assert kept == px.faithfulness(MODEL, CASES[:2], **given).to_dict()


@pytest.mark.parametrize("damage", [
    {"shape": [10**12], "data": "c-jS"}, {"shape": [2], "data": "!"}, {"shape": "x"}, [], None, {"shape": [-1], "data": ""},
])  # fmt: skip
def test_arrays_that_are_none_are_refused(tmp_path, damage):
    file = tmp_path / "kept.jsonl"
    px.faithfulness(MODEL, CASES[:2], edges=(1.0,), resume=file)
    lines = file.read_bytes().splitlines(keepends=True)
    key = lines[1].split(b" ")[1].decode()
    lines[1] = journal_module._line(key, json.dumps(damage))
    file.write_bytes(b"".join(lines))
    with pytest.raises(LoadError, match="cannot read a case"):
        px.faithfulness(MODEL, CASES[:2], edges=(1.0,), resume=file)


def test_faithfulness_on_the_command_line(tmp_path, capsys):
    cases, file = tmp_path / "cases.jsonl", tmp_path / "kept.jsonl"
    cases.write_text("\n".join(json.dumps({"prompt": text, "answer": " the"}) for text in TEXTS[:2]))
    given = ["faithfulness", "attn-2l", "--cases", str(cases), "--edges", "1,0.1,0", "--json", "--resume"]
    assert main([*given, str(file)]) == 0
    said, written = capsys.readouterr().out, file.read_bytes()
    assert main([*given, str(file)]) == 0
    assert capsys.readouterr().out == said and file.read_bytes() == written
    for wrong in ("kept.npz", str(tmp_path / "none" / "a.jsonl")):
        assert main([*given, wrong]) == 2
        assert "--resume" in capsys.readouterr().err
