"""What is measured of a model whatever the text: once, for all views of a session."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock

from ..circuits.heads.heads import Heads, heads
from ..errors import PathexpError
from ..model import Model


@dataclass(eq=False)
class Measured:
    """The types of a model's heads, kept when they were measured to the end.

    >>> import pathexp as px
    >>> measured = Measured(px.load("attn-1l"))
    >>> measured.heads() is measured.heads()
    True
    """

    model: Model
    _heads: Heads | None = None
    _lock: Lock = field(default_factory=Lock)

    def heads(self) -> Heads:
        """Return the types of all heads. Raises PathexpError if the measurement was stopped."""
        with self._lock:
            if self._heads is None:
                found = heads(self.model)
                if found.tally.interrupted:
                    raise PathexpError("the heads were not measured to the end: ask again")
                self._heads = found
            return self._heads
