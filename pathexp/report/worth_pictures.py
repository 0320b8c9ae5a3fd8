"""Pictures of what things are worth: interventions."""

from __future__ import annotations

import numpy as np

from .bars import bars
from .interventions import InterventionReport


def draw_interventions(report: InterventionReport) -> str:
    """Return bars of what each intervention changes of the target, frozen and live."""
    rows = [name for name, _ in report.found]
    values = np.array([found.effect(report.target) for _, found in report.found]).reshape(-1, 2)
    title = f"{report.target.label}: what changes, {report.what}"
    return bars(rows, values, ["frozen", "live"], title=title)
