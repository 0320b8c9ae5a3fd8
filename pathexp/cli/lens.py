"""pathexp lens: a run read at every depth, and what each component adds to a logit."""

from __future__ import annotations

import argparse

from ..report.lens import report_lens
from ..report.worth_pictures import draw_lens
from .arguments import (
    NOT_PROVEN,
    OK,
    add_run_arguments,
    add_target_arguments,
    amount,
    model_of,
    run_of,
    show,
    target_of,
)
from .pictures import add_svg_argument, draw

HELP = "read a run at every depth: the logit lens in two modes, and what each component adds"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_run_arguments(parser)
    add_target_arguments(parser)
    parser.add_argument("--between", action="store_true", help="also between attention and MLP")
    parser.add_argument("--top", type=amount, default=8, metavar="K", help="how many entries to list")
    add_svg_argument(parser, "the target by state and position")


def run(options: argparse.Namespace) -> int:
    """Run, read, add up and print."""
    trace = run_of(model_of(options), options)
    report = report_lens(trace, target_of(trace, options), options.top, options.between)
    draw(options, lambda: draw_lens(report.own, report.target))
    show(report.data, report.text, options)
    return OK if report.ok else NOT_PROVEN
