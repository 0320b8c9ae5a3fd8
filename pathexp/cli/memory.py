"""pathexp memory: heads and neurons that take off what earlier components wrote, by weights and on runs."""

from __future__ import annotations

import argparse

from ..circuits.memory import memory_management
from ..report.memory import MemoryReport
from ..report.subspace_pictures import draw_memory
from .arguments import OK, add_model_argument, model_of, show
from .corpora import add_corpus_option, keep, start_of
from .pictures import add_svg_argument, draw

HELP = "heads and neurons that take off what was written, confirmed on a corpus"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_model_argument(parser)
    parser.add_argument(
        "--top", type=int, default=10, metavar="K", help="how many heads, and neurons, to take"
    )
    add_corpus_option(parser, windows=20)
    add_svg_argument(parser, "candidates as bars")


def run(options: argparse.Namespace) -> int:
    """Rank, measure and print."""
    model = model_of(options)
    found = memory_management(
        model,
        options.corpus,
        k=options.top,
        length=options.length,
        limit=options.windows,
        start=start_of(options),
        seconds=options.seconds,
        progress=options.progress,
    )
    keep(options, found.tally)
    draw(options, lambda: draw_memory(model, found))
    report = MemoryReport(model, found)
    show(report.data, report.text, options)
    return OK
