"""pathexp induction: a model's induction heads, from weights, from runs, and why."""

from __future__ import annotations

import argparse

from ..circuits.heads.induction import induction_heads
from ..circuits.heads.induction_score import KeyPath, explain_induction
from ..report.circuit_pictures import draw_kinds
from ..report.heads import InductionReport
from .arguments import OK, add_model_argument, model_of, show
from .corpora import keep, start_of
from .heads import add_repeated_arguments
from .pictures import add_svg_argument, draw

HELP = "find induction heads from the weights, confirm them on runs, explain their scores"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_model_argument(parser)
    add_repeated_arguments(parser)
    add_svg_argument(parser, "what every head attends to")


def run(options: argparse.Namespace) -> int:
    """Find, confirm, explain and print."""
    model = model_of(options)
    how = {"length": options.length, "prefix": options.prefix, "seed": options.seed}
    found = induction_heads(
        model,
        runs=options.runs,
        start=start_of(options),
        seconds=options.seconds,
        progress=options.progress,
        **how,
    )
    keep(options, found.kinds.tally)
    explained: list[KeyPath] = []
    for label in found.from_data:
        pair = found.before(label)
        if pair is not None:
            explained.append(explain_induction(model, label, pair.before, seconds=options.seconds, **how))
    draw(options, lambda: draw_kinds(found.kinds))
    report = InductionReport(found, tuple(explained))
    show(report.data, report.text, options)
    return OK
