"""pathexp overlap: does a reader read the dimensions in which a writer writes?"""

from __future__ import annotations

import argparse

from ..circuits.subspaces import overlap, overlaps
from ..errors import PathexpError
from ..report.overlaps import OverlapReport
from ..report.subspace_pictures import draw_overlaps
from .arguments import OK, add_model_argument, amount, model_of, show
from .pictures import add_svg_argument, draw

HELP = "principal angles between what writers write and readers read, beside chance"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_model_argument(parser)
    parser.add_argument("writer", nargs="?", help="a writer, such as L0H2; all pairs are ranked without one")
    parser.add_argument("reader", nargs="?", help="a reader, such as L1H0.K")
    parser.add_argument("--top", type=amount, default=12, metavar="K", help="how many pairs to list")
    parser.add_argument("--norms", choices=("folded", "raw"), default="folded", help="gains and centerings")
    add_svg_argument(parser, "overlaps as a heat map, or the cosines of one pair as bars")


def run(options: argparse.Namespace) -> int:
    """Measure and print."""
    if options.writer is not None and options.reader is None:
        raise PathexpError(
            f"overlap of {options.writer} with what? give a reader, such as L1H0.K, or no writer"
        )
    model = model_of(options)
    if options.writer is None:
        pairs = overlaps(model, options.norms)
    else:
        pairs = (overlap(model, options.writer, options.reader, options.norms),)
    draw(options, lambda: draw_overlaps(model, pairs))
    report = OverlapReport(model, pairs, options.top)
    show(report.data, report.text, options)
    return OK
