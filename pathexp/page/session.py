"""A model that is looked at: views that were asked about lately are kept, with all that was computed for them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any

from ..errors import PathexpError
from ..model import Model, Trace
from .measured import Measured
from .panels import PANELS
from .subject import Subject
from .view import View, view_of

KEPT = 4
"""How many views are kept; the one that was not asked about for the longest time goes first."""


@dataclass(eq=False)
class Session:
    """A model, the view that a page begins with, and the subjects that were asked about.

    >>> import pathexp as px
    >>> session = Session(px.load("attn-2l"), View("To be, or not to be"))
    >>> session.ask("query", {"text": "To be, or not to be", "query": "E .* U"})["count"]
    '81'
    """

    model: Model
    start: View
    name: str = ""
    """What `px.load` read the model from, for the code that the page hands out."""
    run: Trace | None = None
    """The run of the first view, where there is one already."""
    _subjects: OrderedDict[View, Subject] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    @cached_property
    def measured(self) -> Measured:
        """What is measured of the model whatever the text."""
        return Measured(self.model)

    def subject(self, view: View) -> Subject:
        """Return what a view is about."""
        with self._lock:
            found = self._subjects.pop(view, None)
            if found is None:
                found = Subject(self.model, view, self._trace(view.text), self.measured)
            self._subjects[view] = found
            while len(self._subjects) > KEPT:
                self._subjects.popitem(last=False)
            return found

    def _trace(self, text: str) -> Trace | None:
        """The run of a text that there is already, so that clicks on tokens do not run it again."""
        if self.run is not None and text == self.start.text:
            return self.run
        made = (s for view, s in reversed(self._subjects.items()) if view.text == text)
        return next((s.trace for s in made if "trace" in s.__dict__), None)

    def ask(self, panel: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a panel shows, as plain data.

        Raises PathexpError for a panel that is not there, and whatever the question refuses.
        """
        if panel not in PANELS:
            raise PathexpError(f"no panel {panel!r:.40}; choose from: {', '.join(PANELS)}")
        return PANELS[panel](self.subject(view_of(given)), given)
