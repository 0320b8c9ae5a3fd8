"""pathexp orders: what paths of each order, and single terms, save of the loss on a corpus."""

from __future__ import annotations

import argparse

from ..circuits.importance import order_importance
from ..report.worth import OrderReport
from ..report.worth_pictures import draw_orders
from .arguments import OK, add_loading_arguments, amount, model_of, show
from .corpora import add_window_arguments, keep, start_of
from .pictures import add_svg_argument, draw

HELP = "weigh the orders of a model's paths, and single terms, as loss on a corpus"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("corpus", help="a UTF-8 text file")
    parser.add_argument("--model", default="attn-2l", help="a bundled model or a file")
    parser.add_argument(
        "--terms-to", type=int, default=1, metavar="K", help="weigh single terms up to this order"
    )
    parser.add_argument("--top", type=amount, default=12, metavar="K", help="how many terms to list")
    add_window_arguments(parser, windows=8)
    add_svg_argument(parser, "what orders and terms save as bars")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_loading_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Measure and print."""
    found = order_importance(
        model_of(options),
        options.corpus,
        length=options.length,
        limit=options.windows,
        terms_to=options.terms_to,
        start=start_of(options),
        seconds=options.seconds,
        progress=options.progress,
    )
    keep(options, found.tally)
    draw(options, lambda: draw_orders(found, options.top))
    report = OrderReport(found, options.top)
    show(report.data, report.text, options)
    return OK
