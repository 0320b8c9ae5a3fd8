"""The pair of positions whose attention score is asked about, and what the softmax sees of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...graph import Array
from ...graph.form import ScoreForm


@dataclass(frozen=True)
class Pair:
    """The pair of positions whose score is asked about, in one head of one run."""

    head: str
    query: int
    key: int
    form: ScoreForm
    visible: NDArray[np.bool_] = field(repr=False)
    ratios: Array = field(repr=False)
    """What a soft-cap leaves of the score of each key, (position,), held fixed; ones without a cap."""
    sink: float | None = None
    """The score of the head's sink, where it has one: what is the same for all keys then counts against it."""

    def row(self, values: Array) -> Array:
        """Scores over keys, NaN where the query cannot look."""
        return np.where(self.visible, values, np.nan)

    @property
    def scale(self) -> float:
        """What multiplies the pair's product of query and key: the attention scale, and what a cap leaves."""
        return self.form.scale * float(self.ratios[self.key])

    def attention(self, scores: Array) -> Array:
        """Attention to keys by scores (position,), of those that the query can see; a sink takes its share."""
        seen = np.where(self.visible, scores, -np.inf)
        top = seen.max() if self.sink is None else max(float(seen.max()), self.sink)
        weights = np.exp(seen - top)
        room = weights.sum() + (0.0 if self.sink is None else np.exp(self.sink - top))
        return np.asarray(weights / room)

    def advantage(self, row: Array) -> float:
        """How far the key stands above the mean of the other keys that the query can see; 0 with no other.

        Without a sink the softmax sees nothing else of a term: what is the same for all keys cancels.
        """
        others = self.visible.copy()
        others[self.key] = False
        return float(row[self.key] - row[others].mean()) if others.any() else 0.0

    def is_flat(self, row: Array, size: float) -> bool:
        """Whether a row is the same for all visible keys, up to the rounding of products of a given size.

        Never with a sink, beside which it is a difference.
        """
        if self.sink is not None:
            return False
        seen = row[self.visible]
        return bool(np.ptp(seen) <= _ROUNDINGS * np.finfo(np.float64).eps * size)


_ROUNDINGS = 256
"""How many units of rounding two equal scores may lie apart."""
