"""No test measures a clock: a busy machine would fail it; figures belong to benchmarks/."""

import ast
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("clock", sorted(CLOCKS))
@pytest.mark.parametrize("way", ["{0}()", "time.{0}()"])
def test_a_clock_in_an_assertion_is_found(clock, way):
    """Read in it, or before it under a name; what is no clock is left alone."""
    read = way.format(clock)
    inside = f"import time\nbegan = other()\nassert work()\nassert {read} - began < 5"
    before = f"reading = {read}\nassert reading"
    assert clocks_in_assertions(inside) == [4]
    assert clocks_in_assertions(before) == [2]
    assert not clocks_in_assertions(f"reading = {read}\nassert other()")
