"""Cut a branch: the likeliest tokens before and after, frozen and live, side by side."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...circuits.interventions.cuts import checked_cuts
from ...circuits.interventions.intervene import Intervention
from ...model import Trace
from ..subject import Subject
from ..view import words
from . import shown

FIRST = 5


def cut(subject: Subject, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what cutting the paths of a query changes, in each run: five likeliest tokens, and the target."""
    query = _of_one_run(words(given, "query"))
    return {"query": query, "runs": [_cut(subject, trace, query) for trace in subject.runs]}


def _of_one_run(query: str) -> str:
    """A query of a contrast names ports, `L1H0.K`; cut are the paths through the component."""
    return re.sub(r"\b(L\d+(?:H\d+|M))\.\w+", r"\1", query)


def _cut(subject: Subject, trace: Trace, query: str) -> dict[str, Any]:
    target = subject.target_on(trace)
    (cut,) = checked_cuts(trace, query, None, None).values()
    one, place = Intervention(trace, cut), target.position
    states = dict(zip(("frozen", "live"), one.at(place), strict=True))
    frozen, live = (float(row @ target.direction) - target.value for row in states.values())
    return {
        "tokens": {
            name: shown.likeliest(trace, row, FIRST)
            for name, row in {"before": trace.logits[place], **states}.items()
        },
        "target": shown.logits(target.value),
        "effect": {"frozen": frozen, "live": live},
        "said": {"frozen": shown.logits(frozen), "live": shown.logits(live), "price": shown.logits(frozen - live)},
        "paths": shown.amount(one.paths),
    }  # fmt: skip
