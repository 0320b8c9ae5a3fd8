"""The command line: what it prints, in which form, with which exit code, and never a traceback."""

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pathexp as px
from pathexp.answer import text
from pathexp.cli import as_options, main
from pathexp.cli.command import GROUPS
from pathexp.cli.table import TABLE
from pathexp.expansion.tree.limits import NODES


@pytest.fixture
def model_file(tmp_path):
    path = tmp_path / "tiny.npz"
    px.random_model(layers=2, heads=2, d_vocab=9, norm="layernorm", biases=True, seed=1).save(path)
    return str(path)


def run(capsys, *arguments):
    code = main(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


def test_no_arguments_help(capsys):
    code, out, _ = run(capsys)
    assert code == 0 and "expand" in out and "derive" in out and "models" in out


def test_help_lists_every_command_in_its_group_with_an_example(capsys):
    _, out, _ = run(capsys)
    assert [line for line in out.splitlines() if line.removesuffix(":") in GROUPS] == [
        f"{g}:" for g in GROUPS
    ]
    for name, row in TABLE.items():
        assert f"  {name} " in out and row.example.startswith(f"pathexp {name}")


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0 and capsys.readouterr().out == f"pathexp {px.__version__}\n"


def test_what_is_being_done_is_said_on_a_terminal_before_it_is_done(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    _, _, err = run(capsys, "attribution", "attn-1l", "the king")
    assert err.splitlines() == ["loading attn-1l …", "attribution: at work …"]


def test_expand_prints_the_whole_story(capsys):
    code, out, err = run(capsys, "expand")
    assert code == 0 and err == ""
    for part in ("attn-2l: 2 layers × 8 heads", "predicts", "frozen", "attention patterns", "81 paths",
                 "1 of order 0, 16 of order 1, 64 of order 2", "formula", "W_U", "other paths",
                 "paths add up to the forward pass"):  # fmt: skip
        assert part in out, part


def test_expand_as_json(capsys):
    code, out, _ = run(capsys, "expand", "attn-1l", "the king", "--json", "--top", "3")
    data = json.loads(out)
    assert (
        code == 0
        and data["count"] == 9
        and [row["paths"] for row in data["tables"]["orders"]["rows"]] == [1, 8]
    )
    assert len(data["tables"]["paths"]["rows"]) == 3 and data["checks"][0]["ok"]
    assert data["value"] + data["remainder"] == pytest.approx(data["target_value"], abs=1e-9)
    orders = data["tables"]["orders"]["rows"]
    assert sum(row["adds"] for row in orders) == pytest.approx(data["target_value"], abs=1e-9)
    assert any(note.startswith("frozen: attention patterns") for note in data["notes"])


def test_expand_a_file_on_tokens_inside_a_query(capsys, model_file):
    code, out, _ = run(capsys, "expand", model_file, "--tokens", "1,2,3", "--query", "E .* L1H1 U",
                       "--target", "#4", "--versus", "#5", "--position", "1", "--json", "--top", "99")  # fmt: skip
    data = json.loads(out)
    assert code == 0 and data["count"] == 3 == len(data["tables"]["paths"]["rows"]) and data["position"] == 1
    trace = px.load(model_file).run([1, 2, 3])
    target = trace.logit_difference(4, 5, position=1)
    expected = px.expand(trace).where("E .* L1H1 U").value(target)
    assert data["value"] + data["remainder"] == pytest.approx(expected, abs=1e-12)


def test_a_tree_is_split_by_source_position(capsys, model_file):
    code, out, _ = run(capsys, "tree", model_file, "--tokens", "1,2,3", "--positions", "--json")
    data = json.loads(out)
    assert (
        code == 0 and "positions" in data["matrices"] and data["value"] == pytest.approx(data["target_value"])
    )


@pytest.mark.parametrize("name", ["tree", "expand", "contrast"])
def test_help_names_the_number_of_nodes_that_are_opened(name):
    (option,) = (each for each in TABLE[name].options if each.name == "nodes")
    default = inspect.signature(TABLE[name].ask).parameters["nodes"].default or NODES
    assert f"({default}" in option.help


def test_derive(capsys):
    code, out, _ = run(capsys, "derive", "--layers", "2", "--heads", "2")
    assert code == 0 and "9 paths: 1 of order 0, 4 of order 1, 4 of order 2" in out
    assert "A_L1H0 A_L0H1 ⊗ W_U W_OV_L1H0 W_OV_L0H1 W_E" in out
    code, out, _ = run(capsys, "derive", "--layers", "1", "--heads", "2", "--latex")
    assert code == 0 and out.count(r"\otimes") == 3 and r"\begin{aligned}" in out


def test_derive_says_what_it_leaves_out(capsys):
    code, out, _ = run(capsys, "derive", "--layers", "12", "--heads", "12", "--max-terms", "5")
    assert code == 3 and "23,298,085,122,476 more of 23,298,085,122,481" in out
    code, out, _ = run(capsys, "derive", "--layers", "3", "--heads", "2", "--max-terms", "5", "--json")
    data = json.loads(out)
    assert code == 3 and not data["complete"] and data["listed"] == 5 and data["count"] == 27


def test_models(capsys):
    code, out, _ = run(capsys, "models")
    assert code == 0 and all(name in out for name in ("attn-0l", "attn-1l", "attn-2l"))
    code, out, _ = run(capsys, "models", "--json")
    assert [card["name"] for card in json.loads(out)["tables"]["models"]["rows"]] == [
        "attn-0l",
        "attn-1l",
        "attn-2l",
    ]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["expand", "attn-9l"], "attn-9l"),
        (["expand", "/dev/null"], "files without an ending"),
        (["expand", "attn-2l", "snowman ☃"], "☃"),
        (["expand", "attn-2l", ""], "0 tokens"),
        (["expand", "attn-2l", "the " * 400], "128"),
        (["expand", "attn-2l", "the", "--tokens", "1"], "not both"),
        (["expand", "attn-2l", "--tokens", "one"], "expected integers"),
        (["expand", "attn-2l", "--tokens", "99999"], "99999"),
        (["expand", "attn-2l", "the", "--query", "E (L0H0 U"], "never closed"),
        (["expand", "attn-2l", "the", "--query", "E L9H0 U"], "L9H0"),
        (["expand", "attn-2l", "the", "--target", "no such token at all"], "no such token"),
        (["expand", "attn-2l", "the", "--position", "7"], "position 7"),
        (["derive", "--layers", "2", "--query", "E L5H0 U"], "L5H0"),
    ],
)
def test_bad_input_is_refused_without_a_traceback(capsys, arguments, text):
    code, out, err = run(capsys, *arguments)
    assert code == 2 and "Traceback" not in err + out
    assert text in err


