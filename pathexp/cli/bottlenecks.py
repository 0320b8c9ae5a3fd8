"""pathexp bottlenecks: dimensions written before each depth and read after it, beside those there are."""

from __future__ import annotations

import argparse

from ..circuits.bottleneck import bottlenecks
from ..report.bottlenecks import BottleneckReport
from ..report.subspace_pictures import draw_bottlenecks
from .arguments import OK, add_model_argument, model_of, show
from .corpora import add_corpus_option, keep, start_of
from .pictures import add_svg_argument, draw

HELP = "how many dimensions are written before each depth and read after it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_model_argument(parser)
    add_corpus_option(parser, windows=50)
    add_svg_argument(parser, "the table as bars")


def run(options: argparse.Namespace) -> int:
    """Count, measure and print."""
    model = model_of(options)
    found = bottlenecks(
        model,
        options.corpus,
        length=options.length,
        limit=options.windows,
        start=start_of(options),
        seconds=options.seconds,
        progress=options.progress,
    )
    keep(options, found.tally)
    draw(options, lambda: draw_bottlenecks(model, found))
    report = BottleneckReport(model, found)
    show(report.data, report.text, options)
    return OK
