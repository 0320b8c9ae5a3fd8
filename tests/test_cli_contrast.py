"""Contrasts on the command line: what is said beside the shares, and --contrast of the commands that take one."""

import json
from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.cli import main
from pathexp.cli.table import TABLE
from pathexp.graph import MEASURES

TEXT, OTHER = "Macbeth shall sleep no more. Macbeth shall", "Macbeth doth sleep no more. Macbeth shall"
OF_CONTRASTS = [name for name, row in TABLE.items() if row.contrasts]


@pytest.fixture(scope="module")
def graph():
    model = px.load("attn-2l")
    return px.contrast(model.run(TEXT), model.run(OTHER))


def answered(capsys, *words):
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refused(capsys, *words):
    assert main(list(words)) == 2
    return capsys.readouterr().err


def test_the_commands_that_take_a_contrast():
    assert OF_CONTRASTS == ["tree", "attribution", "intervene", "flow"]


@pytest.mark.parametrize(
    ("command", "options", "asked"),
    [
        ("tree", ["--nodes", "7"], lambda graph, target: px.tree(graph, target, nodes=7)),
        (
            "attribution",
            ["--by", "component", "--beside", "gradient,path-patching"],
            lambda graph, target: px.attribution(
                graph, target, by="component", beside=("gradient", "path patching")
            ),
        ),
        (
            "intervene",
            ["--edge", "L0H2.V L1.K"],
            lambda graph, target: px.intervene(graph, target, edge=("L0H2.V", "L1.K")),
        ),
        (
            "flow",
            ["--query", "S .* K .* U"],
            lambda graph, target: px.flow(graph, target, query="S .* K .* U"),
        ),
    ],
)
def test_contrast_of_a_command_is_that_of_python(capsys, graph, command, options, asked):
    found = answered(capsys, command, "attn-2l", TEXT, "--contrast", OTHER, *options)
    assert found == json.loads(asked(graph, graph.runs[0].logit(" sleep")).to_json())


def test_contrast_of_token_ids(capsys, graph):
    here, there = (",".join(str(int(token)) for token in run.tokens) for run in graph.runs)
    words = ["attribution", "attn-2l", "--by", "port"]
    assert answered(capsys, *words, "--tokens", here, "--contrast", there) == answered(
        capsys, *words, TEXT, "--contrast", OTHER
    )
    assert "--contrast: expected integers" in refused(capsys, *words, "--tokens", here, "--contrast", OTHER)


def test_both_runs_are_shown(capsys):
    assert main(["attribution", "attn-2l", TEXT, "--contrast", OTHER]) == 0
    out = capsys.readouterr().out
    assert (
        '"' + " doth" + '"' in out and "against\n  text" in out and "(logit 9.2862, probability 0.476)" in out
    )


def test_wrong_contrasts_are_refused(capsys, tmp_path):
    assert "found 16 and 3 tokens" in refused(capsys, "attribution", "attn-2l", TEXT, "--contrast", "short")
    said = refused(capsys, "intervene", "attn-2l", TEXT, "--contrast", OTHER, "--patch-from", OTHER)
    assert "patched from one of its runs into the other" in said
    assert "expected px.contrast(run, other)" in refused(capsys, "attribution", "attn-2l", "--by", "port")
    cases = tmp_path / "cases.jsonl"
    cases.write_text(json.dumps({"prompt": TEXT, "answer": " sleep", "corrupted": OTHER}))
    said = refused(capsys, "attribution", "attn-2l", "--cases", str(cases), "--contrast", OTHER)
    assert "leave out contrast" in said


def test_beside_stands_beside_the_largest_heads(capsys, graph):
    found = answered(capsys, "contrast", "attn-2l", TEXT, OTHER, "--nodes", "1", "--top", "3",
                     "--beside", "gradient,live")  # fmt: skip
    rows = found["tables"]["by_head"]["rows"]
    target = graph.runs[0].logit(" sleep")
    expected = px.attribution(graph, target, by="head", beside=("gradient", "live"), k=3)
    measured = [row for row in rows if row["live"] is not None]
    assert [row["name"] for row in measured] == [name for name, _ in expected.ranked()[:3]]
    for row in measured:
        place = expected.names.index(row["name"])
        assert row["live"] == pytest.approx(expected.beside["live"][place], abs=1e-12)
    assert found["target_value"] == pytest.approx(graph.difference(target).value, abs=1e-12)


def test_shares_by_port_head_and_source_are_all_in_the_data(capsys, tmp_path, graph):
    file = tmp_path / "other.npz"
    model = graph.runs[0].model
    W_O = model.weights.W_O.copy()
    W_O[0, 2] = 0
    replace(model, weights=replace(model.weights, W_O=W_O)).save(file)
    found = answered(capsys, "contrast", "attn-2l", TEXT, "--against", str(file), "--nodes", "1")
    for unit in ("port", "head", "source"):
        rows = found["tables"][f"by_{unit}"]["rows"]
        assert sum(row["adds"] for row in rows) == pytest.approx(found["target_value"], abs=1e-9)
    assert "takes two runs of one model" in refused(
        capsys, "contrast", "attn-2l", TEXT, "--against", str(file), "--beside", "live"
    )


