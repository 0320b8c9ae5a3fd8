"""Tests collected once, and run in forks: which lines of a package each of them runs, and whether one fails on a change.

A process collects the suite and then waits for work. A mutant of a function is put into place in a fork of it, by
exchanging the code of the functions that are there already, and the tests that run its line follow, the quickest first.
"""

from __future__ import annotations

import gc
import hashlib
import marshal
import math
import os
import pickle
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

MEMORY = 6 << 30
"""Bytes of address space a fork may take: a changed size must not take the machine down."""
_DONE = "all was said"
HANGS = 30.0
"""Processor seconds a single test may take beyond the budget before its fork is ended."""
CALLS = 100
"""How many calls of one function in one test are followed line by line."""


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: "killed", "survived" or "out of time", and the test that failed."""

    what: str
    killer: str = ""
    tests: int = 0
    seconds: float = 0.0


@dataclass
class Runs:
    """What one test ran: its processor seconds, whether it passed, and for each file a number with a bit a line."""

    seconds: float = 0.0
    passed: bool = False
    lines: dict[str, int] = field(default_factory=dict)


class Lines:
    """Follows which lines of some files run, from `start` to `stop`."""

    def __init__(self, root: str) -> None:
        self.root, self.found = root, dict[CodeType, set[int]]()
        self._calls = Counter[CodeType]()

    def start(self) -> None:
        self.found.clear()
        self._calls.clear()
        sys.settrace(self._called)

    def stop(self) -> dict[str, int]:
        sys.settrace(None)
        masks: dict[str, int] = defaultdict(int)
        for code, lines in self.found.items():
            for line in lines:
                masks[code.co_filename[len(self.root) :]] |= 1 << line
        return dict(masks)

    def _called(self, frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        code = frame.f_code
        if not code.co_filename.startswith(self.root):
            return None
        self._calls[code] += 1
        if self._calls[code] > CALLS:
            return None
        add = self.found.setdefault(code, set()).add

        def line(frame: FrameType, event: str, _: object) -> Callable[..., Any]:
            add(frame.f_lineno)
            return line

        return line


class Suite:
    """A pytest plugin that, in place of running what was collected, serves requests from a pipe."""

    def __init__(self, root: Path, requests: int, answers: int) -> None:
        self.root, self.requests, self.answers = str(root) + "/", requests, answers

    def pytest_runtestloop(self, session: Any) -> bool:
        if session.testsfailed:
            raise session.Interrupted(f"{session.testsfailed} files cannot be collected")
        self.items = {item.nodeid: item for item in session.items}
        self.session = session
        self.functions = _functions(self.root)
        gc.freeze()
        with os.fdopen(self.requests, "rb") as asked, os.fdopen(self.answers, "wb") as answered:
            pickle.dump(list(self.items), answered)
            answered.flush()
            while True:
                try:
                    work, *arguments = pickle.load(asked)
                except EOFError:
                    return True
                pickle.dump(getattr(self, work)(*arguments), answered)
                answered.flush()

    def follow(self, tests: list[str], seconds: float) -> dict[str, Runs]:
        """Run tests in a fork until the time is over, and return what each of them ran."""
        _, said = forked(lambda say: self._follow(tests, seconds, say), seconds + HANGS)
        return dict(said)

    def judge(self, changed: bytes, tests: list[str], seconds: float) -> Outcome | None:
        """Run tests in a fork with the code of some functions exchanged, until one fails; None if it cannot be."""
        codes = marshal.loads(changed)
        return self._forked(lambda: self._exchange(codes), tests, seconds)

    def judge_constant(
        self, module: str, name: str, code: bytes, tests: list[str], seconds: float
    ) -> Outcome | None:
        """The same with a constant of a module assigned anew, wherever it was imported to."""
        return self._forked(lambda: _assign(module, name, marshal.loads(code)), tests, seconds)

    def _forked(self, change: Callable[[], None], tests: list[str], seconds: float) -> Outcome | None:
        status, said = forked(lambda say: self._judge(change, tests, seconds, say), seconds + HANGS)
        if said and said[-1] is None:
            return None
        done = [outcome for outcome in said if isinstance(outcome, Outcome)]
        if status is None:
            return Outcome("out of time", tests=len(said))
        return done[-1] if done else Outcome("killed", "the process died", len(said))

    def _follow(self, tests: list[str], seconds: float, say: Callable[[object], None]) -> None:
        lines, end = Lines(self.root), time.process_time() + seconds
        for test, after in zip(tests, [*tests[1:], None], strict=True):
            begun = time.process_time()
            if begun > end:
                return
            lines.start()
            passed = self._passes(test, after)
            say((test, Runs(time.process_time() - begun, passed, lines.stop())))

    def _judge(
        self, change: Callable[[], None], tests: list[str], seconds: float, say: Callable[[object], None]
    ) -> None:
        try:
            change()
        except (KeyError, ValueError):
            say(None)
            return
        begun, ran = time.process_time(), 0
        for ran, test in enumerate(tests, 1):
            if not self._passes(test, tests[ran] if ran < len(tests) else None):
                return say(Outcome("killed", test, ran, time.process_time() - begun))
            say(test)
            if time.process_time() - begun > seconds:
                break
        return say(Outcome("survived", "", ran, time.process_time() - begun))

    def _exchange(self, codes: dict[tuple[str, str, int], CodeType]) -> None:
        """Give the functions that are there the changed code."""
        found = [
            (function, code) for place, code in codes.items() for function in self.functions.get(place, ())
        ]
        if not found:
            raise KeyError(f"no function of {list(codes)} is there")
        for function, code in found:
            function.__code__ = code

    def _passes(self, test: str, after: str | None) -> bool:
        """Whether a test passes; fixtures that the next one shares are kept for it."""
        watch, item = _Watch(), self.items[test]
        manager = self.session.config.pluginmanager
        manager.register(watch)
        try:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=self.items.get(after))
        finally:
            manager.unregister(watch)
        return not watch.failed


def _assign(module: str, name: str, code: CodeType) -> None:
    """Assign a module's constant anew, there and wherever it was imported to."""
    namespace = sys.modules[module].__dict__
    before = namespace[name]
    exec(code, namespace)
    for other in list(sys.modules.values()):
        if getattr(other, "__dict__", {}).get(name) is before:
            setattr(other, name, namespace[name])


