"""pathexp orders: what paths of each order, and single terms, save of the loss on a corpus."""

from __future__ import annotations

import argparse

from ..circuits.importance import order_importance
from ..report.worth import OrderReport
from .arguments import OK, add_loading_arguments, amount, model_of, show

HELP = "weigh the orders of a model's paths, and single terms, as loss on a corpus"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("corpus", help="a UTF-8 text file")
    parser.add_argument("--model", default="attn-2l", help="a bundled model or a file")
    parser.add_argument(
        "--length", type=int, default=None, metavar="N", help="tokens a window (all of n_ctx)"
    )
    parser.add_argument("--windows", type=int, default=8, metavar="N", help="how many windows to take")
    parser.add_argument(
        "--terms-to", type=int, default=1, metavar="K", help="weigh single terms up to this order"
    )
    parser.add_argument("--top", type=amount, default=12, metavar="K", help="how many terms to list")
    parser.add_argument("--progress", action="store_true", help="say on stderr how far it is")
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
        progress=options.progress,
    )
    report = OrderReport(found, options.top)
    show(report.data, report.text, options)
    return OK
