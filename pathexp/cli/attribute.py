"""pathexp attribute: a logit or a difference of two, attributed to units that add up to it."""

from __future__ import annotations

import argparse

from ..circuits.attribution import UNITS, attribute
from ..report.worth import AttributionReport
from ..report.worth_pictures import draw_attribution
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

HELP = "attribute a logit to components, heads, layers, paths or source tokens"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_run_arguments(parser)
    add_target_arguments(parser)
    parser.add_argument("--by", choices=UNITS, default="head", help="the units that are to add up")
    parser.add_argument("--top", type=amount, default=12, metavar="K", help="how many rows to list")
    add_svg_argument(parser, "the rows as bars")


def run(options: argparse.Namespace) -> int:
    """Run, attribute and print."""
    trace = run_of(model_of(options), options)
    found = attribute(trace, target_of(trace, options), options.by, k=max(options.top, 1))
    report = AttributionReport(found, options.top)
    draw(options, lambda: draw_attribution(found, options.top))
    show(report.data, report.text, options)
    return OK if found.ok else NOT_PROVEN
