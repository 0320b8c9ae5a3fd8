"""Residual graphs as notebooks show them: their labels, block by block, and what is held fixed."""

from __future__ import annotations

from collections.abc import Sequence

from ..answer import Note, Report

FIRST = 120
"""How many labels are listed."""


def shown(headline: str, labels: Sequence[str], frozen: Sequence[str]) -> Report:
    """Return a graph as an answer."""
    left = f" … {len(labels) - FIRST:,} more" if len(labels) > FIRST else ""
    listed = Note(" ".join(labels[:FIRST]) + left, "labels")
    return Report(headline, (listed, Note("\n".join(frozen) or "nothing is held fixed", "frozen")))
