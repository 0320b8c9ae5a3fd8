"""What commands that draw share: the --svg argument, and writing the file."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from ..errors import PathexpError


def add_svg_argument(parser: argparse.ArgumentParser, what: str) -> None:
    """Declare --svg."""
    parser.add_argument("--svg", metavar="FILE", default=None, help=f"also draw {what} to an SVG file")


def draw(options: argparse.Namespace, drawing: Callable[[], str]) -> None:
    """Write a drawing where --svg says, if it does."""
    if options.svg is None:
        return
    try:
        Path(options.svg).write_text(drawing(), encoding="utf-8")
    except OSError as error:
        raise PathexpError(f"cannot write the picture to {options.svg!r}: {error}") from None
