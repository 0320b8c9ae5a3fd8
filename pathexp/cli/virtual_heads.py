"""pathexp virtual-heads: heads that read what heads wrote, and what they are worth on a corpus."""

from __future__ import annotations

import argparse

from ..circuits.virtual_heads import VirtualShare, virtual_heads, virtual_share
from ..model import Model
from ..report.circuit_pictures import draw_virtual_heads
from ..report.virtual_heads import VirtualHeadsReport
from .arguments import OK, add_model_argument, amount, model_of, show
from .corpora import add_corpus_option, keep, start_of
from .pictures import add_svg_argument, draw

HELP = "list virtual heads, and weigh them as loss on a corpus"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_model_argument(parser)
    add_corpus_option(parser, windows=20)
    parser.add_argument("--order", type=int, default=2, help="heads in a row")
    add_svg_argument(parser, "V-composition as a heat map")
    parser.add_argument("--top", type=amount, default=12, metavar="K", help="how many to list")


def run(options: argparse.Namespace) -> int:
    """List, weigh and print."""
    model = model_of(options)
    share = _share(model, options)
    found = virtual_heads(model, options.order)
    draw(options, lambda: draw_virtual_heads(found))
    report = VirtualHeadsReport(found, options.top, share)
    show(report.data, report.text, options)
    return OK


def _share(model: Model, options: argparse.Namespace) -> VirtualShare | None:
    """What they are worth on the corpus, if there is one."""
    start = start_of(options)
    if options.corpus is None:
        return None
    found = virtual_share(
        model,
        options.corpus,
        length=options.length,
        limit=options.windows,
        start=start,
        seconds=options.seconds,
        progress=options.progress,
    )
    keep(options, found.tally)
    return found
