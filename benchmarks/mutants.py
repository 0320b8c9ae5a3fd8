"""Claim: of mutants of the numerics, nearly all are killed by the tests of what was changed.

    python benchmarks/mutants.py [--mutants 300] [--seed 0] [--seconds 25] [--only TEXT] [--resume FILE] [--lines FILE] [--again] [--tiny]

One place of one module is changed (a comparison, a sign, a number, a statement left out, two arguments exchanged) in a
process that never writes the change down, and the tests that run the changed line follow, the quickest first, until one
fails. Which lines a test runs is found out first, and kept in --lines. A change inside a function is put into place in a fork of
a process that has collected all tests; one of what runs at import gets a process of its own.

A mutant is killed if a test fails that holds on the module as it is. What survives is printed with its place, to be looked at;
what cannot be seen is listed with the reason in equivalent_mutants.txt, and counted apart, as is what ran out of processor time.
Outcomes are written to --resume as they come; --again judges once more what did not die.
"""

from __future__ import annotations

import ast
import copy
import importlib
import importlib.abc
import importlib.util
import json
import marshal
import math
import os
import random
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import CodeType

from alone import machine, parser
from warm_tests import Outcome, Runs, Warm, codes_in, followed, hurry, in_order, place_of

ROOT = Path(__file__).parents[1]
FOLDERS = ("expansion", "graph", "algebra", "circuits")
SHARED = ("numpy", "sympy", "networkx", "hypothesis", "pytest", "threadpoolctl")
"""What every child finds imported."""
WITHOUT = (
    "tests/interop",
    "docs/_site",
    "tests/test_mutants.py",
    "tests/test_benchmarks.py",
    "tests/test_notebook.py",
)
"""Tests that are not collected: they need other packages, or run this script and its like."""


@dataclass(frozen=True)
class Mutant:
    """One module with one node changed: the place of the node in a walk over its tree, and which of its changes."""

    path: Path
    node: int
    change: int
    line: int
    function: str = ""
    """The function whose body is changed, by its qualified name; empty for what runs as the module is imported."""
    lines: range = range(0)
    """The lines of that function's body."""

    @property
    def module(self) -> str:
        return ".".join(self.path.relative_to(ROOT).with_suffix("").parts)

    def __str__(self) -> str:
        old, new = self._found()
        before, after = (f"{ast.unparse(node):.70}".replace("\n", " ") for node in (old, new))
        return f"{self.path.relative_to(ROOT)}:{self.line}: {before} → {after}"

    @property
    def name(self) -> str:
        """What tells this mutant from all others of a version of the code."""
        return f"{self.path.relative_to(ROOT)}:{self.node}:{self.change}"

    def inside(self) -> str:
        """The function, the line and the change, as they stand in the list of what changes nothing."""
        old, new = self._found()
        before, after = (" ".join(ast.unparse(node).split()) for node in (old, new))
        where = f"{self.path.relative_to(ROOT)}: {self.function or 'the module'}"
        line = self.path.read_text(encoding="utf-8").splitlines()[self.line - 1].strip()
        return f"{where}: {before} → {after}, in {line}"

    def codes(self) -> dict[tuple[str, str, int], CodeType]:
        """The code that differs from that of the module as it is; empty where functions are not all that changes."""
        if not self.function:
            return {}
        path, source = str(self.path), self.path.read_text(encoding="utf-8")
        before = {place_of(code): code for code in codes_in(compile(source, path, "exec", dont_inherit=True))}
        after = {
            place_of(code): code for code in codes_in(compile(self.tree(), path, "exec", dont_inherit=True))
        }
        return {place: code for place, code in after.items() if before.get(place) != code}

    def constant(self) -> tuple[str, CodeType] | None:
        """The constant of the module that is assigned anew, and the code that does it; None where that is not all."""
        tree = self.tree()
        for before, after in zip(
            ast.parse(self.path.read_text(encoding="utf-8")).body, tree.body, strict=True
        ):
            target = after.targets[0] if isinstance(after, ast.Assign) else None
            if isinstance(target, ast.Name) and ast.dump(before) != ast.dump(after):
                return target.id, compile(ast.Module([after], []), str(self.path), "exec", dont_inherit=True)
        return None

    def tree(self) -> ast.Module:
        """The changed module."""
        tree = ast.parse(self.path.read_text(encoding="utf-8"))  # of its own: it is changed in place
        old = list(ast.walk(tree))[self.node]
        return ast.fix_missing_locations(_Swap(old, list(changes(old))[self.change]).visit(tree))

    def _found(self) -> tuple[ast.AST, ast.AST]:
        """The node that is changed, and what it is changed into."""
        node = _nodes(self.path.read_text(encoding="utf-8"))[self.node]
        return node, list(changes(node))[self.change]


