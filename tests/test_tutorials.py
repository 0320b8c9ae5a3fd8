"""The tutorials run from their beginning, and show what they are kept with."""

import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
TUTORIALS = sorted((ROOT / "docs/tutorials").glob("*.ipynb"))
NUMBER = re.compile(r"[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]\d+)?")
ROUNDING = re.compile(r"error \S+ ≤ tolerance \S+|worst at .*|<style.*?</style>|[-+]?\d\.\d+e-\d+")


def cells(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def words(output):
    """What an output shows, as text: printed, or the plain form of a value, or its HTML."""
    data = output.get("data", {})
    return "".join(output.get("text", "")) + "".join(
        "".join(data.get(kind, "")) for kind in ("text/plain", "text/html")
    )


@pytest.mark.parametrize("file", TUTORIALS, ids=lambda file: file.stem)
def test_kept_outputs_are_whole_and_tell_nothing_of_who_ran_them(file):
    text = file.read_text(encoding="utf-8")
    shown = cells(json.loads(text))
    assert [cell["execution_count"] for cell in shown] == list(range(1, len(shown) + 1))
    assert not any(output["output_type"] == "error" for cell in shown for output in cell["outputs"])
    assert sum(bool(cell["outputs"]) for cell in shown) >= 4
    assert not re.search(r"/(tmp|home|work|root)/|\\u001b", text)


@pytest.mark.interop
@pytest.mark.parametrize("file", TUTORIALS, ids=lambda file: file.stem)
def test_run_again_they_show_the_same(file):
    spec = importlib.util.spec_from_file_location("run_tutorials", ROOT / "docs/run_tutorials.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    again, kept = module.settled(module.executed(file)), json.loads(file.read_text(encoding="utf-8"))
    for one, two in zip(cells(again), cells(kept), strict=True):
        shown, expected = (ROUNDING.sub("…", "\n".join(map(words, cell["outputs"]))) for cell in (one, two))
        assert NUMBER.sub("#", shown).split() == NUMBER.sub("#", expected).split(), "".join(two["source"])
        numbers = ([float(n.replace(",", "")) for n in NUMBER.findall(text)] for text in (shown, expected))
        np.testing.assert_allclose(*numbers, atol=2e-3, rtol=1e-3)