class _Watch:
    """Sees whether a report is one of a failure."""

    failed = False

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.failed |= report.failed


def _functions(root: str) -> dict[tuple[str, str, int], list[FunctionType]]:
    """The functions of a folder's files that are there, by file, qualified name and first line."""
    found = defaultdict(list)
    for value in gc.get_objects():
        if isinstance(value, FunctionType) and value.__code__.co_filename.startswith(root):
            found[place_of(value.__code__)].append(value)
    return dict(found)


def place_of(code: CodeType) -> tuple[str, str, int]:
    """File, qualified name and first line of a code object."""
    return code.co_filename, code.co_qualname, code.co_firstlineno


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """Yield all code inside some code."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield inner
            yield from codes_in(inner)


def forked(work: Callable[[Callable[[object], None]], None], seconds: float) -> tuple[int | None, list[Any]]:
    """Do some work in a fork for at most so much processor time: its status, None if it was ended, and all that it said."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        os.close(ours)
        limit = math.ceil(time.process_time() + seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silence, stream)
        os.setpgid(0, 0)
        try:
            with os.fdopen(theirs, "wb", buffering=0) as out:
                work(lambda value: out.write(pickle.dumps(value)))
                out.write(pickle.dumps(_DONE))
        finally:
            os._exit(0)
    os.close(theirs)
    said: list[Any] = []
    status = _heard(ours, child, 20 * seconds, said)
    return status, said


def _heard(pipe: int, child: int, seconds: float, said: list[Any]) -> int | None:
    """Read all that a child says until it ends; its status, None if it ran out of time."""
    alarm = signal.signal(signal.SIGALRM, lambda *_: _end(child))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        with os.fdopen(pipe, "rb") as heard:
            while True:
                try:
                    said.append(pickle.load(heard))
                except (EOFError, pickle.UnpicklingError):
                    break
                if said[-1] == _DONE:  # what it began itself may hold the pipe open
                    said.pop()
                    break
        _, status = os.waitpid(child, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, alarm)
    _end(child)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL):
        return None
    return status


