"""Heads as pictures: the token tables of both circuits where they are largest, a row of heat maps a head."""

from __future__ import annotations

import numpy as np

from ..circuits.heads.head import Head
from .heads import CircuitsReport
from .svg import grid, heat_map
from .text import visible


def draw_heads(report: CircuitsReport) -> str:
    """Return heat maps of both token tables of each head, over the tokens of their largest entries.

    QK in scores, from which token (rows) at which (columns); OV in logits, from which token what is raised. Of t
    listed entries a map has at most t × t cells, of which each is the table's. Elhage et al. 2021, "Splitting
    Attention Head terms into Circuits".

    >>> import pathexp as px
    >>> drawing = draw_heads(CircuitsReport((px.head(px.induction_model(), "L1H0"),), None, 3))
    >>> drawing.startswith("<svg"), "L1H0 OV" in drawing
    (True, True)
    """
    rows = [[_draw(report, head, what) for what in ("QK", "OV")] for head in report.heads]
    return grid(rows, "token tables of " + ", ".join(head.label for head in report.heads))


def _draw(report: CircuitsReport, head: Head, what: str) -> str:
    listed = list(report.entries(head, what))
    rows = list(dict.fromkeys(row for row, _, _ in listed))
    columns = list(dict.fromkeys(column for _, column, _ in listed))
    table = report.table(head, what) * report.scale(head, what)
    if what == "OV":
        table = table.T
    chosen = np.zeros((len(columns), table.source.size))
    chosen[np.arange(len(columns)), columns] = 1.0
    names = [[visible(head.model.token_string(token)) for token in side] for side in (rows, columns)]
    said = ("looks from", "looks at") if what == "QK" else ("from", "raises")
    return heat_map(
        table.apply(chosen)[:, rows].T,
        *names,
        title=f"{head.label} {what}",
        row_name=said[0],
        column_name=said[1],
    )
