"""The logit lens of the run, or of both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...answer import Document, Figure, visible
from ...circuits.attribution.lens import lens as read_at_every_depth
from ..subject import Subject
from . import shown

COLUMNS = 60
"""How many positions the picture has at most, the last of them the one that is asked about."""


def lens(subject: Subject, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the lens of each run toward the target: its tables, and the target by state and position as a picture."""
    found = (read_at_every_depth(trace, subject.target_on(trace)) for trace in subject.runs)
    return {"runs": [_shown(each.document, each.target.position) for each in found]}


def _shown(document: Document, position: int) -> dict[str, Any]:
    """A document is computed each time an answer is asked for it; here it is passed along."""
    return shown.answer(document) | {"picture": _picture(document, position)}


def _picture(document: Document, position: int) -> dict[str, Any]:
    """The figure of a lens, (states, positions), with the words for each number and what every state predicts."""
    data, states = document.of(Figure)[0].data, document.table("states").records()
    count = len(data["columns"])
    first = max(0, position + 1 - COLUMNS)
    positions = range(first, min(count, first + COLUMNS))
    values = [[row[place] for place in positions] for row in data["values"]]
    return {
        "states": data["rows"], "positions": [data["columns"][place] for place in positions], "asked": position - first,
        "values": values, "said": [[shown.logits(value) for value in row] for row in values],
        "tops": [{"token": visible(str(row["top_token"])), "said": f"{row['probability']:.3f}"} for row in states],
        "most": shown.logits(max(abs(value) for row in values for value in row)).lstrip("+"),
        "left": count - len(positions),
    }  # fmt: skip
