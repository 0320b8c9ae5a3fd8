"""What a search leaves behind so that somebody else can check that no path was missed. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...graph import Array

Word = tuple[str, ...]
"""Labels: of the beginning of a path from its source on, or of its ending up to the sink, which is left out."""


@dataclass(frozen=True, eq=False)
class Certificate:
    """A cover of all paths by endings, and sets that hold what their beginnings bring.

    Parameters
    ----------
    entries: in front of every block, and of the sink, the beginnings that are known one by one.
    sets: there, by the query's state, triangles L (n, d, d): every other beginning is L z, ‖z‖ ≤ 1, at each position.
    opened: the endings that were continued into all components in front of them; every other one was cut.
    """

    entries: tuple[frozenset[Word], ...]
    sets: tuple[Mapping[int, Array], ...]
    opened: frozenset[Word]
