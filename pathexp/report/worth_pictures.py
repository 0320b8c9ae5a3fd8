"""Pictures of what things are worth: interventions, a logit at every depth."""

from __future__ import annotations

import numpy as np

from ..circuits.lens import Lens
from ..model import Target
from .bars import bars
from .interventions import InterventionReport
from .svg import heat_map
from .text import visible


def draw_interventions(report: InterventionReport) -> str:
    """Return bars of what each intervention changes of the target, frozen and live."""
    rows = [name for name, _ in report.found]
    values = np.array([found.effect(report.target) for _, found in report.found]).reshape(-1, 2)
    title = f"{report.target.label}: what changes, {report.what}"
    return bars(rows, values, ["frozen", "live"], title=title)


def draw_lens(lens: Lens, target: Target) -> str:
    """Return a heat map of a target's direction in the logits of every state (rows) at every position (columns)."""
    trace = lens.trace
    columns = [f"{i} {visible(token)}" for i, token in enumerate(trace.token_strings)]
    title = f"{target.label}, by state and position, mode {lens.mode}"
    return heat_map(lens.logits @ target.direction, lens.points, columns, title=title, column_name="position")
