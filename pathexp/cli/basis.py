"""pathexp basis: which spaces have a basis of their own, by the weights and by activations."""

from __future__ import annotations

import argparse

from ..circuits.basis import basis_kurtosis
from ..circuits.privilege import basis_privilege
from ..report.basis import BasisReport
from ..report.subspace_pictures import draw_basis
from .arguments import OK, add_model_argument, amount, model_of, show
from .corpora import add_corpus_option, keep, start_of
from .pictures import add_svg_argument, draw

HELP = "which spaces have a basis of their own, by the weights and on a corpus"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_model_argument(parser)
    parser.add_argument("--seed", type=amount, default=0, metavar="N", help="of the random turns")
    add_corpus_option(parser, windows=20)
    add_svg_argument(parser, "kurtoses as bars")


def run(options: argparse.Namespace) -> int:
    """Turn, measure and print."""
    model, start = model_of(options), start_of(options)
    found = None
    if options.corpus is not None:
        found = basis_kurtosis(
            model,
            options.corpus,
            length=options.length,
            limit=options.windows,
            seed=options.seed,
            start=start,
            seconds=options.seconds,
            progress=options.progress,
        )
        keep(options, found.tally)
    draw(options, lambda: draw_basis(model, found))
    report = BasisReport(model, basis_privilege(model, seed=options.seed), found)
    show(report.data, report.text, options)
    return OK
