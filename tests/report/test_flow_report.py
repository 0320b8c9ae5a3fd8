"""The flow command: what it prints and writes, and that its check can fail."""

import json

import pytest

import pathexp as px
from pathexp.cli import main
from pathexp.report.flow import report_flow


@pytest.fixture
def model_file(tmp_path):
    path = tmp_path / "tiny.npz"
    px.random_model(layers=2, heads=2, d_vocab=9, norm="layernorm", biases=True, seed=1).save(path)
    return str(path)


def test_prints_nodes_edges_and_verdict(capsys, model_file):
    assert main(["flow", model_file, "--tokens", "1,2,3", "--top", "4"]) == 0
    out = capsys.readouterr().out
    for part in ("passes through", "E → ", "kept", "other edges", "all others", "inflow equals outflow"):
        assert part in out, part


def test_json_and_files(capsys, model_file, tmp_path):
    files = {name: tmp_path / f"flow.{name}" for name in ("svg", "dot", "graphml", "graph-json")}
    asked = [part for name, path in files.items() for part in (f"--{name}", str(path))]
    code = main(
        ["flow", model_file, "--tokens", "1,2,3", "--json", "--query", "E .* U", "--per-position", *asked]
    )
    data = json.loads(capsys.readouterr().out)
    assert code == 0 and data["ok"] and data["query"] == "E .* U"
    assert data["kept"] + data["remainder"] == pytest.approx(data["value"])
    assert all(path.read_text().strip() for path in files.values())


def test_the_check_fails_when_a_flow_is_lost():
    trace = px.random_model(layers=2, heads=2, seed=1).run([1, 2, 3])
    report = report_flow(px.expand(trace), trace.logit(1), 0.9, 5)
    assert report.ok
    report.whole.edges["E", "L1H0", "stream"]["flow"] += 1e-3
    assert not report.ok and "NOT conserved" in report.text()


def test_bad_input_is_refused(capsys, model_file):
    assert main(["flow", model_file, "--tokens", "1,2", "--share", "2"]) == 2
    assert "above 0 and at most 1" in capsys.readouterr().err
