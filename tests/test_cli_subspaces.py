"""The commands on subspaces, memory and bases: held against the calls behind them, stopped and resumed."""

import json
import xml.etree.ElementTree as ElementTree

import pytest

import pathexp as px
from pathexp.cli import main


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


def test_overlap(capsys):
    model = px.load("attn-2l")
    data = asked(capsys, "overlap", "attn-2l", "L0H2", "L1H0.K")
    assert data["pairs"][0]["overlap"] == pytest.approx(px.overlap(model, "L0H2", "L1H0.K").overlap)
    assert len(asked(capsys, "overlap")["pairs"]) == 257
    assert main(["overlap", "attn-2l", "L0H2"]) == 2 and "give a reader" in capsys.readouterr().err
    assert main(["overlap", "attn-2l", "L9H2", "U"]) == 2


def test_interference(capsys):
    data = asked(capsys, "interference", "attn-1l", "U", "--top", 3)
    found = px.interference(px.directions_of(px.load("attn-1l"), "U"))
    assert data["rms"] == pytest.approx(found.rms) and len(data["pairs"]) == 3
    assert main(["interference", "attn-1l", "L0M"]) == 2


def test_turn_and_order_blind(capsys):
    data = asked(capsys, "turn", "attn-1l", "--top", 4)
    assert data["ok"] and data["logits_change"] < 1e-12 and len(data["writers"]) == 9
    assert not asked(capsys, "order-blind", "attn-1l", "--tokens", "1,2,3")["blind"]
    assert main(["order-blind", "attn-1l", "--tokens", "1,1"]) == 2
    assert main(["turn", "attn-1l", "--top", "0"]) == 2


def test_a_turn_that_changes_something_has_its_exit_code(capsys, monkeypatch):
    monkeypatch.setattr("pathexp.circuits.turning.TurnedBasis.ok", False)
    assert main(["turn", "attn-1l"]) == 1 and "DID NOT STAY" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "key"), [("bottlenecks", "rows"), ("memory", "heads"), ("basis", "activations")]
)
def test_averages_are_stopped_and_resumed(capsys, tmp_path, corpus, command, key):
    arguments = [command, "attn-1l", "--corpus", corpus, "--length", 16]
    kept = tmp_path / "sums.npz"
    assert asked(capsys, *arguments, "--windows", 3, "--resume", kept)["windows"] == 3
    resumed = asked(capsys, *arguments, "--windows", 9, "--resume", kept)
    whole = asked(capsys, *arguments, "--windows", 9)
    assert resumed["windows"] == whole["windows"] == 9
    for one, other in zip(resumed[key], whole[key], strict=True):
        assert numbers(one) == pytest.approx(numbers(other), rel=1e-6, abs=1e-9)
    assert main([*map(str, arguments), "--length", "8", "--resume", str(kept)]) == 2
    assert "begin anew" in capsys.readouterr().err
    assert main([command, "attn-1l", "--resume", str(kept)]) == 2
    assert main([*map(str, arguments), "--resume", "sums.txt"]) == 2


@pytest.mark.parametrize("command", ["bottlenecks", "memory", "basis"])
def test_without_a_corpus_nothing_is_measured(capsys, command):
    assert asked(capsys, command, "attn-1l")["windows"] == 0
    assert main([command, "attn-1l"]) == 0
    assert main([command, "attn-1l", "--corpus", "nowhere.txt"]) == 2


@pytest.mark.parametrize("command", ["bottlenecks", "memory", "basis"])
def test_progress_is_said_on_stderr(capsys, monkeypatch, corpus, command):
    seconds = iter(range(0, 10_000, 5))
    monkeypatch.setattr("pathexp.circuits.running.time.monotonic", lambda: next(seconds))
    assert main([command, "attn-1l", "--corpus", str(corpus), "--length", "16", "--progress"]) == 0
    captured = capsys.readouterr()
    assert "windows" in captured.err and "attn-1l" in captured.out


@pytest.mark.parametrize("command", ["bottlenecks", "memory", "basis", "virtual-heads", "orders"])
def test_time_that_is_over_stops_and_can_be_gone_on_from(capsys, monkeypatch, tmp_path, corpus, command):
    arguments = [command, "attn-2l", "--corpus", corpus, "--length", 16, "--windows", 9]
    if command == "orders":
        arguments = [command, corpus, "--length", 16, "--windows", 9, "--terms-to", -1]
    kept = tmp_path / "sums.npz"
    with monkeypatch.context() as patched:
        clock = iter(range(0, 10_000, 5))
        patched.setattr("pathexp.circuits.running.time.monotonic", lambda: next(clock))
        asked(capsys, *arguments, "--seconds", 12, "--resume", kept)
    assert px.Tally.load(kept).windows == 3
    asked(capsys, *arguments, "--resume", kept)
    assert px.Tally.load(kept).windows == 9


@pytest.mark.parametrize("wrong", ["0", "-1", "nan", "inf", "soon"])
def test_time_is_a_number_above_zero(capsys, corpus, wrong):
    with pytest.raises(SystemExit):
        main(["bottlenecks", "attn-1l", "--corpus", str(corpus), f"--seconds={wrong}"])
    assert "seconds above 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", ["overlap", "interference", "bottlenecks", "memory", "basis", "turn", "order-blind"]
)
@pytest.mark.parametrize("model", ["attn-0l", "attn-2l"])
def test_pictures_are_drawn(capsys, tmp_path, corpus, command, model):
    picture = tmp_path / "picture.svg"
    more = (
        ["--corpus", str(corpus), "--length", "16"] if command in ("bottlenecks", "memory", "basis") else []
    )
    assert main([command, model, *more, "--svg", str(picture)]) == 0, capsys.readouterr().err
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")
    assert main([command, model, *more, "--svg", str(tmp_path / "no" / "where.svg")]) == 2
    assert "cannot write the picture" in capsys.readouterr().err


def test_a_picture_of_overlaps_shows_the_induction_heads(capsys, tmp_path):
    picture = tmp_path / "picture.svg"
    assert main(["overlap", "--svg", str(picture)]) == 0
    said = [node.text for node in ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}title")]
    shown = dict(text.split(": ") for text in said if "L0H2 · " in text)
    assert {pair for pair, value in shown.items() if float(value) > 0.3} == {
        f"L0H2 · L1H{head}.K" for head in (0, 2, 3, 5, 7)
    }
    assert main(["overlap", "attn-2l", "L0H2", "L1H0.K", "--svg", str(picture)]) == 0
    assert picture.read_text().count("°: 0.") == 16


def test_without_runs_there_is_no_kurtosis_to_draw(capsys, tmp_path):
    assert main(["basis", "attn-1l", "--svg", str(tmp_path / "picture.svg")]) == 2
    assert "give a corpus" in capsys.readouterr().err


def test_nothing_is_printed_as_nan_or_in_the_wrong_number(capsys):
    assert main(["overlap", "attn-0l"]) == 0 and "nan" not in capsys.readouterr().out
    assert main(["turn", "attn-0l"]) == 0 and "1 virtual weight and" in capsys.readouterr().out
    assert main(["interference", "attn-0l", "--top", "0"]) == 0
    assert main(["skip-trigrams", "--bugs", "1", "--seconds", "1e-9"]) == 0
    printed = capsys.readouterr().out
    assert "± unknown" in printed and "nan" not in printed
