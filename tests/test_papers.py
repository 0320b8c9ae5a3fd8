"""The table of claims is what its script measures: numbers to a few per cent, verdicts to the word."""

import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.shared_models import FOLDER

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "papers.md").read_text()
CORPUS = FOLDER.parent / "data" / "tinyshakespeare.txt"
NUMBER = re.compile(r"[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e-\d+)?")


def rows(table):
    return [line.split(" | ") for line in table.splitlines() if re.match(r"\| \d+ ", line)]


def script():
    spec = importlib.util.spec_from_file_location("measure_papers", ROOT / "docs" / "measure_papers.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look up the names in annotations
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[spec.name]
    return module


def test_the_script_loads_and_writes_rows():
    assert (
        script()
        .Claim("E", "Section", "says", "0", None)
        .row(3)
        .startswith("| 3 | E, “Section” | says | 0 | in part")
    )


def test_there_are_enough_claims_of_both_papers():
    found = rows(PAGE)
    assert len(found) >= 15 and [int(row[0].strip("| ")) for row in found] == list(range(1, len(found) + 1))
    assert sum(row[1].startswith("O") for row in found) >= 4
    assert {row[4] for row in found} == {"yes", "no", "in part"}, "not all agree, and it is said"
    assert all(row[5].strip("| ") for row in found if row[4] != "yes"), "why, where they do not agree"


@pytest.mark.slow
def test_the_table_is_measured():
    if not CORPUS.is_file():
        pytest.skip("no corpus beside the repository")
    shown, measured = rows(PAGE), rows(script().table(CORPUS))
    assert [row[:3] + row[4:] for row in shown] == [row[:3] + row[4:] for row in measured]
    for before, after in zip(shown, measured, strict=True):
        words = [NUMBER.sub("#", row[3]) for row in (before, after)]
        assert words[0] == words[1]
        numbers = [[float(n.replace(",", "")) for n in NUMBER.findall(row[3])] for row in (before, after)]
        np.testing.assert_allclose(*numbers, rtol=0.02, atol=0.011)
