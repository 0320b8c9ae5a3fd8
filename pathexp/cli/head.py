"""pathexp head: one head, or several side by side, as their two circuits."""

from __future__ import annotations

import argparse

from ..circuits.heads.head import head
from ..report.head_pictures import draw_heads
from ..report.heads import CircuitsReport
from .arguments import DEFAULT_MODEL, OK, add_loading_arguments, model_of, show
from .pictures import add_svg_argument, draw

HELP = "show heads side by side as two circuits: where they look, what they bring"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("heads", nargs="+", metavar="HEAD", help="labels such as L1H3")
    parser.add_argument("--model", default=DEFAULT_MODEL, help="a bundled model or a file")
    parser.add_argument(
        "--distance",
        type=int,
        default=None,
        help="under rotary positions: how far the key is before the query",
    )
    parser.add_argument(
        "--top", type=int, default=8, metavar="K", help="how many entries of each token table"
    )
    add_svg_argument(parser, "the token tables where they are largest")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_loading_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Read the circuits and print."""
    model = model_of(options)
    chosen = tuple(head(model, label) for label in options.heads)
    report = CircuitsReport(chosen, options.distance, options.top)
    draw(options, lambda: draw_heads(report))
    show(report.data, report.text, options)
    return OK
