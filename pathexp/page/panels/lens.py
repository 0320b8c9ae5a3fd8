"""The logit lens of the run, or of both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...circuits.attribution.lens import lens as read_at_every_depth
from ..subject import Subject
from . import shown


def lens(subject: Subject, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the lens of each run toward the target."""
    found = (read_at_every_depth(trace, subject.target_on(trace)) for trace in subject.runs)
    return {"runs": list(map(shown.answer, found))}
