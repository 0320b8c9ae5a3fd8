"""pathexp swap: one head's OV or QK exchanged with another's, and what the model says then."""

from __future__ import annotations

import argparse

from ..circuits.heads.head_edits import swap_ov, swap_qk
from ..report.exchange import SwapReport
from .arguments import OK, add_run_arguments, amount, model_of, run_of, show

HELP = "exchange what two heads bring (OV) or where they look (QK), and run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("first", metavar="HEAD", help="a label such as L0H1")
    parser.add_argument("second", metavar="HEAD", help="another")
    add_run_arguments(parser)
    parser.add_argument("--circuit", choices=("OV", "QK"), default="OV", help="what is exchanged")
    parser.add_argument("--top", type=amount, default=5, metavar="K", help="how many predictions to list")


def run(options: argparse.Namespace) -> int:
    """Run, exchange, run again and print."""
    model = model_of(options)
    swap = swap_ov if options.circuit == "OV" else swap_qk
    swapped = swap(model, options.first, options.second)
    traces = run_of(model, options), run_of(swapped, options)
    report = SwapReport((options.first, options.second), options.circuit, *traces, options.top)
    show(report.data, report.text, options)
    return OK