@lru_cache(maxsize=4)
def _nodes(source: str) -> list[ast.AST]:
    """The nodes of a module in the order in which mutants count them."""
    return list(ast.walk(ast.parse(source)))


class _Swap(ast.NodeTransformer):
    """Puts one node in place of another."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return ast.copy_location(self.new, node) if node is self.old else self.generic_visit(node)


COMPARED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip
SYMMETRIC = {"min", "max", "np.minimum", "np.maximum", "np.fmin", "np.hypot", "np.array_equal", "isclose"}
"""Functions of two numbers that are the same exchanged (but for NaN): to exchange them is no change."""
SIGNS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what a node can be changed into."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARED:
            yield _with(node, ops=[COMPARED[type(op)]()])
        case ast.BinOp(op=op) if type(op) in SIGNS and not _is_text(node):
            yield _with(node, op=SIGNS[type(op)]())
        case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=inner) if not isinstance(inner, ast.Constant):
            yield inner
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            yield _with(node, value=value + 1 if isinstance(value, int) else value * 2 + 1e-3)
        case ast.BoolOp(op=op):
            yield _with(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.AugAssign() | ast.Expr(value=ast.Call()):
            yield ast.Pass()
        case ast.Call(args=[first, second, *rest]) if not any(isinstance(a, ast.Starred) for a in node.args):
            if ast.dump(first) != ast.dump(second) and ast.unparse(node.func) not in SYMMETRIC:
                yield _with(node, args=[second, first, *rest])


def _with(node: ast.AST, **changed: object) -> ast.AST:
    """A node with some of its fields changed."""
    new = copy.copy(node)
    for name, value in changed.items():
        setattr(new, name, value)
    return new


def _is_text(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in ast.walk(node))


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Yield all mutants of a module, those of what only speaks or names types left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    silent = set(map(id, _speaking(tree)))
    inside = dict(_bodies(tree))
    for place, node in enumerate(ast.walk(tree)):
        for at, _ in enumerate(changes(node) if id(node) not in silent else ()):
            function, lines = inside.get(id(node), ("", range(0)))
            yield Mutant(path, place, at, getattr(node, "lineno", 0), function, lines)


def _bodies(tree: ast.AST, within: str = "") -> Iterator[tuple[int, tuple[str, range]]]:
    """Yield, for what stands in the body of a function, the innermost function's name and the body's lines."""
    for node in ast.iter_child_nodes(tree):
        name = (
            f"{within}.{node.name}".lstrip(".")
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
            else within
        )
        if isinstance(node, ast.FunctionDef):
            lines = range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1)
            for statement in node.body:
                yield from ((id(part), (name, lines)) for part in ast.walk(statement))
        yield from _bodies(node, name)


SPEAKS = {
    "__repr__",
    "__str__",
    "_repr_html_",
    "headline",
    "parts",
    "table",
    "text",
    "latex",
    "formula",
    "certainty",
    "say",
}


def _speaking(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of what prints: messages, annotations, and methods that show an answer."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) if name in SPEAKS:
                yield from ast.walk(node)
            case ast.Raise() | ast.JoinedStr() | ast.Assert():
                yield from ast.walk(node)
            case ast.arg(annotation=noted) | ast.AnnAssign(annotation=noted) if noted is not None:
                yield from ast.walk(noted)


def modules() -> list[Path]:
    """The modules that are changed."""
    return sorted(
        path
        for folder in FOLDERS
        for path in (ROOT / "pathexp" / folder).rglob("*.py")
        if path.stem != "__init__"
    )


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module as a mutant."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        if name != self.mutant.module:
            return None
        return importlib.util.spec_from_file_location(name, self.mutant.path, loader=self)

    def create_module(self, spec: object) -> None:
        return None

    def exec_module(self, module: object) -> None:
        code = compile(self.mutant.tree(), str(self.mutant.path), "exec")
        exec(code, module.__dict__)


class Judge:
    """Runs tests on mutants, and knows which tests fail without one."""

    def __init__(self, seconds: float, warm: Warm | None = None, runs: dict[str, Runs] | None = None) -> None:
        self.seconds, self.warm, self.runs, self._sound = seconds, warm, runs or {}, dict[str, bool]()

    def outcome(self, mutant: Mutant, tests: list[str]) -> Outcome:
        """Run tests until one fails that holds on the module as it is."""
        while True:
            tests = [test for test in tests if self._sound.get(test, True)]
            found = self._warm(mutant, tests) or run(mutant, tests, self.seconds, self.failing)
            if found.what != "killed" or "::" not in found.killer or self._holds(found.killer):
                return found

    def tests(self, mutant: Mutant) -> list[str]:
        """The tests that run a mutant's line, then those that run its function; for what runs at import, the file's, and its readers'."""
        path = str(mutant.path.relative_to(ROOT / "pathexp"))
        own = mutant.path.stem

        def near(test: str) -> bool:
            return own in test or mutant.path.parts[-2] in test.split("::")[0]

        line, body = range(mutant.line, mutant.line + 1), mutant.lines or range(1, 100_000)
        ranked = [
            *in_order(self.runs, path, line if mutant.lines else body, near),
            *in_order(self.runs, path, body, near),
        ]
        more = self._unknown(ranked, near) if mutant.lines else self._importing(mutant)
        return list(dict.fromkeys([*ranked, *more]))

    def _unknown(self, ranked: list[str], near: Callable[[str], bool]) -> list[str]:
        """Tests that were not followed to the end of their file's time, of files that are near or run the function."""
        files = {test.split("::")[0] for test in ranked}
        left = [test for test in (self.warm.tests if self.warm else ()) if test not in self.runs]
        known = [test for test in left if test.split("::")[0] in files or near(test)]
        random.Random(0).shuffle(known)
        return sorted(known, key=lambda test: not near(test))

    def _importing(self, mutant: Mutant) -> Iterator[str]:
        """The tests of files that import a module: they may see what runs at import alone."""
        found = {
            name: f"from {mutant.module} import" in (ROOT / name).read_text(encoding="utf-8")
            for name in {test.split("::")[0] for test in self.runs}
        }
        return (test for test, ran in self.runs.items() if ran.passed and found[test.split("::")[0]])

    @property
    def failing(self) -> tuple[str, ...]:
        """The tests that fail without any mutant, as far as they were met."""
        return tuple(test for test, sound in self._sound.items() if not sound)

    def _warm(self, mutant: Mutant, tests: list[str]) -> Outcome | None:
        """What becomes of a mutant that can be put into place in a process that has all tests; else None.

        A constant may have been used already while modules were imported: that it survives is not the last word.
        """
        if self.warm is None:
            return None
        if codes := mutant.codes():
            return self.warm.ask("judge", marshal.dumps(codes), tests, self.seconds)
        if constant := mutant.constant():
            name, code = constant
            found = self.warm.ask(
                "judge_constant", mutant.module, name, marshal.dumps(code), tests, self.seconds
            )
            return found if found and found.what == "killed" else None
        return None

    def _holds(self, test: str) -> bool:
        if test not in self._sound:
            if self.warm and test in self.warm.tests:
                found = self.warm.ask("follow", [test], self.seconds)
                self._sound[test] = test in found and found[test].passed
            else:
                self._sound[test] = run(None, [test], WAITED * self.seconds).what == "survived"
        return self._sound[test]