def test_the_mean_over_cases_is_that_of_the_difference(capsys, tmp_path, graph):
    cases, model = tmp_path / "cases.jsonl", graph.runs[0].model
    others = [OTHER, "Macbeth must sleep no more. Macbeth shall"]
    lines = [json.dumps({"prompt": TEXT, "answer": " sleep", "corrupted": other}) for other in others]
    cases.write_text("\n".join(lines))
    runs = [model.run(TEXT), *map(model.run, others)]
    here, *there = (run.logits[-1, model.token_id(" sleep")] for run in runs)
    for words in (["contrast"], ["flow", "--corrupted"], ["attribution", "--corrupted", "--by", "port"]):
        found = answered(capsys, words[0], "attn-2l", "--cases", str(cases), *words[1:])
        assert found["value"] == pytest.approx(here - sum(there) / 2, abs=1e-9), words
    assert {"by_port", "by_head"} <= set(
        answered(capsys, "contrast", "attn-2l", "--cases", str(cases))["tables"]
    )


def test_a_tree_and_a_flow_of_a_contrast_say_that_they_are_of_a_difference(graph):
    target = graph.runs[0].logit(" sleep")
    for found, said in (
        (px.tree(graph, target, nodes=1), "logit of ' sleep' at position 15 differs by +6.1177"),
        (px.flow(graph, target), "logit of ' sleep', difference at position 15: +6.1177"),
    ):
        assert said in found.headline()
        assert found.to_dict()["target_value"] == pytest.approx(graph.difference(target).value, abs=1e-9)
    ranking = px.expand(graph).top(3, target)
    found = ranking.to_dict()
    assert found["target"] == "logit of ' sleep', difference"
    assert found["value"] + found["remainder"] == pytest.approx(found["target_value"], abs=1e-9)
    assert "difference" not in px.flow(graph.runs[0], target).headline()


def test_beside_is_refused_where_it_cannot_be_measured(capsys):
    assert "unknown method 'grad'" in refused(capsys, "contrast", "attn-2l", "--beside", "grad")


def test_words_after_options_are_texts_too(capsys):
    mixed = answered(capsys, "contrast", "attn-2l", "--nodes", "1", TEXT, "--top", "3", OTHER)
    assert mixed == answered(capsys, "contrast", "attn-2l", TEXT, OTHER, "--nodes", "1", "--top", "3")
    with pytest.raises(SystemExit) as stop:
        main(["contrast", "attn-2l", TEXT, OTHER, "--nodes", "1", "one more"])
    assert stop.value.code == 2 and "unrecognized arguments: one more" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["contrast", "attn-2l", "--nodes", "1", TEXT, "--nods", "1"])
    assert "unrecognized arguments" in capsys.readouterr().err


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("command", ["contrast", "attribution", "tree", "flow"])
def test_a_prediction_is_compared_as_what_is_asked(capsys, command, measure):
    others = [OTHER] if command == "contrast" else ["--contrast", OTHER]
    assert main([command, "attn-2l", TEXT, *others, "--measure", measure, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    here, there = (px.load("attn-2l").run(text) for text in (TEXT, OTHER))
    token = px.load("attn-2l").encode(" sleep")[0]
    logs = [run.log_probs[-1, token] for run in (here, there)]
    wanted = {
        "logit": here.logits[-1, token] - there.logits[-1, token],
        "log-probability": logs[0] - logs[1],
        "probability": np.exp(logs[0]) - np.exp(logs[1]),
    }
    said = json.dumps(data)
    found = [data[name] for name in ("target_value", "value") if data.get(name) is not None]
    assert found and abs(found[0] - wanted[measure]) < 1e-10
    assert f"{measure} of ' sleep'" in said and all(check["ok"] for check in data["checks"])


@pytest.mark.parametrize("given", [
    ["tree", "attn-2l", TEXT, "--measure", "probability"],
    ["attribution", "attn-2l", TEXT, "--contrast", OTHER, "--measure", "probability", "--versus", " the"],
    ["contrast", "attn-2l", TEXT, OTHER, "--measure", "log-probability", "--versus", " the"],
])  # fmt: skip
def test_what_is_no_probability_of_one_token_is_refused(capsys, given):
    assert main(given) == 2
    assert "measure" in capsys.readouterr().err


def test_measures_of_other_targets_are_refused():
    here, there = (px.load("attn-2l").run(text) for text in (TEXT, OTHER))
    graph = px.contrast(here, there)
    for target in (2.0 * here.logit(" sleep").direction, np.zeros(1024)):
        with pytest.raises(px.PathexpError, match="the logit of one token"):
            graph.measured(here.direction(target), "probability")
    with pytest.raises(px.PathexpError, match="measure"):
        graph.measured(here.logit(" sleep"), "loss")
