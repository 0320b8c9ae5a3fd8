"""pathexp virtual: the virtual weight between any two components, by any route."""

from __future__ import annotations

import argparse
import sys

from ..algebra import Progress, save_dense
from ..circuits import virtual_weight
from ..report.virtual import VirtualReport
from .arguments import OK, add_model_argument, model_of, show

HELP = "show the virtual weight between any two components"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_model_argument(parser)
    parser.add_argument("--writer", default="E", help="what writes: E, P, L0H1, L0H1.O, L0M, L0N17")
    parser.add_argument("--reader", default="U", help="what reads: U, L1H0, L1H0.Q, .K, .V, L1M, L1N17")
    parser.add_argument(
        "--through", default="direct", help="'direct', heads passed in order as 'L0H1 L1H2', or 'all'"
    )
    parser.add_argument(
        "--norms", default="folded", choices=("folded", "raw"), help="whether norms are folded into readers"
    )
    parser.add_argument("--top", type=int, default=20, metavar="K", help="how many entries to list")
    parser.add_argument(
        "--largest",
        default="abs",
        choices=("abs", "positive", "negative"),
        help="which entries count as large",
    )
    parser.add_argument(
        "--save", metavar="FILE", default=None, help="write the whole table to a .npy file, in blocks"
    )
    parser.add_argument("--progress", action="store_true", help="say on stderr how far the entries are")


def run(options: argparse.Namespace) -> int:
    """Make the weight, write it if asked, print its largest entries."""
    model = model_of(options)
    weight = virtual_weight(model, options.writer, options.reader, options.through, options.norms)
    if options.save is not None:
        save_dense(weight, options.save, progress=_progress("written"))
    by = options.through if options.through in ("direct", "all") else f"through {options.through}"
    route = f"from {options.writer} to {options.reader}, {by}"
    shown = _progress("looked through") if options.progress else None
    report = VirtualReport(model, weight, route, options.top, options.largest, shown)
    show(report.data, report.text, options)
    return OK


def _progress(what: str) -> Progress:
    """Say on the error stream how far the rows of a table are."""

    def say(done: int, rows: int) -> None:
        end = "\n" if done == rows else "\r"
        print(f"{done:,} of {rows:,} rows {what}", end=end, file=sys.stderr, flush=True)

    return say
