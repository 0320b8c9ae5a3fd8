"""Commands over many prompts: every command that reads a run, faithfulness, processes, and what is refused."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import pathexp as px
from pathexp.cli import main
from pathexp.cli.table import TABLE

READ_A_RUN = [
    name for name, row in TABLE.items() if row.takes in ("run", "target") and not (row.saves or row.serves)
]
LINES = [
    {"prompt": "Macbeth shall sleep no more. Macbeth shall", "answer": " sleep", "corrupted": "Macbeth doth sleep no more. Macbeth shall"},
    {"prompt": "To be, or not to be", "answer": " the", "corrupted": "To be, or not to we"},
]  # fmt: skip
MORE = {"swap": ["--head", "L1H3", "--other", "L0H2"], "rebase": ["--head", "L1H3"], "tree": ["--nodes", "4"],
        "contrast": ["--nodes", "4"], "score": ["--query", "3", "--key", "1"]}  # fmt: skip


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "cases.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in LINES))
    return str(path)


@pytest.mark.parametrize("command", READ_A_RUN)
def test_every_command_that_reads_a_run_is_averaged(capsys, file, command):
    assert main([command, "attn-2l", "--cases", file, "--json", *MORE.get(command, [])]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["kind"] == "average" and found["cases"] == 2 and found["tables"]


def test_what_is_printed_is_what_python_has(capsys, file):
    assert main(["attribution", "attn-2l", "--cases", file, "--by", "layer", "--json"]) == 0
    there = json.loads(capsys.readouterr().out)
    assert there == json.loads(px.average(px.attribution, px.load("attn-2l"), file, by="layer").to_json())


def test_contrasts_corrupted_runs_and_processes(capsys, file):
    assert (
        main(["attribution", "attn-2l", "--cases", file, "--corrupted", "--by", "port", "--workers", "2"])
        == 0
    )
    assert "values" in capsys.readouterr().out
    assert main(["intervene", "attn-2l", "--cases", file, "--cut", "E L0H2 .* U", "--zero", "corrupted"]) == 0


def test_faithfulness(capsys, file):
    assert main(["faithfulness", "attn-2l", "--cases", file, "--edges", "1,0.2,0", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["tables"]["circuits"]["rows"]
    assert [round(row["faithfulness"], 9) for row in rows][::2] == [1.0, 0.0]
    assert (
        main(
            [
                "faithfulness",
                "attn-2l",
                "--cases",
                file,
                "--circuit",
                "E L1H3 U",
                "--zero",
                "mean",
                "--how",
                "live",
            ]
        )
        == 0
    )


@pytest.mark.parametrize(
    "wrong",
    [["attribution", "attn-2l", "a text", "--cases"], ["attribution", "attn-2l", "--target", " the", "--cases"],
     ["flow", "attn-2l", "--graph", "g.dot", "--cases"], ["tree", "attn-2l", "--seconds", "1", "--cases"],
     ["attribution", "attn-0l", "--by", "path", "--cases"]],
)  # fmt: skip
def test_options_of_one_run_are_refused(capsys, file, tmp_path, monkeypatch, wrong):
    monkeypatch.chdir(tmp_path)
    given = [*wrong, file if wrong[1] != "attn-0l" else "none.jsonl"]
    assert main(given) == 2
    assert capsys.readouterr().err


def test_options_of_many_prompts_need_cases(capsys):
    for option in (["--corrupted"], ["--workers", "2"]):
        assert main(["attribution", "attn-2l", *option]) == 2 and "--cases" in capsys.readouterr().err


# Nothing lost ----------------------------------------------------------------------------------------------


def test_where_output_goes_is_checked_before_the_work(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("pathexp.cli.runner.model_of", lambda options: pytest.fail("this is work"))
    (tmp_path / "there.svg").mkdir()
    (tmp_path / "text").write_text("To be")
    nowhere = [str(tmp_path / "none" / "a.svg"), str(tmp_path / "there.svg"), str(tmp_path / "a.bmp")]
    for file in nowhere:
        assert main(["lens", "attn-2l", "--save", file]) == 2
    os.mkfifo(tmp_path / "pipe.npz")
    arguments = ["order-importance", "attn-2l", "--corpus", str(tmp_path / "text"), "--resume"]
    for file in ("none/a.npz", "pipe.npz", "there.svg/../none/b.npz"):
        assert main([*arguments, str(tmp_path / file)]) == 2
    if os.geteuid():
        (tmp_path / "closed").mkdir(mode=0o500)
        assert main([*arguments, str(tmp_path / "closed" / "a.npz")]) == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_count_that_is_ended_from_outside_prints_saves_and_says_so(tmp_path, number):
    corpus, state = tmp_path / "corpus.txt", tmp_path / "state.npz"
    corpus.write_text("Macbeth shall sleep no more. The king shall sleep, and all the world. " * 2_000)
    arguments = ["order-importance", "attn-2l", "--corpus", str(corpus), "--length", "16", "--windows", "100000",
                 "--resume", str(state), "--json", "--max-order", "-1"]  # fmt: skip
    ready = "import sys, pathexp.circuits.corpus.accumulate as a\nold = a._Report.is_over\n" \
            "a._Report.is_over = lambda self, found: (found.windows == 3 and print('three', file=sys.stderr, flush=True)) or old(self, found)\n" \
            "from pathexp.cli import main\nsys.exit(main(sys.argv[1:]))"  # fmt: skip
    work = subprocess.Popen(
        [sys.executable, "-c", ready, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert work.stderr.readline().strip() == "three"
    time.sleep(0.2)
    work.send_signal(number)
    out, err = work.communicate(timeout=120)
    assert (work.returncode, "Traceback" in err) == (3, False), err
    assert json.loads(out)["windows"] == px.Tally.load(state).windows >= 3


def test_sums_are_saved_now_and_then(tmp_path):
    corpus = px.Corpus([[1, 2, 3, 4] * 10], length=4)
    limits = px.Limits(keep=tmp_path / "sums.npz", every=0.0)
    found = px.order_importance(px.load("attn-1l"), corpus, max_order=-1, limits=limits)
    assert px.Tally.load(tmp_path / "sums.npz").windows == found.tally.windows == 10
