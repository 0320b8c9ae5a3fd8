"""The table of families in docs/architectures.md: every row is a family that loads, and every number is small."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from pathexp.model.load.huggingface import FAMILIES

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "architectures.md").read_text(encoding="utf-8")
TABLE = PAGE.split("<!-- measured -->")[1].split("<!-- /measured -->")[0]
ROWS = {line.split("|")[1].strip(" `"): line.split("|")[2:-1] for line in TABLE.splitlines()[3:] if line}
EXACT = {"bloom": 1e-9}
"""What is asked of families whose own code rounds a constant; 1e-12 of the others."""


def test_rows_are_families_that_load():
    assert len(ROWS) >= 36
    assert set(ROWS) <= {*FAMILIES, "heads over classes"}


@pytest.mark.parametrize("family", ROWS)
def test_what_was_measured_is_rounding(family):
    frozen, models, *numbers, test = (cell.strip() for cell in ROWS[family])
    assert frozen and int(models) >= 1 and (ROOT / "tests" / "interop" / f"{test.strip('`')}.py").is_file()
    found = [float(number) for number in numbers if number != "–"]
    assert len(found) >= 2 and all(number <= EXACT.get(family, 1e-12) for number in found)


def test_rows_that_were_not_measured_stay():
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    spec = importlib.util.spec_from_file_location("measure_families", ROOT / "docs" / "measure_families.py")
    script = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = script  # where dataclasses look up the names in annotations
    try:
        spec.loader.exec_module(script)
        again = script.written(PAGE, {"gpt2": "| `gpt2` | all | 1 | 1e-15 | – | 1e-15 | `test_families` |"})
    finally:
        del sys.modules[spec.name]
    assert set(script.on_page(again)) == set(script.on_page(PAGE)) == set(ROWS)
    assert re.search(r"^\| `gpt2` \| all \| 1", again, re.MULTILINE)