@pytest.mark.parametrize("command", ["bigrams", "order-importance"])
def test_what_is_missing_is_shown_with_an_example(capsys, command):
    with pytest.raises(SystemExit) as left:
        main([command])
    said = capsys.readouterr().err
    assert left.value.code == 2 and "--corpus" in said and f"Example: pathexp {command}" in said


@pytest.mark.parametrize(("option", "value"), [("--layers", "-1"), ("--heads", "0"), ("--max-terms", "x")])
def test_numbers_that_are_none_are_refused_by_the_option(capsys, option, value):
    with pytest.raises(SystemExit) as stop:
        main(["derive", option, value])
    assert stop.value.code == 2
    assert f"argument {option}: expected an integer ≥" in capsys.readouterr().err


def test_a_corrupt_file(capsys, tmp_path):
    path = tmp_path / "bad.npz"
    path.write_bytes(b"not a zip")
    code, _, err = run(capsys, "expand", str(path), "--tokens", "1")
    assert code == 2 and "bad.npz" in err and "Traceback" not in err


def test_a_failed_verdict_has_its_own_exit_code(capsys, monkeypatch, model_file):
    from pathexp.expansion import expansion

    honest = expansion.verify_walk
    monkeypatch.setattr(expansion, "verify_walk", lambda walk, reference: honest(walk, reference + 1e-3))
    code, out, _ = run(capsys, "expand", model_file, "--tokens", "1,2")
    assert code == 1 and "does not hold: paths add up" in out


