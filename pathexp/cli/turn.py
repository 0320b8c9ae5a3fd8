"""pathexp turn: turn the stream's basis, and see coordinates change and nothing else."""

from __future__ import annotations

import argparse

from ..circuits.turning import turn_basis
from ..report.subspace_pictures import draw_turn
from ..report.turning import TurningReport
from .arguments import NOT_PROVEN, OK, add_model_argument, amount, model_of, show
from .pictures import add_svg_argument, draw

HELP = "turn the stream's basis: coordinates change, virtual weights and outputs stay"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_model_argument(parser)
    parser.add_argument(
        "--top", type=int, default=10, metavar="K", help="how many coordinates to list a writer"
    )
    parser.add_argument("--seed", type=amount, default=0, metavar="N", help="of the random turn")
    add_svg_argument(parser, "what is left of coordinates as bars")


def run(options: argparse.Namespace) -> int:
    """Turn, compare and print."""
    model = model_of(options)
    found = turn_basis(model, top=options.top, seed=options.seed)
    draw(options, lambda: draw_turn(model, found))
    report = TurningReport(model, found)
    show(report.data, report.text, options)
    return OK if report.ok else NOT_PROVEN
