"""pathexp compose: which components read what which others write, beside chance."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..circuits import composition_score, composition_table
from ..report.composition import CompositionReport, draw_composition
from .arguments import OK, add_model_argument, amount, model_of, show

HELP = "score how much of what one component writes another reads"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_model_argument(parser)
    parser.add_argument(
        "--norms", default="folded", choices=("folded", "raw"), help="whether norms are folded into readers"
    )
    parser.add_argument(
        "--distance", type=int, default=0, help="under rotary positions, how far the key stands before"
    )
    parser.add_argument("--path", default=None, help="also a path of several hops, such as 'L0H1 L1H2 U'")
    parser.add_argument("--top", type=amount, default=20, metavar="K", help="how many pairs to list")
    parser.add_argument("--svg", metavar="FILE", default=None, help="draw all scores beside chance")


def run(options: argparse.Namespace) -> int:
    """Score all partners, draw, print."""
    model = model_of(options)
    scores = composition_table(model, norms=options.norms, distance=options.distance)
    path = (
        None if options.path is None else composition_score(model, options.path.split(), norms=options.norms)
    )
    if options.svg is not None:
        Path(options.svg).write_text(
            draw_composition(scores, f"composition in {model.name}, over chance"), encoding="utf-8"
        )
    report = CompositionReport(scores, options.top, path)
    show(report.data, report.text, options)
    return OK
