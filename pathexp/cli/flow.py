"""pathexp flow: how much of a logit passes along every edge of the residual graph."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

import networkx as nx

from ..expansion import expand
from ..report.dot import dot
from ..report.flow import report_flow
from ..report.graph_files import graph_json, graphml
from ..report.sankey import sankey
from .arguments import (
    NOT_PROVEN,
    OK,
    add_run_arguments,
    add_target_arguments,
    amount,
    model_of,
    run_of,
    show,
    target_of,
)

HELP = "show how much of a logit passes along every edge"

WRITERS: Mapping[str, Callable[[nx.MultiDiGraph], str]] = {
    "dot": dot,
    "graphml": graphml,
    "graph_json": graph_json,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_run_arguments(parser)
    add_target_arguments(parser)
    parser.add_argument("--query", default=None, help="only paths that match, such as 'E .* L1H3 U'")
    parser.add_argument("--share", type=float, default=0.9, help="the part of the target that pruning keeps")
    parser.add_argument(
        "--top", type=amount, default=12, metavar="K", help="how many nodes and edges to list"
    )
    parser.add_argument("--per-position", action="store_true", help="one node per component and position")
    parser.add_argument(
        "--all", action="store_true", help="write and draw the whole flow, not the pruned one"
    )
    parser.add_argument("--svg", metavar="FILE", default=None, help="draw the flow")
    for name in WRITERS:
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            metavar="FILE",
            default=None,
            help=f"write the flow as {name.replace('_', ' ')}",
        )


def run(options: argparse.Namespace) -> int:
    """Trace, prune, check, write and print."""
    trace = run_of(model_of(options), options)
    terms = expand(trace) if options.query is None else expand(trace, options.query)
    report = report_flow(terms, target_of(trace, options), options.share, options.top, options.per_position)
    chosen = report.whole if options.all else report.kept
    if options.svg is not None:
        Path(options.svg).write_text(
            sankey(chosen, f"{report.target.label}, position {report.target.position}"), encoding="utf-8"
        )
    for name, write in WRITERS.items():
        if (path := getattr(options, name)) is not None:
            Path(path).write_text(write(chosen), encoding="utf-8")
    show(report.data, report.text, options)
    return OK if report.ok else NOT_PROVEN
