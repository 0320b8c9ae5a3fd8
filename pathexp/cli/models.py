"""pathexp models: the trained models that ship with the package."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from ..model import models
from ..report import table
from .arguments import OK, show

HELP = "list the trained models that ship with pathexp"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """List the models and print."""
    show(lambda: [asdict(card) for card in models()], _text, options)
    return OK


def _text() -> str:
    rows = [
        [card.name, card.description, f"{card.parameters:,}", f"{card.text_loss:.2f}"] for card in models()
    ]
    return table(["model", "what it is", "parameters", "loss (nats a token)"], rows, "<<>>")
