"""pathexp interference: how the directions of a node get into each other's way."""

from __future__ import annotations

import argparse

from ..circuits.superposition import directions_of, interference
from ..report.interference import InterferenceReport
from .arguments import OK, add_model_argument, amount, model_of, show

HELP = "cosines between the directions of a node, beside random ones"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_model_argument(parser)
    parser.add_argument(
        "label", nargs="?", default="E", help="E, P, U, L0M, L0M.in, L0H1.O or its .Q, .K, .V"
    )
    parser.add_argument("--top", type=amount, default=8, metavar="K", help="how many pairs to list")
    parser.add_argument("--norms", choices=("folded", "raw"), default="folded", help="gains and centerings")


def run(options: argparse.Namespace) -> int:
    """Measure and print."""
    model = model_of(options)
    found = interference(directions_of(model, options.label, options.norms))
    report = InterferenceReport(model, options.label, found, options.top)
    show(report.data, report.text, options)
    return OK
