"""pathexp order-blind: can a model tell order? Permute a text, and see whether the output is permuted alike."""

from __future__ import annotations

import argparse

from ..circuits.order import order_blind
from ..report.order import OrderBlindReport
from ..report.subspace_pictures import draw_order
from .arguments import OK, add_run_arguments, amount, input_of, model_of, show
from .pictures import add_svg_argument, draw

HELP = "permute a text and see whether the model notices"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_run_arguments(parser)  # without a text: a few random tokens
    parser.add_argument("--seed", type=amount, default=0, metavar="N", help="of the permutation")
    add_svg_argument(parser, "the change at each place as bars")


def run(options: argparse.Namespace) -> int:
    """Permute, run and print."""
    model = model_of(options)
    given = options.text is not None or options.tokens is not None
    found = order_blind(model, input_of(options) if given else None, seed=options.seed)
    draw(options, lambda: draw_order(model, found))
    report = OrderBlindReport(model, found)
    show(report.data, report.text, options)
    return OK
