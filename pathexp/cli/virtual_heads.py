"""pathexp virtual-heads: heads that read what heads wrote, and what they are worth on a corpus."""

from __future__ import annotations

import argparse

from ..circuits.virtual_heads import virtual_heads, virtual_share
from ..report.circuit_pictures import draw_virtual_heads
from ..report.virtual_heads import VirtualHeadsReport
from .arguments import OK, add_model_argument, amount, model_of, show
from .pictures import add_svg_argument, draw

HELP = "list virtual heads, and weigh them as loss on a corpus"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_model_argument(parser)
    parser.add_argument("--corpus", default=None, metavar="FILE", help="a UTF-8 text file to weigh them on")
    parser.add_argument("--windows", type=int, default=20, metavar="N", help="how many windows of it")
    parser.add_argument("--order", type=int, default=2, help="heads in a row")
    add_svg_argument(parser, "V-composition as a heat map")
    parser.add_argument("--top", type=amount, default=12, metavar="K", help="how many to list")


def run(options: argparse.Namespace) -> int:
    """List, weigh and print."""
    model = model_of(options)
    share = None if options.corpus is None else virtual_share(model, options.corpus, limit=options.windows)
    found = virtual_heads(model, options.order)
    draw(options, lambda: draw_virtual_heads(found))
    report = VirtualHeadsReport(found, options.top, share)
    show(report.data, report.text, options)
    return OK
