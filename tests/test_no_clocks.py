"""No test measures a clock: a busy machine would fail it; figures belong to benchmarks/."""

import ast
from pathlib import Path

TESTS = Path(__file__).parent
CLOCKS = {
    "perf_counter",
    "perf_counter_ns",
    "process_time",
    "process_time_ns",
    "monotonic",
    "monotonic_ns",
    "time_ns",
}


def clocks_in_assertions(source: str) -> list[int]:
    """The lines of assertions that read a clock, or a name that was set from one."""
    tree = ast.parse(source)
    named = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and reads_a_clock(node.value, set())
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    asserts = (node for node in ast.walk(tree) if isinstance(node, ast.Assert))
    return [node.lineno for node in asserts if reads_a_clock(node.test, named)]


def reads_a_clock(tree: ast.AST, named: set[str]) -> bool:
    return any(
        (isinstance(node, ast.Attribute) and (node.attr in CLOCKS or ast.unparse(node) == "time.time"))
        or (isinstance(node, ast.Name) and node.id in CLOCKS | named)
        for node in ast.walk(tree)
    )


def test_no_assertion_reads_a_clock():
    found = {
        str(path.relative_to(TESTS)): lines
        for path in sorted(TESTS.rglob("*.py"))
        if (lines := clocks_in_assertions(path.read_text(encoding="utf-8")))
    }
    assert not found, found


def test_a_clock_in_an_assertion_is_found():
    assert clocks_in_assertions(
        "import time\nbegan = time.time()\nassert work()\nassert time.time() - began < 5"
    ) == [4]
    assert clocks_in_assertions("reading = perf_counter()\nassert reading") == [2]
