"""pathexp score: one attention score, taken apart into pairs of paths and proven."""

from __future__ import annotations

import argparse

from ..expansion import KINDS, expand_score
from ..graph.reading import head_place
from ..model import Trace
from ..report.circuit_pictures import draw_score
from ..report.score import report_score
from .arguments import NOT_PROVEN, OK, add_run_arguments, model_of, run_of, show
from .pictures import add_svg_argument, draw

HELP = "expand one attention score into pairs of paths"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_run_arguments(parser)
    parser.add_argument("--head", default="L0H0", help="the head, such as L1H3")
    parser.add_argument("--query", type=int, default=-1, metavar="POSITION", help="the position that looks")
    parser.add_argument(
        "--key",
        type=int,
        default=None,
        metavar="POSITION",
        help="the position looked at (default: the most attended)",
    )
    parser.add_argument("--top", type=int, default=12, metavar="K", help="how many terms to list")
    parser.add_argument("--kind", default=None, choices=KINDS, help="only terms of one kind")
    parser.add_argument(
        "--query-paths", default=None, metavar="QUERY", help="only query paths that match, such as 'E .* Q'"
    )
    parser.add_argument(
        "--key-paths", default=None, metavar="QUERY", help="only key paths that match, such as 'S .* L0H1 K'"
    )
    add_svg_argument(parser, "what each kind of term adds to every key")


def run(options: argparse.Namespace) -> int:
    """Expand the score, rank, total, verify and print."""
    trace = run_of(model_of(options), options)
    key = _most_attended(trace, options) if options.key is None else options.key
    terms = expand_score(trace, options.head, options.query, key)
    terms = terms.where(kind=options.kind, query=options.query_paths, key=options.key_paths)
    draw(options, lambda: draw_score(terms))
    report = report_score(terms, options.top)
    show(report.data, report.text, options)
    return OK if report.verdict.ok else NOT_PROVEN


def _most_attended(trace: Trace, options: argparse.Namespace) -> int:
    """The key that the head attends to most from the query; any key of a query that is not there."""
    rows = trace.patterns[head_place(trace.config, options.head)]
    return int(rows[options.query].argmax()) if -len(rows) <= options.query < len(rows) else 0
