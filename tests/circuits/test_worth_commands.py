"""The commands on worth: attribution and importance by order, held against the calls behind them."""

import json

import pytest

import pathexp as px
from pathexp.circuits import order_importance
from pathexp.cli import main

TEXT = "Macbeth shall sleep no more. Macbeth shall"


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