def test_as_a_process():
    done = subprocess.run(
        [sys.executable, "-m", "pathexp", "derive", "--layers", "1", "--heads", "1"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "2 paths" in done.stdout
    done = subprocess.run([sys.executable, "-m", "pathexp", "nonsense"], capture_output=True, text=True)
    assert done.returncode == 2 and "Traceback" not in done.stderr


def test_import_is_light():
    code = "import pathexp, sys; print('sympy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False", "sympy loads on first use only"


def test_tokens_cannot_move_the_cursor(capsys):
    from pathexp.answer import visible

    for token in ("\x1b[31m", "\u202e", "\n", "\t", "\x07", "\u200b"):
        assert visible(token).isprintable() and visible(token) != f'"{token}"'
    assert np.all([visible(t) == f'"{t}"' for t in (" the", "λ→", "<b>", "$x_1$")])


@pytest.mark.parametrize(
    ("limit", "said"),
    [((), "proven: no other path adds more than"), (("--seconds", "0.000001"), "not proven: ")],
)
def test_what_is_proven_of_paths_that_nobody_lists_is_said(tmp_path, capsys, limit, said):
    model = px.random_model(layers=8, heads=6, d_model=16, d_head=3, d_vocab=9, n_ctx=8, seed=3)
    model.save(tmp_path / "deep.npz")
    asked = [
        "expand",
        str(tmp_path / "deep.npz"),
        "--tokens",
        "1 2 3",
        "--top",
        "3",
        "--prove",
        "--nodes",
        "2",
    ]
    assert main([*asked, *limit]) == (3 if limit else 0)
    assert f"\n{said}" in capsys.readouterr().out
    assert main([*asked, *limit, "--json"]) == (3 if limit else 0)
    told = json.loads(capsys.readouterr().out)
    assert told["exact"] == (not limit)
    assert 0 < told["examined"] < told["count"]


@pytest.mark.parametrize(("command", "model"), [("expand", "attn-2l"), ("skip-trigrams", "attn-1l")])
def test_help_names_the_default_model(capsys, command, model):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert f"(default: {model})" in " ".join(capsys.readouterr().out.split())


def test_both_models_of_a_contrast_are_loaded_by_the_same_options(monkeypatch, capsys):
    asked = []

    def recorded(name, **options):
        asked.append((name, options))
        return px.load(name)

    monkeypatch.setattr("pathexp.cli.inputs.load", recorded)
    words = [
        "contrast",
        "attn-1l",
        "To be",
        "--against",
        "attn-1l",
        "--tie",
        "--ignore",
        "x",
        "--top",
        "1",
        "--json",
    ]
    assert main(words) == 0
    assert asked == [("attn-1l", {"tie": True, "ignore": ["x"]})] * 2
    capsys.readouterr()


# Outputs and interrupts --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if row.top])
def test_top_is_named_by_its_option(name, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([name, "--top", "0"])
    assert stopped.value.code == 2
    assert "--top: expected an integer ≥ 1, got '0'" in capsys.readouterr().err


def test_what_is_said_of_a_keyword_is_said_of_its_option(capsys):
    """Every keyword that the command line calls otherwise, and words with underscores."""
    for row in TABLE.values():
        for option in row.options:
            keyword = option.keyword or option.name
            said = as_options(f"{row.name.replace('-', '_')}(), {keyword}: expected something, got 3", row)
            spelled = {o.spelled for o in row.options if (o.keyword or o.name) == keyword}
            assert said.removesuffix(": expected something, got 3") in spelled
    assert as_options("heads(), unknown: no", TABLE["heads"]) == "heads(), unknown: no"
    assert as_options("no point 'x'", TABLE["heads"]) == "no point 'x'"


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if not row.drawn])
def test_a_picture_that_there_is_not_is_refused_before_the_work(name, capsys, tmp_path):
    """Nothing is loaded: the model does not exist."""
    given = [] if TABLE[name].takes == "nothing" else [str(tmp_path / "none.npz")]
    needed = [word for option in TABLE[name].options if option.required for word in (option.spelled, "L0H0")]
    assert main([name, *given, *needed, "--save", "x.svg"]) == 2
    assert f"--save: the answer of {name} has no picture" in capsys.readouterr().err


def test_commands_without_a_picture_have_none():
    trace = px.load("attn-1l").run("the king")
    for answer in (px.swap(trace, "L0H0", "L0H1"), px.rebase(trace, "L0H0"), px.derive(layers=1, heads=1)):
        assert not answer.figures()
    assert px.expand(trace).top(3, trace.logit(1)).figures()


def test_an_interrupt_while_python_imports_is_one_line(tmp_path):
    """Ctrl-C that comes as the first package is imported, in the command alone."""
    (tmp_path / "numpy").mkdir()
    (tmp_path / "numpy" / "__init__.py").write_text("raise KeyboardInterrupt")
    root = Path(__file__).resolve().parents[1]
    path = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(root)])}
    command = subprocess.run(
        [sys.executable, "-m", "pathexp", "expand"], env=path, capture_output=True, text=True
    )
    assert command.stderr.strip() == "interrupted before there was an answer" and command.returncode
    library = subprocess.run(
        [sys.executable, "-c", "import pathexp"], env=path, capture_output=True, text=True
    )
    assert "Traceback" in library.stderr


@pytest.mark.parametrize("columns", [40, 60])
def test_narrow_terminals_keep_the_sink_of_a_path(columns):
    trace = px.random_model(layers=8, heads=2, d_vocab=9, seed=1).run([1, 2, 3])
    ranking = px.expand(trace).where("E L0 L1 L2 L3 L4 L5 L6 .* U").top(5, trace.logit(1))
    shown = text.render(ranking.document, width=columns)
    assert shown.count(" U ") >= 5 and "…" in shown


def test_the_budget_of_bytes_is_an_option(capsys, model_file):
    before = px.memory_budget().limit
    try:
        code, out, _ = run(capsys, "expand", model_file, "--tokens", "1,2", "--memory", "3MB", "--json")
        assert code == 0 and px.memory_budget().limit == 3_000_000
        px.memory_budget(before)
        assert run(capsys, "expand", model_file, "--tokens", "1,2", "--json")[1] == out
        assert px.memory_budget().limit == before
    finally:
        px.memory_budget(before)


def test_a_budget_that_is_no_size_is_refused_by_the_option(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["heads", "--memory", "much"])
    assert stop.value.code == 2
    assert "argument --memory: expected a number of bytes such as" in capsys.readouterr().err


def test_warnings_are_lines_as_errors_are():
    """By kind and message, without a path of this package; nothing in them acts on a terminal."""
    asked = [
        sys.executable,
        "-m",
        "pathexp",
        "lens",
        "attn-1l",
        "na\u00efve \x1b[31mcaf\u00e9",
        "--unknown",
        "skip",
    ]
    done = subprocess.run(
        asked, capture_output=True, text=True, env={**os.environ, "PYTHONIOENCODING": "utf-8"}
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("LoadWarning: ") and done.stderr.count("\n") == 1
    assert "left out" in done.stderr and ".py" not in done.stderr and "\x1b" not in done.stderr
