"""The windows and tokens of an average, in words and for machines."""

from __future__ import annotations

from ...answer import Facts
from ...expansion.header import counted
from ..corpus.tally import Tally


def tally_facts(tally: Tally | None) -> Facts:
    """Return how many windows and tokens were measured, for machines: none without a corpus."""
    return Facts({"windows": tally.windows if tally else 0, "tokens": tally.tokens if tally else 0})


def measured(tally: Tally | None) -> str:
    """Return how many windows and tokens were measured, to end a headline; nothing without a corpus.

    >>> measured(None)
    ''
    """
    if tally is None:
        return ""
    return f"; measured on {counted(tally.windows, 'window')}{tally.drawn}, {counted(tally.tokens, 'token')}"
