"""Benchmarks do not rot: every script runs at a tiny size, without peers, and is described."""

from __future__ import annotations

import importlib
import os
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py") if path.stem != "alone")

SHOWN = {
    "adversaries": "0 false claims",
    "composition": "peak",
    "flow": "largest imbalance",
    "growth": "all flows",
    "listing": "sympy",
    "peer_rust_circuit": "9 values",
    "ranking": "proven: True",
    "totals": "largest difference",
    "tree": "children add up",
    "values": "largest difference",
    "virtual": "top 100 entries",
}
"""A part of what each prints when it came to its end."""


@pytest.fixture
def load(monkeypatch):
    """Import a script as it stands in its folder; processes it starts find the package too."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *filter(None, sys.path)]))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return importlib.import_module


def test_every_script_is_here():
    assert list(SHOWN) == SCRIPTS


@pytest.mark.parametrize("name", SCRIPTS)
def test_it_runs(name, load, capsys):
    load(name).main(["--tiny"])
    printed = capsys.readouterr().out
    assert SHOWN[name] in printed, printed


@pytest.mark.parametrize("name", SCRIPTS)
def test_it_is_described(name, load):
    said = load(name).__doc__
    assert said.startswith("Claim: ") and f"python benchmarks/{name}.py" in said and "[--tiny]" in said
    assert f"benchmarks/{name}.py" in (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")


def test_growth_finds_exponents_and_draws(load, tmp_path):
    growth = load("growth")
    square = [(size, 3e-6 * size**2) for size in (1, 2, 4, 8, 16)]
    assert growth.growth("all flows", "heads", [(1, 9.0), *square[1:]]) == "2.00", "the larger half alone"
    assert growth.growth("all flows", "heads", square[:1]) == "—"
    powers = [(size, 2e-6 * 9.0**size) for size in (1, 2, 3, 4)]
    assert growth.growth("listing all paths", "layers", powers) == "×9.0 each"
    drawing = growth.draw(
        {"heads": {"all flows": square, "counting": square}, "layers": {"counting": powers}}
    )
    tags = [element.tag.rpartition("}")[2] for element in ElementTree.fromstring(drawing).iter()]
    assert tags.count("polyline") == 3 and tags.count("circle") == 14


def test_rust_circuit_is_lined_up_by_path(load, capsys):
    peer = load("peer_rust_circuit")
    mine = {"listing": {"seconds": 1.0}, "values": {"seconds": 2.0}}
    values = {"E U": 0.5, "E L0H0 U": -1.0}
    theirs = {
        "listing": {"seconds": 10.0},
        "evaluate": {"seconds": 8.0, "values": dict(reversed(values.items()))},
    }
    peer.compare(mine, theirs, values)
    printed = capsys.readouterr().out
    assert "10 ×" in printed and "4 ×" in printed and "difference of all values 0.0e+00" in printed
    theirs["evaluate"]["values"]["E U"] = 0.6
    with pytest.raises(AssertionError):
        peer.compare(mine, theirs, values)
