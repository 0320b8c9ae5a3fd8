"""pathexp expand: a run of a model, taken apart into path terms and proven."""

from __future__ import annotations

import argparse

from ..expansion import expand
from ..model import load
from ..report import report_expansion
from .arguments import NOT_PROVEN, OK, add_run_arguments, add_target_arguments, run_of, show, target_of

HELP = "expand a run of a model into path terms"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_run_arguments(parser)
    add_target_arguments(parser)
    parser.add_argument("--top", type=int, default=12, metavar="K", help="how many terms to list")
    parser.add_argument("--query", default=None, help="only paths that match, such as 'E .* L1H3 U'")


def run(options: argparse.Namespace) -> int:
    """Expand, rank, total, verify and print."""
    trace = run_of(load(options.model), options)
    terms = expand(trace) if options.query is None else expand(trace).where(options.query)
    report = report_expansion(trace, terms, target_of(trace, options), options.top)
    show(report.data, report.text, options)
    return OK if report.verdict.ok else NOT_PROVEN
