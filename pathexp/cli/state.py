"""What commands that average share: how far it is, when to stop, and where to go on from."""

from __future__ import annotations

import argparse
import math


def add_state_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare --progress, --seconds and --resume; `corpora.start_of` and `corpora.keep` read and write its file."""
    group = parser.add_argument_group("a long count; Ctrl-C stops and shows what there is")
    group.add_argument("--progress", action="store_true", help="say on stderr how far it is")
    group.add_argument(
        "--seconds",
        type=duration,
        default=None,
        metavar="S",
        help="stop after the text during which so much time is over, and show what there is",
    )
    group.add_argument(
        "--resume",
        metavar="FILE",
        help="go on from the sums in this .npz, if it is there, and keep them in it",
    )


def duration(text: str) -> float:
    """A number of seconds above 0.

    >>> duration("2.5")
    2.5
    """
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not (math.isfinite(found) and found > 0):
        raise argparse.ArgumentTypeError(f"takes a number of seconds above 0, found {text!r}")
    return found
