"""Commands that average over a corpus: stopped, resumed, measured on nothing, with progress."""

import json

import pytest

import pathexp as px
from pathexp.cli import main

MEASURED = ["bottlenecks", "memory-management", "privileged-basis"]
TABLES = {"bottlenecks": "depths", "memory-management": "heads", "privileged-basis": "activations"}


def asked(capsys, *arguments):
    assert main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def numbers(row):
    return {name: value for name, value in row.items() if isinstance(value, float)}


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("Macbeth shall sleep no more. The king shall sleep, and all the world. " * 30)
    return path


@pytest.mark.parametrize("command", MEASURED)
def test_averages_are_stopped_and_resumed(capsys, tmp_path, corpus, command):
    arguments = [command, "attn-1l", "--corpus", corpus, "--length", 16]
    kept = tmp_path / "sums.npz"
    assert asked(capsys, *arguments, "--windows", 3, "--resume", kept)["windows"] == 3
    resumed = asked(capsys, *arguments, "--windows", 9, "--resume", kept)
    whole = asked(capsys, *arguments, "--windows", 9)
    assert resumed["windows"] == whole["windows"] == 9
    rows = (data["tables"][TABLES[command]]["rows"] for data in (resumed, whole))
    for one, other in zip(*rows, strict=True):
        assert numbers(one) == pytest.approx(numbers(other), rel=1e-6, abs=1e-9)
    assert main([*map(str, arguments), "--length", "8", "--resume", str(kept)]) == 2
    assert "begin anew" in capsys.readouterr().err
    assert main([command, "attn-1l", "--resume", str(kept)]) == 2
    assert main([*map(str, arguments), "--resume", "sums.txt"]) == 2


@pytest.mark.parametrize("command", MEASURED)
def test_without_a_corpus_nothing_is_measured(capsys, command):
    assert asked(capsys, command, "attn-1l")["windows"] == 0
    assert main([command, "attn-1l"]) == 0
    assert main([command, "attn-1l", "--corpus", "nowhere.txt"]) == 2


@pytest.mark.parametrize("command", MEASURED)
def test_progress_is_reported_on_a_terminal_unless_quiet(capsys, monkeypatch, corpus, command):
    seconds = iter(range(0, 100_000, 5))
    monkeypatch.setattr("pathexp.circuits.corpus.accumulate.time.monotonic", lambda: next(seconds))
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    arguments = [command, "attn-1l", "--corpus", str(corpus), "--length", "16"]
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert "windows" in captured.err and "attn-1l" in captured.out
    assert main([*arguments, "--quiet"]) == 0 and not capsys.readouterr().err


@pytest.mark.parametrize("command", [*MEASURED, "virtual-heads", "order-importance"])
def test_time_that_is_over_stops_and_can_be_gone_on_from(capsys, monkeypatch, tmp_path, corpus, command):
    arguments = [command, "attn-2l", "--corpus", corpus, "--length", 16, "--windows", 9]
    if command == "order-importance":
        arguments += ["--max-order", -1]
    kept = tmp_path / "sums.npz"
    with monkeypatch.context() as patched:
        clock = iter(range(0, 10_000, 5))
        patched.setattr("pathexp.circuits.corpus.accumulate.time.monotonic", lambda: next(clock))
        asked(capsys, *arguments, "--seconds", 12, "--resume", kept)
    assert px.Tally.load(kept).windows == 3
    asked(capsys, *arguments, "--resume", kept)
    assert px.Tally.load(kept).windows == 9


@pytest.mark.parametrize("wrong", ["0", "-1", "nan", "inf", "soon"])
def test_time_is_a_number_above_zero(capsys, corpus, wrong):
    with pytest.raises(SystemExit):
        main(["bottlenecks", "attn-1l", "--corpus", str(corpus), f"--seconds={wrong}"])
    assert "seconds > 0" in capsys.readouterr().err


def test_nothing_is_printed_as_nan(capsys):
    assert main(["skip-trigrams", "--bugs", "1", "--seconds", "1e-9"]) == 0
    printed = capsys.readouterr().out
    assert "–" in printed and "nan" not in printed
