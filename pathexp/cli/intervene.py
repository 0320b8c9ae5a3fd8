"""pathexp intervene: take paths away, or let them carry another text, frozen and live."""

from __future__ import annotations

import argparse

from ..circuits.copies import SIDES
from ..circuits.interventions import Cut, along, through
from ..errors import PathexpError
from ..graph import Query
from ..report.interventions import report_interventions
from ..report.worth_pictures import draw_interventions
from .arguments import OK, add_run_arguments, add_target_arguments, model_of, run_of, show, target_of
from .pictures import add_svg_argument, draw

HELP = "take paths away, or let them carry another text: frozen and live side by side"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_run_arguments(parser)
    add_target_arguments(parser)
    parser.add_argument("--node", metavar="LABEL", help="all paths through a component or from a source")
    parser.add_argument(
        "--edge",
        nargs=2,
        metavar=("WRITER", "READER"),
        help="all paths along an edge; a reader may be U, or a port of a head: L1H0.Q, .K, .V",
    )
    parser.add_argument("--cut", metavar="QUERY", help="all paths that match a query, such as 'E L0H1 U'")
    parser.add_argument(
        "--carry",
        metavar="TEXT",
        help="let the paths carry this text, as long as the first, instead of nothing",
    )
    parser.add_argument(
        "--sides", default=SIDES, help="what reads along the paths: q, k, v of heads, m of MLPs"
    )
    add_svg_argument(parser, "frozen and live effects as bars")


def run(options: argparse.Namespace) -> int:
    """Run, intervene and print."""
    model = model_of(options)
    trace = run_of(model, options)
    other = None if options.carry is None else model.run(options.carry)
    report = report_interventions(trace, target_of(trace, options), _cut(options), other, options.sides)
    draw(options, lambda: draw_interventions(report))
    show(report.data, report.text, options)
    return OK


def _cut(options: argparse.Namespace) -> str | Query | Cut | None:
    """The paths of the command line; None for those of each component in turn."""
    given = [name for name in ("node", "edge", "cut") if getattr(options, name) is not None]
    if len(given) > 1:
        raise PathexpError(f"give one of --node, --edge, --cut; found --{', --'.join(given)}")
    if options.node is not None:
        return through(options.node)
    if options.edge is not None:
        return along(*options.edge)
    return None if options.cut is None else str(options.cut)
