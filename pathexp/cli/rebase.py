"""pathexp rebase: a head's queries, keys and values in another basis, and nothing that the model computes changes."""

from __future__ import annotations

import argparse

import numpy as np

from ..circuits.heads.head_edits import rebase_ov, rebase_qk
from ..report.exchange import RebaseReport
from .arguments import NOT_PROVEN, OK, add_run_arguments, amount, model_of, run_of, show

HELP = "re-base a head's queries, keys and values: they change, and nothing else does"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("head", metavar="HEAD", help="a label such as L0H1")
    add_run_arguments(parser)
    parser.add_argument(
        "--circuit", choices=("OV", "QK"), default=None, help="only values, or only queries and keys"
    )
    parser.add_argument("--seed", type=amount, default=0, metavar="N", help="of the random basis")


def run(options: argparse.Namespace) -> int:
    """Run, re-base, run again and print."""
    model = rebased = model_of(options)
    size = model.config.d_head
    basis = np.random.default_rng(options.seed).standard_normal((size, size))
    circuits = ("OV", "QK") if options.circuit is None else (options.circuit,)
    for circuit in circuits:
        rebased = (rebase_ov if circuit == "OV" else rebase_qk)(rebased, options.head, basis)
    report = RebaseReport(options.head, circuits, run_of(model, options), run_of(rebased, options))
    show(report.data, report.text, options)
    return OK if report.ok else NOT_PROVEN
