"""Many prompts on the command line: a command that reads one run is asked of every case of a file, and averaged."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

from ..answer import Answer
from ..circuits.attribution.contrast_summary import contrast_summary
from ..circuits.cases.average import average
from ..circuits.cases.measured import CorruptedTokens
from ..errors import PathexpError
from ..model import Model
from .command import Command, Option, whole

CASES = Option(
    "cases", "average over the cases of this .jsonl or .csv file, instead of one text", metavar="FILE"
)
CORRUPTED = Option("corrupted", "ask about the contrast of each case with its corrupted prompt", flag=True)
RESUME = Option(
    "resume", "keep what each case gives in this .jsonl, and go on from it if it is there", metavar="FILE"
)
WORKERS = Option("workers", "how many processes work on the cases (1)", whole(1), metavar="N")
ONE_RUN = ("text", "tokens", "target", "versus", "position", "contrast", "measure", "graph", "seconds")
"""Options of one run, which have no meaning for many."""


def declare_cases(parser: argparse.ArgumentParser, command: Command) -> None:
    """Declare what averages take, for commands that read a run."""
    if command.takes in ("run", "target") and not (command.saves or command.serves):
        group = parser.add_argument_group("many prompts")
        for option in (CASES, CORRUPTED, WORKERS, RESUME):
            option.declare(group)


def of_cases(options: argparse.Namespace) -> bool:
    """Whether a command is to be averaged over cases."""
    return hasattr(options, CORRUPTED.name) and options.cases is not None


def check_cases(options: argparse.Namespace) -> None:
    """Refuse options of one run beside cases, and options of cases without them."""
    if of_cases(options):
        clash = [name for name in ONE_RUN if getattr(options, name, None) is not None]
        if clash:
            raise PathexpError(f"--cases holds prompts and answers of its own: leave out {clash[0]}")
        return
    for option in (CORRUPTED, WORKERS, RESUME):
        if getattr(options, option.name, None) is not None and hasattr(options, CORRUPTED.name):
            raise PathexpError(f"--{option.name} is about many prompts: give --cases FILE")


def averaged(command: Command, model: Model, options: argparse.Namespace, given: Mapping[str, Any]) -> Answer:
    """Return the average of a command's question over the cases that are given."""
    progress = not getattr(options, "quiet", False) and sys.stderr.isatty()
    asked = dict(given)
    if command.ask is contrast_summary:
        if "other" in asked:
            raise PathexpError(
                "--cases holds the corrupted prompts to compare with: leave out the other text"
            )
        asked["other"] = CorruptedTokens()
    with executor_of(options.workers) as executor:
        return average(
            command.ask,
            model,
            options.cases,
            contrast=bool(options.corrupted),
            executor=executor,
            progress=progress,
            resume=options.resume,
            **asked,
        )


@contextmanager
def executor_of(workers: int | None) -> Iterator[Executor | None]:
    """Give processes to work on cases, as many as were asked for; none for one."""
    if workers in (None, 1):
        yield None
        return
    with ProcessPoolExecutor(
        workers, initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN)
    ) as pool:
        yield pool
