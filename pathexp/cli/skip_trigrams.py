"""pathexp skip-trigrams: what one layer's heads say in tables, and the bugs this forces, shown in the model."""

from __future__ import annotations

import argparse

from ..circuits.raised import Raised, all_raised
from ..circuits.skip_trigrams import Bug, bugs, skip_trigrams
from ..model import Model
from ..report.circuit_pictures import draw_trigrams
from ..report.token_tables import SkipTrigramReport
from .arguments import OK, add_loading_arguments, amount, model_of, show, token_of
from .corpora import keep, start_of
from .pictures import add_svg_argument, draw
from .state import add_state_arguments

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
    add_svg_argument(parser, "the largest as a heat map")
    add_state_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_loading_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Read the tables, measure the bugs, print."""
    model = model_of(options)
    source = None if options.source is None else token_of(options.source)
    largest = skip_trigrams(model, options.top, head=options.head, source=source)
    draw(options, lambda: draw_trigrams(model, largest))
    report = SkipTrigramReport(model, largest, _measured(model, options))
    show(report.data, report.text, options)
    return OK


def _measured(model: Model, options: argparse.Namespace) -> tuple[tuple[Bug, tuple[Raised, ...]], ...]:
    """The largest bugs, each with its four skip-trigrams in the running model; sums are those of all."""
    found = bugs(model, options.bugs)
    rises = all_raised(
        model,
        [trigram for bug in found for trigram in bug.all],
        contexts=options.contexts,
        start=start_of(options),
        seconds=options.seconds,
        progress=options.progress,
    )
    keep(options, rises[0].tally if rises else None)
    return tuple((bug, rises[4 * i : 4 * i + 4]) for i, bug in enumerate(found))
