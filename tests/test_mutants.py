"""The mutation runner: what it changes, which tests it runs, and a small sample that must be killed."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

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


BOX = "class Box:\n    def size(self, n):\n        if n > 3:\n            n = n + 1\n        return n * 2\n\nLIMIT = 7\n"
TESTS = """
from pathexp.box import LIMIT, Box

def test_limit():
    assert LIMIT == 7

def test_small():
    assert Box().size(2) == 4

def test_large():
    assert Box().size(5) == 12
"""


@pytest.fixture
def small(mutants, monkeypatch, tmp_path):
    """A project of one module and three tests."""
    for name, text in {"pathexp/__init__.py": "", "pathexp/box.py": BOX, "tests/test_box.py": TESTS}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    return tmp_path / "pathexp" / "box.py"


def test_functions_that_are_changed_are_named_with_their_lines(mutants, small):
    found = {str(mutant): (mutant.function, mutant.lines) for mutant in mutants.mutants_of(small)}
    assert found["pathexp/box.py:3: n > 3 → n >= 3"] == ("Box.size", range(3, 6))
    assert found["pathexp/box.py:7: 7 → 8"] == ("", range(0))


def test_the_code_that_changes_is_that_of_the_function(mutants, small):
    for mutant in mutants.mutants_of(small):
        functions = {place for place in mutant.codes() if place[1] == "Box.size"}
        assert functions == ({(str(small), "Box.size", 2)} if mutant.function else set())


def test_a_constant_is_assigned_anew_where_it_was_imported_to(mutants, small, monkeypatch):
    (mutant,) = (each for each in mutants.mutants_of(small) if not each.function)
    name, code = mutant.constant()
    here, there, other = (ModuleType(label) for label in ("here", "there", "other"))
    here.LIMIT = there.LIMIT = 10**6
    other.LIMIT = 10**6 + 1
    for module in (here, there, other):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    mutants.sys.modules["warm_tests"]._assign("here", name, code)
    assert (here.LIMIT, there.LIMIT, other.LIMIT) == (8, 8, 10**6 + 1)
    assert all(each.constant() is None for each in mutants.mutants_of(small) if each.function)


def test_the_tests_that_run_a_line_come_first_and_the_quick_ones_of_them(mutants):
    warm = mutants.sys.modules["warm_tests"]
    runs = {
        "slow": warm.Runs(2.0, True, {"a.py": 1 << 5}),
        "quick": warm.Runs(0.1, True, {"a.py": 1 << 5 | 1 << 6}),
        "fails": warm.Runs(0.0, False, {"a.py": 1 << 5}),
        "elsewhere": warm.Runs(0.0, True, {"a.py": 1 << 6}),
        "case[1]": warm.Runs(0.2, True, {"a.py": 1 << 5}),
        "case[2]": warm.Runs(0.2, True, {"a.py": 1 << 5}),
        "near": warm.Runs(0.3, True, {"a.py": 1 << 5}),
    }
    found = warm.in_order(runs, "a.py", range(5, 6), lambda test: test == "near")
    assert found == ["near", "quick", "case[1]", "case[2]", "slow"]


def test_a_whole_run_of_a_small_project(mutants, small, tmp_path):
    """In a process of its own, because the package of that project has the name of ours."""
    script = tmp_path / "run.py"
    script.write_text(
        "import sys, pathlib\n"
        f"sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT / 'benchmarks')!r}]\n"
        "import mutants\n"
        f"mutants.ROOT = pathlib.Path({str(tmp_path)!r})\n"
        "mutants.modules = lambda: [mutants.ROOT / 'pathexp' / 'box.py']\n"
        "mutants.WITHOUT = ()\n"
        f"mutants.main(['--tests', 'tests', '--resume', {str(tmp_path / 'found')!r}])\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "found").read_text().splitlines()]
    outcomes = {
        line["change"].split(": ", 1)[1].split(", in ")[0]: (line["what"], line["killer"].split("::")[-1])
        for line in lines
    }
    assert outcomes["Box.size: n + 1 → n - 1"] == ("killed", "test_large")
    assert outcomes["Box.size: n * 2 → n / 2"][0] == "killed"
    assert outcomes["the module: 7 → 8"] == ("killed", "test_limit")
    assert outcomes["Box.size: n > 3 → n >= 3"] == ("survived", ""), "no test meets 3"
    assert "survived: pathexp/box.py:3: n > 3 → n >= 3" in done.stdout
    again = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=tmp_path)
    assert again.stdout.splitlines()[-1] == done.stdout.splitlines()[-1]
    assert len((tmp_path / "found").read_text().splitlines()) == len(lines), "nothing is judged twice"


def test_a_suite_that_cannot_be_collected_is_no_suite(mutants, small, tmp_path):
    (tmp_path / "tests" / "test_box.py").write_text("from pathexp.box import Nothing\n")
    with pytest.raises(RuntimeError, match="cannot be collected"):
        mutants.sys.modules["warm_tests"].Warm(tmp_path, ["tests"])


def test_what_is_listed_as_equivalent_is_a_mutant_that_is_there(mutants):
    """So that the list does not outlive the code it is about."""
    listed = mutants.equivalent()
    assert all(len(reason) > 20 for reason in listed.values())
    paths = {change.split(":")[0] for change in listed}
    there = {mutant.inside() for path in paths for mutant in mutants.mutants_of(mutants.ROOT / path)}
    assert not set(listed) - there


@pytest.mark.slow
def test_a_small_sample_is_killed(mutants, capsys):
    mutants.main(
        ["--mutants", "8", "--seed", "1", "--only", "algebra", "--tests", "tests/algebra", "pathexp/algebra"]
    )
    printed = capsys.readouterr().out
    killed, of = map(int, re.search(r"(\d+) of (\d+) mutants killed", printed).groups())
    assert of >= 5 and killed >= of - 1, (
        printed
    )  # which eight are drawn, and how many say nothing, changes with the code


def test_a_test_that_fails_anyway_kills_nobody(mutants, tmp_path):
    """Whatever kills is held against the module as it is; what fails there too is left out, and the rest decides."""
    path = ROOT / "pathexp" / "algebra" / "spaces.py"
    broken = tmp_path / "test_broken.py"
    broken.write_text("def test_always_fails():\n    assert False\n\ndef test_holds():\n    assert True\n")
    mutant = next(mutants.mutants_of(path))
    judge = mutants.Judge(60)
    assert judge.outcome(mutant, [str(broken)]).what == "survived"
    assert [test.split("::")[-1] for test in judge.failing] == ["test_always_fails"]