def _end(child: int) -> None:
    """End a child and whatever it began."""
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        return


class Warm:
    """The process that holds the collected suite, from where the mutants are judged."""

    def __init__(self, root: Path, paths: Iterable[str], without: Iterable[str] = ()) -> None:
        asked, self._requests = os.pipe()
        self._answers, answered = os.pipe()
        self.root, self.child = root, os.fork()
        if not self.child:
            os.close(self._requests), os.close(self._answers)
            try:
                _serve(root, asked, answered, [*paths, *(f"--ignore={path}" for path in without)])
            finally:
                os._exit(0)
        os.close(asked), os.close(answered)
        self._out, self._in = os.fdopen(self._requests, "wb"), os.fdopen(self._answers, "rb")
        try:
            self.tests: list[str] = pickle.load(self._in)
        except EOFError:
            raise RuntimeError(
                f"the suite cannot be collected: run pytest --collect-only in {root}"
            ) from None

    def ask(self, *request: object) -> Any:
        pickle.dump(request, self._out)
        self._out.flush()
        return pickle.load(self._in)

    def close(self) -> None:
        self._out.close(), self._in.close()
        os.waitpid(self.child, 0)


def hurry() -> None:
    """Let drawn tests try few examples, and not make those that fail smaller."""
    from hypothesis import HealthCheck, Phase, settings

    settings.register_profile(
        "mutants", phases=(Phase.explicit, Phase.generate), max_examples=15, deadline=None, derandomize=True,
        database=None, suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    settings.load_profile("mutants")


def _serve(root: Path, asked: int, answered: int, paths: list[str]) -> None:
    """Collect the suite, and answer until nobody asks any more."""
    import pytest

    os.chdir(root)
    hurry()
    silence = os.open(os.devnull, os.O_RDWR)
    os.dup2(silence, 0), os.dup2(silence, 1)
    options = ["-q", "-n0", "-s", "--no-header", "-p", "no:cacheprovider", "-p", "no:randomly", "--tb=no"]
    options.append(f"--basetemp={tempfile.mkdtemp()}/tests")
    pytest.main([*options, *paths], plugins=[Suite(root / "pathexp", asked, answered)])


def followed(warm: Warm, kept: Path | None, seconds: float, say: Callable[[str], None]) -> dict[str, Runs]:
    """What each test runs; of files that are as they were when `kept` was written, as it says there."""
    known: dict[str, tuple[str, dict[str, Runs]]] = {}
    if kept is not None and kept.exists():
        known = pickle.loads(kept.read_bytes())
    files = defaultdict(list)
    for test in warm.tests:
        files[test.split("::")[0]].append(test)
    result: dict[str, Runs] = {}
    for at, (name, tests) in enumerate(sorted(files.items()), 1):
        digest = hashlib.sha256((warm.root / name).read_bytes()).hexdigest()
        if known.get(name, ("", {}))[0] != digest:
            random.Random(0).shuffle(tests)
            known[name] = digest, warm.ask("follow", tests, seconds)
            say(f"{at} of {len(files)} files followed: {name}, {len(known[name][1])} of {len(tests)} tests")
            if kept is not None:
                kept.write_bytes(pickle.dumps(known))
        result.update(known[name][1])
    return result


def in_order(runs: dict[str, Runs], path: str, lines: range, near: Callable[[str], bool]) -> list[str]:
    """The tests that run some of a file's lines, those first that cost little, are near, and are no further case of one."""
    mask = sum(1 << line for line in lines)
    found = [
        (ran.seconds, test) for test, ran in runs.items() if ran.passed and ran.lines.get(path, 0) & mask
    ]
    seen, ranked = Counter[str](), []
    for seconds, test in sorted(found):
        case_of = test.split("[")[0]
        seen[case_of] += 1
        ranked.append(((seconds + 0.02) * seen[case_of] * (0.3 if near(test) else 1.0), test))
    return [test for _, test in sorted(ranked)]
