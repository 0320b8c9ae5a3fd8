"""pathexp interference: how the directions of a node get into each other's way."""

from __future__ import annotations

import argparse

from ..circuits.superposition import directions_of, interference
from ..report.interference import InterferenceReport
from ..report.subspace_pictures import draw_interference
from .arguments import OK, add_model_argument, amount, model_of, show
from .pictures import add_svg_argument, draw

HELP = "cosines between the directions of a node, beside random ones"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_model_argument(parser)
    parser.add_argument(
        "label", nargs="?", default="E", help="E, P, U, L0M, L0M.in, L0H1.O or its .Q, .K, .V"
    )
    parser.add_argument("--top", type=amount, default=8, metavar="K", help="how many pairs to list")
    parser.add_argument("--norms", choices=("folded", "raw"), default="folded", help="gains and centerings")
    add_svg_argument(parser, "the directions of the largest cosines as a heat map")


def run(options: argparse.Namespace) -> int:
    """Measure and print."""
    model = model_of(options)
    found = interference(directions_of(model, options.label, options.norms))
    draw(options, lambda: draw_interference(model, options.label, found, options.top))
    report = InterferenceReport(model, options.label, found, options.top)
    show(report.data, report.text, options)
    return OK
