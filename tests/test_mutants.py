"""The mutation runner: what it changes, which tests it runs, and a small sample that must be killed."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def mutants(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("mutants")


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("a < b", ["a <= b"]),
        ("a + b", ["a - b"]),
        ("a * b", ["a / b"]),
        ("-a", ["a"]),
        ("f(a, b)", ["f(b, a)"]),
        ("f(a, a)", []),
        ("f(*a, b)", []),
        ("min(a, b)", []),
        ("np.hypot(a, b)", []),
        ("'x' + a", []),
        ("a and b", ["a or b"]),
        ("3", ["4"]),
        ("True", []),
    ],
)
def test_what_is_changed(mutants, source, changed):
    node = ast.parse(source).body[0].value
    assert [ast.unparse(new) for new in mutants.changes(node)] == changed


def test_every_mutant_is_one_change_of_a_module_that_still_parses(mutants):
    path = ROOT / "pathexp" / "expansion" / "search" / "rounding.py"
    found = list(mutants.mutants_of(path))
    assert len(found) > 30
    for mutant in found[::7]:
        before, after = path.read_text(encoding="utf-8"), ast.unparse(mutant.tree())
        assert ast.unparse(ast.parse(before)) != after


def test_what_only_speaks_is_left_as_it_is(mutants):
    tree = ast.parse(
        "def headline(self):\n    return 1 + 2\ndef g(x: 3):\n    raise E(f'{1 + 2}', 4 + 5)\n    return 6"
    )
    silent = set(map(id, mutants._speaking(tree)))
    left = [
        node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in silent
    ]
    assert left == [6]


def test_tests_of_a_module_are_those_that_know_it(mutants):
    known = [
        Path(test).name
        for test in mutants.tests_of(ROOT / "pathexp" / "expansion" / "proof" / "inclusion.py", 3)
    ]
    assert "test_proof.py" in known and known[-1] == "inclusion.py"


@pytest.mark.slow
def test_what_is_not_changed_survives(mutants):
    path = ROOT / "pathexp" / "algebra" / "spaces.py"
    assert mutants.run(None, mutants.tests_of(path, 2), 240).what == "survived"


def test_a_test_that_fails_anyway_kills_nobody(mutants, tmp_path):
    """Whatever kills is held against the module as it is; what fails there too is left out, and the rest decides."""
    path = ROOT / "pathexp" / "algebra" / "spaces.py"
    broken = tmp_path / "test_broken.py"
    broken.write_text("def test_always_fails():\n    assert False\n\ndef test_holds():\n    assert True\n")
    mutant = next(mutants.mutants_of(path))
    judge = mutants.Judge(60)
    assert judge.outcome(mutant, [str(broken)]).what == "survived"
    assert [test.split("::")[-1] for test in judge.failing] == ["test_always_fails"]
