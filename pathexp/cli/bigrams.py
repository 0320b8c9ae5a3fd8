"""pathexp bigrams: a model's direct path beside the bigrams of a corpus."""

from __future__ import annotations

import argparse

from ..circuits.bigrams import bigrams
from ..report.circuit_pictures import draw_bigrams
from ..report.token_tables import BigramReport
from .arguments import OK, add_loading_arguments, amount, model_of, show
from .corpora import keep, start_of
from .pictures import add_svg_argument, draw
from .state import add_state_arguments

HELP = "compare a model's direct path with the bigrams of a corpus"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("corpus", help="a UTF-8 text file")
    parser.add_argument("--model", default="attn-0l", help="a bundled model or a file")
    parser.add_argument("--at-least", type=int, default=5, metavar="N", help="compare bigrams seen so often")
    parser.add_argument("--top", type=amount, default=12, metavar="K", help="how many to list")
    parser.add_argument(
        "--texts",
        type=amount,
        default=None,
        metavar="N",
        help="read only so many pieces of 65,536 characters",
    )
    add_state_arguments(parser)
    add_svg_argument(parser, "both sides as a scatter")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_loading_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Count, compare and print."""
    model = model_of(options)
    found = bigrams(
        model,
        options.corpus,
        options.at_least,
        start=start_of(options),
        limit=options.texts,
        seconds=options.seconds,
        progress=options.progress,
    )
    keep(options, found.tally)
    draw(options, lambda: draw_bigrams(found))
    report = BigramReport(model, found, options.top)
    show(report.data, report.text, options)
    return OK
