"""What commands that average over texts of their own share: how far it is, and where to go on from."""

from __future__ import annotations

import argparse


def add_state_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare --progress and --resume; `corpora.start_of` and `corpora.keep` read and write its file."""
    group = parser.add_argument_group("a long count; Ctrl-C stops and shows what there is")
    group.add_argument("--progress", action="store_true", help="say on stderr how far it is")
    group.add_argument(
        "--resume",
        metavar="FILE",
        help="go on from the sums in this .npz, if it is there, and keep them in it",
    )
