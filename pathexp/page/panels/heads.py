"""All heads as squares: what each adds to the target, or what it does on random repeats, or how much it copies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...circuits.attribution.attribution import attribution
from ...errors import PathexpError
from ...graph import Contrast
from ...labels import head_label
from ..subject import Subject
from . import shown

_HEAD = re.compile(r"L\d+H\d+")
_BY_TYPE = {"previous-token": "previous_token", "induction": "induction", "copying": "ov"}


def heads(subject: Subject, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return one number a head, (layers, heads): `by` is contribution, previous-token, induction or copying."""
    by = given.get("by") or "contribution"
    if by == "contribution":
        values = _contributions(subject)
    elif by in _BY_TYPE:
        values = _measured(subject, str(by))
    else:
        raise PathexpError(f"by: expected contribution or one of {', '.join(_BY_TYPE)}, got {by!r:.40}")
    layers, heads = subject.model.config.n_layers, subject.model.config.n_heads
    rows = [[values.get(head_label(layer, head)) for head in range(heads)] for layer in range(layers)]
    said = [[None if value is None else shown.logits(value) for value in row] for row in rows]
    return {"by": by, "unit": "logits" if by == "contribution" else "", "values": rows, "said": said,
            "rest": _rest(subject, by, values)}  # fmt: skip


def _contributions(subject: Subject) -> dict[str, float]:
    what = subject.graph if isinstance(subject.graph, Contrast) else subject.trace
    found = attribution(what, subject.target, by="head")
    return dict(found.ranked())


def _measured(subject: Subject, by: str) -> dict[str, float]:
    rows, name = subject.head_types().records(), _BY_TYPE[by]
    if not any(name in row for row in rows):
        raise PathexpError(f"the heads of this model are not measured by {by}")
    return {str(row["head"]): float(value) for row in rows if isinstance(value := row[name], int | float)}


def _rest(subject: Subject, by: object, values: Mapping[str, float]) -> list[dict[str, Any]]:
    """What is no head: embedding, MLPs, constants, each as one row."""
    if by != "contribution":
        return []
    return [
        {"name": name, "value": value, "said": shown.logits(value)}
        for name, value in values.items()
        if not _HEAD.fullmatch(name)
    ]
