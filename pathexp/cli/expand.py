"""pathexp expand: a run of a model, taken apart into path terms and proven."""

from __future__ import annotations

import argparse

from ..report import explain
from .arguments import (
    NOT_PROVEN,
    OK,
    add_run_arguments,
    add_target_arguments,
    input_of,
    model_of,
    show,
    target_of,
)

HELP = "expand a run of a model into path terms"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_run_arguments(parser)
    add_target_arguments(parser)
    parser.add_argument("--top", type=int, default=12, metavar="K", help="how many terms to list")
    parser.add_argument("--query", default="() | ~()", help="only paths that match, such as 'E .* L1H3 U'")
    parser.add_argument(
        "--mlp", choices=["gate", "source"], default="gate", help="paths pass through MLPs, or start at them"
    )
    parser.add_argument(
        "--seconds", type=float, metavar="S", help="how long to search for the largest of very many paths"
    )
    parser.add_argument("--progress", action="store_true", help="say on stderr how far that search is")


def run(options: argparse.Namespace) -> int:
    """Expand, rank, total, verify and print."""
    report = explain(
        model_of(options),
        input_of(options),
        aim=lambda trace: target_of(trace, options),
        condition=options.query,
        mlp=options.mlp,
        top=options.top,
        seconds=options.seconds,
        progress=options.progress,
    )
    show(report.data, report.text, options)
    return OK if report.verdict.ok else NOT_PROVEN
