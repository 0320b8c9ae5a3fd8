"""One component against what was written before it: what its weights erase, and what is cancelled on runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MARGIN = 4.0
"""A cancellation is significant if it is this many standard deviations above that of a random direction."""
LEAST = 0.1
"""And memory management if it cancels at least this share."""


@dataclass(frozen=True)
class Erasure:
    """One component against what was written before it: a head against a writer, a neuron against the stream.

    `weights`: for a head, the share of a vector in the writer's subspace that comes back negative where it is read
    whole, of as many dimensions as the head can read at most (1 erases, 0 leaves alone, below 0 repeats); for a neuron,
    minus the cosine of its input and output weights. `negative`: of a head, the share of Σ|λ| of its W_OV with a negative
    real part; None for a neuron, and without eigenvalues.

    `measured`: the share that is cancelled at the same position on runs, -Σ⟨out, w⟩ / Σ⟨w, w⟩ less means over
    positions (which are what any shuffled pairing of positions would leave); w is what the writer wrote, or the stream
    along the neuron's output. `baseline`: its standard deviation if the same outputs were randomly rotated. Of a head also
    `own`: of what it reads of w, the share that it gives back negative at the same position because of w, by its attention
    to the present token; 1 for an eraser, however little of w it reads. `read`: that much of w it reads. `present`: its
    mean attention to the present token. None if not measured, or for a neuron; NaN where nothing varies.
    """

    component: str
    writer: str
    weights: float
    negative: float | None = None
    measured: float | None = None
    baseline: float | None = None
    own: float | None = None
    read: float | None = None
    present: float | None = None

    @property
    def z(self) -> float:
        """The measured share over that of a random direction; NaN where it was not measured or nothing varies."""
        return self.measured / self.baseline if self.measured is not None and self.baseline else float("nan")

    @property
    def still(self) -> bool:
        """Whether it was measured, but nothing varies on these runs."""
        return self.measured is not None and bool(np.isnan(self.measured))

    @property
    def confirmed(self) -> bool:
        """Whether the weights erase, and runs cancel a tenth or more of what is read, over 4 times the random baseline."""
        share = self.measured if self.own is None else self.own
        return bool(self.weights > 0 and share is not None and share >= LEAST and self.z > MARGIN)