AT_ONCE = 150
"""How many tests a mutant meets in a process that has to collect them first."""


def run(mutant: Mutant | None, tests: list[str], seconds: float, without: tuple[str, ...] = ()) -> Outcome:
    """Run tests on a mutant (or on the module as it is) for at most so much processor time."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        os.close(ours)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), math.ceil(seconds) + 5))
        os._exit(_tested(mutant, tests, without, theirs))
    os.close(theirs)
    status = _waited(child, WAITED * seconds)
    with os.fdopen(ours) as said:
        killer = said.readline().strip()
    if status is None or (os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)):
        return Outcome("out of time")
    return Outcome("killed", killer) if status else Outcome("survived")


WAITED = 20
"""How many times its processor time a child may wait for on a busy machine."""


def _waited(child: int, seconds: float) -> int | None:
    """The status of a process once it ends; None, and it is ended, after so many seconds."""
    late = time.monotonic() + seconds
    while time.monotonic() < late:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


class _Failures:
    """Writes the names of tests that fail into a pipe."""

    def __init__(self, pipe: int) -> None:
        self.pipe = pipe

    def pytest_runtest_logreport(self, report: object) -> None:
        self.pytest_collectreport(report)

    def pytest_collectreport(self, report: object) -> None:
        if report.failed:  # type: ignore[attr-defined]
            os.write(self.pipe, f"{report.nodeid}\n".encode())  # type: ignore[attr-defined]


def _tested(mutant: Mutant | None, tests: list[str], without: tuple[str, ...], pipe: int) -> int:
    """Whether tests fail, in this process: 0 if none does."""
    os.chdir(ROOT)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1), os.dup2(silence, 2)
    try:
        import pytest

        if mutant:  # imported before pytest puts its own import hook in front
            sys.meta_path.insert(0, _Changed(mutant))
            importlib.import_module(mutant.module)

        hurry()
        options = ["-x", "-q", "-n0", "--no-header", "-p", "no:cacheprovider", "-p", "no:randomly"]
        options.extend(f"--deselect={test}" for test in without)
        return min(int(pytest.main([*options, *tests[:AT_ONCE]], plugins=[_Failures(pipe)])), 1)
    except BaseException:  # a mutant that does not even import
        return 1


def sampled(amount: int, seed: int, only: str = "") -> list[Mutant]:
    """Some mutants of the modules whose path contains a text, each as likely as any other."""
    every = [mutant for path in modules() if only in str(path) for mutant in mutants_of(path)]
    return random.Random(seed).sample(every, min(amount, len(every)))


class Ledger:
    """The outcomes of mutants, written down one a line as they come, and those of an earlier run."""

    def __init__(self, path: Path | None) -> None:
        self.path, self.outcomes = path, dict[str, str]()
        if path is not None and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                said = json.loads(line)
                self.outcomes[said["name"]] = said["what"]

    def write(self, mutant: Mutant, outcome: Outcome) -> None:
        self.outcomes[mutant.name] = outcome.what
        said = {"name": mutant.name, "change": mutant.inside(), "line": mutant.line, **vars(outcome)}
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as out:
                print(json.dumps(said, ensure_ascii=False), file=out, flush=True)
        print(f"{outcome.what}: {mutant} {outcome.killer}", file=sys.stderr, flush=True)


def equivalent() -> dict[str, str]:
    """The changes that change nothing that can be seen, each with the reason."""
    listed = Path(__file__).with_name("equivalent_mutants.txt").read_text(encoding="utf-8")
    pairs = (block.split("\n", 1) for block in listed.split("\n\n") if block.strip() and block[0] != "#")
    return {change.strip(): " ".join(reason.split()) for change, reason in pairs}


def judged(mutant: Mutant, judge: Judge, ledger: Ledger, listed: dict[str, str]) -> None:
    """Find out what becomes of a mutant and write it down."""
    if mutant.inside() in listed:
        outcome = Outcome("equivalent", listed[mutant.inside()])
    else:
        outcome = judge.outcome(mutant, judge.tests(mutant))
    ledger.write(mutant, outcome)


def main(arguments: list[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--mutants", type=int, default=300)
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--seconds", type=float, default=25.0, help="processor time of a mutant's tests")
    made.add_argument(
        "--follow", type=float, default=30.0, help="processor time to follow the tests of a file"
    )
    made.add_argument("--only", default="", help="a part of the path of modules")
    made.add_argument(
        "--tests", nargs="*", default=["tests", "pathexp", "docs"], help="where tests are collected"
    )
    made.add_argument("--resume", type=Path, help="a file with one outcome a line, written as they come")
    made.add_argument("--lines", type=Path, help="a file that keeps which lines each test runs")
    made.add_argument(
        "--again", action="store_true", help="judge once more what did not die in the resumed run"
    )
    options = made.parse_args(arguments)
    os.environ["PATHEXP_EVERY_CASE"] = "1"  # all cases of a test may kill, not those of the fast suite alone
    sys.path.insert(0, str(ROOT))
    for name in SHARED:
        importlib.import_module(name)
    print(f"mutants; {machine()}", flush=True)
    if options.tiny:
        options.only, options.mutants, options.tests = (
            "algebra/spaces",
            2,
            ["tests/algebra", "pathexp/algebra"],
        )
    mutants, ledger, listed = (
        sampled(options.mutants, options.seed, options.only),
        Ledger(options.resume),
        equivalent(),
    )
    warm = Warm(ROOT, options.tests, WITHOUT)
    runs = followed(
        warm, options.lines, options.follow, lambda said: print(said, file=sys.stderr, flush=True)
    )
    judge = Judge(options.seconds, warm, runs)
    for mutant in mutants:
        done = ledger.outcomes.get(mutant.name)
        if done is None or (options.again and done in ("survived", "out of time")):
            judged(mutant, judge, ledger, listed)
    warm.close()
    report(mutants, ledger, judge)


def report(mutants: list[Mutant], ledger: Ledger, judge: Judge) -> None:
    """Print what is alive, and how many of each kind there are."""
    outcomes = Counter(ledger.outcomes[mutant.name] for mutant in mutants)
    for mutant in mutants:
        if ledger.outcomes[mutant.name] in ("survived", "out of time"):
            print(f"{ledger.outcomes[mutant.name]}: {mutant}")
    for test in judge.failing:
        print(f"kills nobody, fails on the module as it is: {test}")
    dead, counted = outcomes["killed"], outcomes.total() - outcomes["equivalent"]
    counts = ", ".join(f"{amount} {what}" for what, amount in outcomes.most_common())
    print(f"{counts}: {dead} of {counted} mutants killed, {100 * dead / max(counted, 1):.1f} %")


if __name__ == "__main__":
    main()
