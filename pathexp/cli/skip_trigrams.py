"""pathexp skip-trigrams: what one layer's heads say in tables, and the bugs this forces, shown in the model."""

from __future__ import annotations

import argparse

from ..circuits.raised import happens
from ..circuits.skip_trigrams import bugs, skip_trigrams
from ..report.circuit_pictures import draw_trigrams
from ..report.token_tables import SkipTrigramReport
from .arguments import OK, add_loading_arguments, amount, model_of, show, token_of
from .pictures import add_svg_argument, draw
from .state import duration

HELP = "read skip-trigrams off a one-layer model, and show the bugs they force"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("model", nargs="?", default="attn-1l", help="a bundled model or a file")
    parser.add_argument("--head", default=None, help="only one head, such as L0H3")
    parser.add_argument(
        "--source", default=None, metavar="TOKEN", help="only one source: a token, or an id as #17"
    )
    parser.add_argument("--top", type=amount, default=12, metavar="K", help="how many to list")
    parser.add_argument("--bugs", type=amount, default=3, metavar="K", help="how many bugs to show")
    parser.add_argument("--contexts", type=int, default=64, help="random contexts in which each is measured")
    parser.add_argument("--progress", action="store_true", help="say on stderr how far it is")
    parser.add_argument(
        "--seconds", type=duration, default=None, metavar="S", help="measure each no longer than this"
    )
    add_svg_argument(parser, "the largest as a heat map")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_loading_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Read the tables, measure the bugs, print."""
    model = model_of(options)
    source = None if options.source is None else token_of(options.source)
    largest = skip_trigrams(model, options.top, head=options.head, source=source)
    draw(options, lambda: draw_trigrams(model, largest))
    measured = tuple(
        (
            bug,
            happens(
                model, bug, contexts=options.contexts, seconds=options.seconds, progress=options.progress
            ),
        )
        for bug in bugs(model, options.bugs)
    )
    report = SkipTrigramReport(model, largest, measured)
    show(report.data, report.text, options)
    return OK
