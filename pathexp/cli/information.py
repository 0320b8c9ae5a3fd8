"""pathexp information: where a logit's information moves, position to position, weighted by attention."""

from __future__ import annotations

import argparse

from ..report.information import InformationReport, information_svg
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

HELP = "follow a logit from position to position through the blocks"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_run_arguments(parser)
    add_target_arguments(parser)
    parser.add_argument("--top", type=amount, default=8, metavar="K", help="how many moves to list")
    add_svg_argument(parser, "where it moves")


def run(options: argparse.Namespace) -> int:
    """Run, follow and print."""
    trace = run_of(model_of(options), options)
    report = InformationReport.of(trace, target_of(trace, options), options.top)
    draw(options, lambda: information_svg(trace, report.moves.target))
    show(report.data, report.text, options)
    return OK if report.ok else NOT_PROVEN
