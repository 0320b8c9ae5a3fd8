"""pathexp heads: what every head of a model does on repeated random tokens, and whether it copies."""

from __future__ import annotations

import argparse

from ..circuits.heads.copying import Copying, copying
from ..circuits.heads.head_types import head_kinds
from ..errors import PathexpError
from ..model import Model
from ..report.heads import HeadsReport
from ..report.spectra import draw_spectra
from .arguments import OK, add_model_argument, model_of, show
from .corpora import keep, start_of
from .pictures import add_svg_argument, draw
from .state import add_state_arguments

HELP = "say what every head of a model does, and whether it copies"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_model_argument(parser)
    add_repeated_arguments(parser)
    parser.add_argument("--texts", metavar="FILE", help="say windows of this text twice, not random tokens")
    add_svg_argument(parser, "the spectra of the OV circuits")


def add_repeated_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare how random tokens are said twice."""
    parser.add_argument(
        "--length", type=int, default=None, help="random tokens a copy (default: 50, or as many as fit)"
    )
    parser.add_argument("--runs", type=int, default=8, help="how many texts")
    parser.add_argument(
        "--prefix", type=int, nargs="*", default=[], metavar="ID", help="token ids that go before"
    )
    parser.add_argument("--seed", type=int, default=0)
    add_state_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Measure, read the spectra, print."""
    model = model_of(options)
    kinds = head_kinds(
        model,
        options.texts,
        length=options.length,
        runs=options.runs,
        prefix=options.prefix,
        seed=options.seed,
        start=start_of(options),
        seconds=options.seconds,
        progress=options.progress,
    )
    keep(options, kinds.tally)
    copies = _copies(model)
    draw(options, lambda: _drawn(model, copies))
    report = HeadsReport(kinds, copies)
    show(report.data, report.text, options)
    return OK


def _drawn(model: Model, copies: tuple[Copying, ...] | None) -> str:
    if copies is None:
        raise PathexpError("the OV circuits of this model cannot be read off its weights: nothing to draw")
    return draw_spectra([(each.label, each.ov) for each in copies], f"OV spectra of {model.name}")


def _copies(model: Model) -> tuple[Copying, ...] | None:
    """The spectra, where token tables can be read off the weights."""
    return None if model.config.norm_placement == "post" else copying(model)
