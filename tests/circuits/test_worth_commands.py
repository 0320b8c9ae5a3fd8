"""The commands on worth: attribution and importance by order, held against the calls behind them."""

import json

import pytest

import pathexp as px
from pathexp.circuits import attribute, order_importance
from pathexp.cli import main

TEXT = "Macbeth shall sleep no more. Macbeth shall"


@pytest.mark.parametrize("unit", ["component", "head", "layer", "path", "token"])
def test_attribute(capsys, unit):
    assert main(["attribute", "attn-2l", TEXT, "--by", unit, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    trace = px.load("attn-2l").run(TEXT)
    found = attribute(trace, trace.logit(" sleep"), unit, k=12)
    assert data["ok"] and sum(row["value"] for row in data["rows"]) == pytest.approx(data["target"]["value"])
    assert {row["label"]: row["value"] for row in data["rows"]} == pytest.approx(dict(found.ranked()))
    assert main(["attribute", "attn-2l", TEXT, "--by", unit, "--top", "2"]) == 0
    printed = capsys.readouterr().out
    listed = len(found.labels) if unit != "path" else 3  # by path the two largest and the remainder
    assert "adds up to" in printed and f"{listed - 2} other rows" in printed


def test_orders(capsys, tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text(f"{TEXT} sleep. " * 20)
    arguments = ["orders", str(corpus), "--length", "16", "--windows", "3"]
    assert main([*arguments, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    found = order_importance(px.load("attn-2l"), [corpus.read_text()], length=16, limit=3, terms_to=1)
    assert data["windows"] == 3 and data["tokens"] == found.tally.tokens and data["counts"] == [1, 16, 64]
    assert data["loss_up_to"] == pytest.approx(found.up_to.tolist())
    assert len(data["terms"]) == 17
    assert main(arguments) == 0 and "patterns frozen" in capsys.readouterr().out
    assert main(["orders", str(tmp_path / "nowhere.txt")]) == 2
    assert "nowhere.txt" in capsys.readouterr().err


def test_a_column_that_does_not_add_up_has_its_exit_code(capsys, monkeypatch):
    monkeypatch.setattr("pathexp.circuits.attribution.Attribution.ok", False)
    assert main(["attribute", "attn-1l", "the king"]) == 1
    assert "DOES NOT ADD" in capsys.readouterr().out
