"""What commands that average over a corpus share: how much of it to take, and where to stop and go on from."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..circuits.corpus.tally import Tally
from ..errors import PathexpError
from .state import add_state_arguments

ENDING = ".npz"


def add_window_arguments(parser: argparse.ArgumentParser, windows: int) -> None:
    """Declare the windows and how to stop and go on; `windows` are taken unless another number is asked for."""
    group = parser.add_argument_group("how much of the corpus to take")
    group.add_argument("--length", type=int, default=None, metavar="N", help="tokens a window (all of n_ctx)")
    group.add_argument("--windows", type=int, default=windows, metavar="N", help="how many windows to take")
    add_state_arguments(parser)


def add_corpus_option(parser: argparse.ArgumentParser, windows: int) -> None:
    """Declare a corpus that may be left out, and its windows."""
    parser.add_argument("--corpus", default=None, metavar="FILE", help="a UTF-8 text file to measure on")
    add_window_arguments(parser, windows)


def start_of(options: argparse.Namespace) -> Tally | None:
    """The sums to go on from: those of --resume, if its file is there."""
    if options.resume is None:
        return None
    if not options.resume.endswith(ENDING):
        raise PathexpError(f"--resume keeps sums in a file that ends in {ENDING}, not {options.resume!r}")
    if getattr(options, "corpus", "") is None:
        raise PathexpError("--resume goes on with a corpus: give --corpus FILE, the same as before")
    return Tally.load(options.resume) if Path(options.resume).exists() else None


def keep(options: argparse.Namespace, tally: Tally | None) -> None:
    """Save sums in the file of --resume."""
    if options.resume is not None and tally is not None:
        tally.save(options.resume)
