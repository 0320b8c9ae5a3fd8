"""Commands that show a run in a browser."""

from __future__ import annotations

from ..model import Target, Trace
from ..page.explore import Exploration, explore
from ..page.report import report
from .command import Command, Option, whole


def explored(trace: Trace, target: Target, **options: object) -> Exploration:
    """Serve the page of a run, with the target of the command line."""
    return explore(trace, target=target, **options)  # type: ignore[arg-type]


COMMANDS = (
    Command(
        "explore", explored, "one run",
        "serve a page on this machine to explore a run: exact sums, paths, flow, heads, cuts",
        "pathexp explore attn-2l 'To be, or not to be'",
        takes="target", serves=True,
        options=(
            Option("port", "the port to listen on (a free one)", whole(0), metavar="N"),
            Option("browser", "open the page in the standard browser", flag=True),
        ),
    ),
    Command(
        "report", report, "one run",
        "write the page of a run as one file that opens without a server",
        "pathexp report attn-2l 'To be, or not to be' --save page.html",
        takes="target", saves=True,
    ),
)  # fmt: skip
